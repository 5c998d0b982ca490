// Every error code can be raised: it stands in code that refuses something, not only in lists of what a route answers.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { parseAst } from 'vite'
import { describe, expect, it } from 'vitest'
import { codes } from '../../src/kernel/http/codes.ts'
import { SRC, sourceFiles } from '../support/source-files.ts'

const DRIZZLE = join(SRC, '../drizzle')
/** Programs have failures of their own, some of the same name. */
const isControlPlane = (file: string) => !/^(agent|cli|client|api-docs)\/|(^|\/|-)codes\.ts$/.test(file)
const CODE = new RegExp(`'(${codes.join('|')})'`)

type Node = { type: string; [member: string]: unknown }
const isNode = (value: unknown): value is Node => typeof value === 'object' && value !== null && 'type' in value

/** Collects the strings of a module outside of lists, comparisons and types, and the codes of refuse() in its SQL. */
function listRaised(node: Node, parent: Node | null, raised: Set<unknown>): Set<unknown> {
  const isListed = parent === null || /^(Array|Binary)Expression$|^TS/.test(parent.type)
  const isLookup = parent?.type === 'CallExpression' && (parent.callee as Node).type === 'MemberExpression'
  const isKey = parent?.type === 'Property' && parent.key === node
  if (node.type === 'Literal' && !isListed && !isLookup && !isKey) raised.add(node.value)
  if (node.type === 'TemplateElement')
    for (const [, code] of (node.value as { raw: string }).raw.matchAll(/\brefuse\(\s*'(\w+)'/g)) raised.add(code)
  for (const child of Object.values(node).flat()) if (isNode(child)) listRaised(child, node, raised)
  return raised
}
const raisedBy = (text: string) => listRaised(parseAst(text, { lang: 'ts' }) as unknown as Node, null, new Set())

describe('error codes', () => {
  it('are all raised by the control plane, a function or a constraint of the database', () => {
    const texts = sourceFiles.filter(isControlPlane).map(file => readFileSync(join(SRC, file), 'utf8'))
    const raised = new Set(texts.filter(text => CODE.test(text)).flatMap(text => [...raisedBy(text)]))
    for (const name of readdirSync(join(DRIZZLE, 'functions'))) {
      const text = readFileSync(join(DRIZZLE, 'functions', name), 'utf8')
      for (const [, code] of text.matchAll(/(?<![=<>] )'(\w+)'/g)) raised.add(code)
    }
    const schema = readFileSync(join(DRIZZLE, 'schema.sql'), 'utf8')
    for (const [, name] of schema.matchAll(/\b(?:constraint|unique index) (\w+)/gi)) raised.add(name)
    expect(codes.filter(code => !raised.has(code))).toEqual([])
  })

  it('are not raised by a list, a comparison, a type, a key or a lookup', () => {
    const text = `
      const ERRORS = ['a'] as const
      route({ errors: ['b', ...OTHERS] })
      const isC = (error: { code: 'c' | 'd' }) => error.code === 'c' || FINAL.includes('d')
      const titles = { 'e': title }
      const query = sql\`select refuse('f') where state = 'g'\`
      throw fail(isH ? 'h' : 'i')`
    expect([...raisedBy(text)]).toEqual(['f', 'h', 'i'])
  })
})
