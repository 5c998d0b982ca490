import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { loadOperations } from '../../../src/app.ts'
import { toCsvLine } from '../../../src/people/audit/export.ts'
import { EVENT_OPERATIONS, nameRouteOperation } from '../../../src/people/audit/operation-names.ts'

const operations = await loadOperations()

const root = join(import.meta.dirname, '../../..')
const readAll = (folder: string, extension: string) =>
  readdirSync(join(root, folder), { recursive: true, encoding: 'utf8' })
    .filter(name => name.endsWith(extension) && !/^(agent|api-docs|people\/audit|dashboard|graphs)\//.test(name))
    .map(name => readFileSync(join(root, folder, name), 'utf8'))
    .join('\n')

describe('the names of operations', () => {
  it('exist for every type of event that the source names', () => {
    // `test/support/app.ts` checks the types of the events that each request of each test writes.
    // `webhook.ping` is a message without an event, `session.id` an attribute of spans.
    const subjects = [...new Set(Object.keys(EVENT_OPERATIONS).map(type => type.split('.')[0]))].join('|')
    const literal = new RegExp(`'((?:${subjects})\\.(?!json'|ping'|id')[a-z_]+)'`, 'g')
    const source = readAll('src', '.ts') + readAll('drizzle/functions', '.sql')
    const types = [...new Set([...source.matchAll(literal)].map(([, type]) => type!))]
    expect(types.length).toBeGreaterThan(50)
    expect(types.filter(type => !(type in EVENT_OPERATIONS))).toEqual([])
  })

  it('are a verb and a noun', () => {
    const names = operations.filter(({ kind }) => kind !== 'open').map(({ id }) => nameRouteOperation(id))
    for (const name of [...names, ...Object.values(EVENT_OPERATIONS)]) expect(name).toMatch(/^[a-z]+(_[a-z]+)+(_v2)?$/)
  })

  it('are those of the event, for routes that write one resource', () => {
    for (const id of [
      'createDeployment',
      'patchDeployment',
      'revokeWorkspaceKey',
      'changeRole',
      'addTags',
      'setPreviewPolicy',
      'changeWebhook',
      'redeliverWebhookDelivery',
    ])
      expect(Object.values(EVENT_OPERATIONS), id).toContain(nameRouteOperation(id))
  })
})

describe('a cell of CSV', () => {
  it.each([
    ['=1+1', "'=1+1"],
    ['+1', "'+1"],
    ['-1', "'-1"],
    ['@x', "'@x"],
    ['\t=1', "'\t=1"],
    ['a,b', '"a,b"'],
    ['say "x"', '"say ""x"""'],
    ['=a,"b"', `"'=a,""b"""`],
    ['two\nlines', '"two\nlines"'],
    [null, ''],
    [true, 'true'],
  ])('%j is %j', (value, cell) => expect(toCsvLine([value])).toBe(`${cell}\r\n`))
})
