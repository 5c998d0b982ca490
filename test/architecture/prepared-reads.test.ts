// A read that Drizzle's builder makes is built once for each shape of its input, and not again for each request.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { parseAst } from 'vitest/node'
import { SRC, sourceFiles } from '../support/source-files.ts'

type Node = { type?: string; name?: string; [member: string]: unknown }

/** Declarations with a read outside `prepareStatement()`, each with its reason. */
const EXCEPTIONS = {
  'hosting/deployments/list.ts plainPage': 'A prepared page has it, and the first page, which is compiled once.',
}

/** The top declarations that build a read, unless `prepareStatement()` builds it, called once by the module. */
function findUnprepared(source: string): string[] {
  const found = new Set<string>()
  visitNode(parseAst(source.replace(/^#!/, '//'), { lang: 'ts' }) as unknown, found)
  return [...found]
}

function visitNode(node: unknown, found: Set<string>, declaration?: string, isInFunction = false): void {
  if (Array.isArray(node)) for (const one of node) visitNode(one, found, declaration, isInFunction)
  else if (typeof node === 'object' && node !== null) {
    const { type = '', id, callee } = node as Node & { id?: Node; callee?: Node }
    if (type === 'CallExpression' && callee?.name === 'prepareStatement' && !isInFunction) return
    if (type === 'CallExpression' && isRead(callee as Node)) found.add(declaration ?? 'module')
    for (const member of Object.values(node))
      visitNode(member, found, declaration ?? id?.name, isInFunction || type.includes('Function'))
  }
}

const isRead = ({ object, property }: Node) =>
  (object as Node | undefined)?.name === 'db' && (property as Node).name?.startsWith('select')

it('reads are prepared, except those that are listed', () => {
  const sites = sourceFiles.flatMap(file =>
    findUnprepared(readFileSync(join(SRC, file), 'utf8')).map(name => `${file} ${name}`),
  )
  expect(sites.sort()).toEqual(Object.keys(EXCEPTIONS).sort())
})

describe('the check of reads', () => {
  it.each([
    ['a function', 'const find = () => db.select().from(a)', 'find'],
    ['a read over several lines', 'export async function find() {\n  return db\n    .selectDistinct()\n}', 'find'],
    ['a verb', "export const readA = verb('a:read', ctx => run(ctx, db.select().from(a)))", 'readA'],
    ['a statement that is prepared for each request', 'const find = () => prepareStatement(() => db.select())', 'find'],
  ])('finds one in %s', (_, source, name) => expect(findUnprepared(source)).toEqual([name]))

  it('finds none in a statement of the module, nor in a write', () => {
    const prepared = 'const a = prepareStatement(({ id }) => db.select().where(eq(b.id, id)))'
    expect(findUnprepared(`${prepared}\nconst c = () => db.insert(b).select(d)`)).toEqual([])
  })
})
