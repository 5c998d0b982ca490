// The app uses these parts of its runtime beside the Web APIs: docs/design/runtimes.md has the reasons. workerd, Node,
// Deno and Bun have all of them, and test/kernel/built-ins.test.ts uses each of them there.
import { readFileSync } from 'node:fs'
import { isBuiltin } from 'node:module'
import { join } from 'node:path'
import { parseAst } from 'vite'
import { expect, it } from 'vitest'
import { SRC, sourceFiles } from '../support/source-files.ts'

/** Programs for Node, the hosts of the app, code that only these import, and pages of browsers. */
const NOT_THE_APP = /^(host|agent|cli|postgres|graphs|api-docs\/client)\/|^kernel\/db\/streamed-fetch\.ts$/

/** The file, the module and, of a static import, its members. */
const BUILT_INS = [
  'kernel/crypto/digest.ts: node:crypto createHash, createHmac, hash, timingSafeEqual',
  'kernel/http/decompress.ts: node:stream',
  'kernel/http/decompress.ts: node:zlib',
  'kernel/http/txt-records.ts: node:dns/promises Resolver',
]
/** Globals of Node. `Buffer` converts base64 and hex, for which Node 22 and 24 have no Web API. */
const NODE_GLOBALS = [
  'process',
  'require',
  'module',
  'global',
  '__dirname',
  '__filename',
  'setImmediate',
  'clearImmediate',
]

/** A cheap check before the parser, which takes seconds for all files. */
const isSuspect = (source: string) =>
  new RegExp(`\\b(${NODE_GLOBALS.join('|')})\\b|import\\(`).test(source) ||
  [...source.matchAll(/(?:from|import) ['"]([^'"]+)/g)].some(([, from]) => isOfRuntime(from!))

type Node = { type: string; [member: string]: unknown }
type Use = { from: string; members: string[] }

/** Modules that are imported, and the globals of Node that are used, in this source. */
function readUses(source: string): { imports: Use[]; globals: string[] } {
  const imports: Use[] = []
  const globals: string[] = []
  const local = new Set<string>()
  const visit = (node: Node, parent: Node | undefined, key: string) => {
    const from = (node.source as Node | undefined)?.value
    if (typeof from === 'string') {
      const specifiers = (node.specifiers ?? []) as { imported?: Node; type: string }[]
      const members = specifiers.map(({ imported, type }) => String(imported?.name ?? type))
      imports.push({ from, members })
    }
    if (node.type === 'ImportExpression' && typeof from !== 'string') imports.push({ from: COMPUTED, members: [] })
    if (node.type === 'Identifier') {
      const name = String(node.name)
      const isMember =
        (parent?.type === 'MemberExpression' && key === 'property' && !parent.computed) ||
        (key === 'key' && !parent?.computed)
      const isDeclared =
        /Declarator|Function|ImportSpecifier|TS/.test(parent?.type ?? '') && key !== 'init' && key !== 'body'
      if (isDeclared) local.add(name)
      else if (!isMember && NODE_GLOBALS.includes(name)) globals.push(name)
      if (isMember && NODE_GLOBALS.includes(name) && (parent?.object as Node | undefined)?.name === 'globalThis')
        globals.push(name)
    }
    for (const [name, child] of Object.entries(node)) {
      for (const one of Array.isArray(child) ? child : [child]) {
        if (one && typeof one === 'object' && typeof one.type === 'string') visit(one as Node, node, name)
      }
    }
  }
  visit(parseAst(source, { lang: 'ts' }) as unknown as Node, undefined, '')
  return { imports, globals: globals.filter(name => !local.has(name)) }
}

/** A dynamic import whose name is not text, so that the check cannot see it. */
const COMPUTED = 'a computed name'
const isOfRuntime = (from: string) =>
  from === COMPUTED ||
  isBuiltin(from) ||
  /^(node|bun|deno|cloudflare|workerd|jsr|npm|https?):/.test(from) ||
  from === 'bun'

const files = sourceFiles.filter(path => !NOT_THE_APP.test(path))

it('the app imports only the listed members of the listed modules of its runtime, and uses no globals of Node', () => {
  const found = new Set<string>()
  for (const file of files) {
    const source = readFileSync(join(SRC, file), 'utf8')
    if (!isSuspect(source)) continue
    const { imports, globals } = readUses(source)
    for (const name of globals) found.add(`${file}: the global ${name}`)
    for (const { from, members } of imports.filter(({ from }) => isOfRuntime(from)))
      found.add(`${file}: ${[from, members.sort().join(', ')].join(' ').trim()}`)
  }
  expect([...found].sort()).toEqual(BUILT_INS)
})

it('the app makes no response by Response.json(), to whose media type Bun adds a charset', () => {
  const users = files.filter(file => /\bResponse\.json\(/.test(readFileSync(join(SRC, file), 'utf8')))
  expect(users).toEqual([])
})

it.each([
  ["import { readFile } from 'node:fs'", 'node:fs'],
  ["import fs from 'fs'", 'fs'],
  ["export { readFile } from 'node:fs/promises'", 'node:fs/promises'],
  ["const fs = await import('node:fs')", 'node:fs'],
  ["import { env } from 'cloudflare:workers'", 'cloudflare:workers'],
  ["import 'bun:sqlite'", 'bun:sqlite'],
])('the check sees %s', (source, from) => {
  expect(
    readUses(source)
      .imports.filter(use => isOfRuntime(use.from))
      .map(use => use.from),
  ).toEqual([from])
})

it.each([
  'const home = process.env.HOME',
  'const { env } = process',
  "const fs = require('fs')",
  'globalThis.process.exit(1)',
  'setImmediate(() => {})',
])('the check sees the global in %s', source => {
  expect(isSuspect(source)).toBe(true)
  expect(readUses(source).globals).toHaveLength(1)
})

it.each(["text('process.env')", 'const process = 1; process + 1', 'row.process.module', '({ module: 1, process: 2 })'])(
  'the check passes over %s',
  source => {
    expect(readUses(source).globals).toEqual([])
  },
)
