// A comment begins with a subject or a verb, not with a fragment: "What it holds" makes a reader ask "the what of
// what?". So does the title of a test.
import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseSync } from 'vite'
import { describe, expect, it } from 'vitest'

const root = join(import.meta.dirname, '../..')

/** Generated files, and migrations, which are never edited. */
const EXEMPT = /^dist\/|^drizzle\/(schema|\d+_\w+)\.sql$|^src\/api-docs\/client-bundle\.ts$/

/** A comment in the body of a function is part of it, so it changes with the next migration of the function. */
const IN_BODIES = ['drizzle/functions/sign-in.sql: Of several organizations, the one where …']

const FRAGMENTS =
  /^(what|of|as|whether|those|who|whose|where|how|why|which|that|whatever|whoever|whichever|wherever|nobody|somebody)\b/i
/** Titles are lower case, and an `it` is read after its `describe`: "a build" > "that fails reports its exit code". */
const TITLE_FRAGMENTS = /^(what|of|as|whether|those|who|where|how|whatever|whoever)\b/
const TESTS = ['it', 'test', 'describe']

type Beginning = { start: number; text: string }
type Node = { type?: string; start?: number; [member: string]: unknown }

const HASH_FILES = /\.(sh|yaml|yml|toml|service|conf)$|(^|\/)Dockerfile$/
const isCode = (path: string) => /\.(ts|tsx|mts|mjs|cjs|js)$/.test(path)
const hasBlockComments = (path: string) => /\.(css|tpl)$/.test(path)
const lineCommentsOf = (path: string) => {
  if (path.endsWith('.sql')) return /--(.*)$/
  return HASH_FILES.test(path) ? /(?:^|\s)#(?!!)(.*)$/ : undefined
}

/** The comments and the titles of tests that begin with a fragment. */
function findFragments(path: string, text: string): { line: number; text: string }[] {
  const beginnings = isCode(path)
    ? beginningsOfCode(path, text)
    : { comments: beginningsOfText(path, text), titles: [] }
  const found = [
    ...beginnings.comments.filter(({ text }) => FRAGMENTS.test(text)),
    ...beginnings.titles.filter(({ text }) => TITLE_FRAGMENTS.test(text)),
  ]
  return found.map(beginning => ({ line: text.slice(0, beginning.start).split('\n').length, text: beginning.text }))
}

function beginningsOfCode(path: string, text: string): { comments: Beginning[]; titles: Beginning[] } {
  const { comments, program, errors } = parseSync(path, text)
  if (errors.length > 0) throw new Error(`${path}: ${errors[0]!.message}`)
  const isFirst = (start: number, i: number) => {
    const before = comments[i - 1]
    if (before?.type !== 'Line' || !/^\n[ \t]*$/.test(text.slice(before.end, start))) return true
    const isWholeLine = text.slice(text.lastIndexOf('\n', before.start) + 1, before.start).trim() === ''
    return !isWholeLine || before.value.trim() === ''
  }
  const titles: Beginning[] = []
  visitTitles(program as unknown, (title, start) => titles.push({ start, text: title }))
  return {
    comments: comments
      .filter(({ start }, i) => isFirst(start, i))
      .map(({ value, start }) => ({ start, text: firstWords(value) })),
    titles,
  }
}

function visitTitles(node: unknown, found: (title: string, offset: number) => void): void {
  if (Array.isArray(node)) for (const one of node) visitTitles(one, found)
  else if (typeof node === 'object' && node !== null) {
    const { type, callee, arguments: args } = node as Node
    const [title] = (type === 'CallExpression' ? args : []) as Node[]
    if (title && TESTS.includes(rootName(callee as Node)!)) {
      const text =
        title.type === 'TemplateLiteral' ? (title.quasis as { value: { raw: string } }[])[0]!.value.raw : title.value
      if (typeof text === 'string') found(text, title.start!)
    }
    for (const member of Object.values(node)) visitTitles(member, found)
  }
}

/** `it` of `it.each(rows)('title')`. */
function rootName(callee: Node): string | undefined {
  const inner = callee.object ?? callee.callee ?? callee.tag
  return inner ? rootName(inner as Node) : (callee.name as string | undefined)
}

function beginningsOfText(path: string, text: string): Beginning[] {
  const pattern = lineCommentsOf(path)
  const lines = text.split('\n')
  let next = 0
  const lineBeginnings = lines.flatMap((line, i) => {
    const start = next
    next += line.length + 1
    const comment = pattern?.exec(withoutStrings(line))?.[1]
    const before = lines[i - 1] ?? ''
    const isContinued = /^\s*(--|#(?!!))\s*\S/.test(before)
    return comment === undefined || isContinued ? [] : [{ start, text: firstWords(comment) }]
  })
  const blocks = hasBlockComments(path) ? [...text.matchAll(/\/\*([\s\S]*?)\*\//g)] : []
  return [...lineBeginnings, ...blocks.map(({ index, 1: value }) => ({ start: index, text: firstWords(value!) }))]
}

/** A `--` or `#` in a string begins no comment. */
const withoutStrings = (line: string) => line.replace(/'[^']*'|"[^"]*"/g, "''")

const firstWords = (comment: string) =>
  comment
    .replace(/^[\s*!#-]+/, '')
    .split(/\s+/)
    .slice(0, 6)
    .join(' ')

it('no comment and no title of a test begins with a fragment', () => {
  const tracked = execFileSync('git', ['ls-files'], { cwd: root, encoding: 'utf8' }).split('\n')
  const files = tracked.filter(
    path =>
      !EXEMPT.test(path) &&
      (isCode(path) || hasBlockComments(path) || lineCommentsOf(path)) &&
      existsSync(join(root, path)),
  )
  const found = files.flatMap(path =>
    findFragments(path, readFileSync(join(root, path), 'utf8')).map(({ line, text }) => `${path}:${line}: ${text} …`),
  )
  expect(found.filter(line => !IN_BODIES.includes(line.replace(/:\d+/, '')))).toEqual([])
})

describe('a fragment', () => {
  it.each([
    ['a line comment', 'a.ts', '// What it holds.\n'],
    ['a lower-case comment after code', 'a.ts', 'f() // of the caller'],
    ['a comment after that of another line', 'a.ts', 'f() // Sends it.\n// Whether it is there.\ng()'],
    ['a paragraph of a comment', 'a.ts', '// Sends it.\n//\n// As before.\n'],
    ['a block comment', 'a.ts', '/**\n * Those of the caller. */'],
    ['a comment between elements', 'a.tsx', 'const a = <p>{/* Where it is. */}</p>'],
    ['a title', 'a.ts', "it('of the caller is kept', () => {})"],
    ['a title of a table', 'a.ts', "describe.each([1])('what it sends', () => {})"],
    ['a comment of SQL', 'a.sql', "select '--'; -- Who asks."],
    ['a comment of a shell', 'a.sh', '#!/bin/sh\n# How it ends.\n'],
    ['the comment of a program', 'a.ts', '#!/usr/bin/env node\n// How it ends.\n'],
    ['a comment of a style', 'a.css', '/* What is dark. */'],
  ])('is found in %s', (_, path, text) => expect(findFragments(path, text)).toHaveLength(1))

  it.each([
    ['the second line of a comment', 'a.ts', '// Sends the parts\n// of the caller.\n'],
    ['the second line of a block', 'a.ts', '/**\n * Sends the parts\n * of the caller.\n */'],
    ['a word that only begins like one', 'a.ts', '// Asks again. \n'],
    ['a string', 'a.ts', "f('// what')"],
    ['a title that continues the one around it', 'a.ts', "it('that fails is sent again', () => {})"],
    ['the second line of SQL', 'a.sql', '-- Sends the parts\n-- of the caller.\n'],
    ['a string of SQL', 'a.sql', "select '-- of'"],
    ['a hash within a word', 'a.sh', 'echo a#what'],
  ])('is not found in %s', (_, path, text) => expect(findFragments(path, text)).toEqual([]))
})
