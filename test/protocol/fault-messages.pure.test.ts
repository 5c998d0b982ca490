// Every fault of a schema has a sentence of ours: none comes from the validator.
import { describe, expect, it } from 'vitest'
import * as z from 'zod'
import { describeIssue } from '../../src/protocol/fault-messages.ts'

const schema = z.object({
  text: z.string().min(2).max(4),
  count: z.int().min(1).max(5),
  exclusive: z.number().gt(1).lt(5),
  step: z.number().multipleOf(0.5),
  flag: z.boolean(),
  list: z.array(z.string()).min(1).max(2),
  choice: z.enum(['a', 'b']),
  constant: z.literal('x'),
  id: z.uuid(),
  address: z.url(),
  time: z.iso.datetime(),
  pattern: z.string().regex(/^a$/),
  map: z.record(z.string(), z.number()),
  nested: z.object({ member: z.string() }),
  union: z.union([z.string(), z.number()]),
  closed: z.strictObject({}),
})
type Faulty = { [member in keyof z.output<typeof schema>]?: unknown }

const valid = {
  text: 'abc',
  count: 1,
  exclusive: 2,
  step: 1,
  flag: true,
  list: ['a'],
  choice: 'a',
  constant: 'x',
  id: 'b4d1a4ac-4a8e-4e1a-9c2e-3b1c0a5c9d11',
  address: 'https://a.example',
  time: '2026-01-31T12:00:00Z',
  pattern: 'a',
  map: {},
  nested: { member: '' },
  union: 1,
  closed: {},
}
const messagesOf = (faulty: Faulty) =>
  schema.safeParse({ ...valid, ...faulty }, { error: describeIssue }).error!.issues.map(({ message }) => message)

describe('a fault', () => {
  it.each<[Faulty, string]>([
    [{ text: undefined }, 'is required'],
    [{ text: 1 }, 'must be a string'],
    [{ text: 'a' }, 'must have at least 2 characters'],
    [{ text: 'abcde' }, 'must have at most 4 characters'],
    [{ count: 1.5 }, 'must be a whole number'],
    [{ count: 0 }, 'must be at least 1'],
    [{ exclusive: 1 }, 'must be more than 1'],
    [{ exclusive: 5 }, 'must be less than 5'],
    [{ step: 0.3 }, 'must be a multiple of 0.5'],
    [{ flag: 'yes' }, 'must be true or false'],
    [{ list: [] }, 'must have at least 1 item'],
    [{ list: {} }, 'must be a list'],
    [{ choice: 'c' }, 'must be one of `a`, `b`'],
    [{ constant: 'y' }, 'must be `x`'],
    [{ id: 'x' }, 'must be a UUID'],
    [{ address: 'x' }, 'must be a URL'],
    [{ time: 'x' }, 'must be a date and time, such as 2026-01-31T12:00:00Z'],
    [{ pattern: 'b' }, 'must be in another format'],
    [{ map: [] }, 'must be an object'],
    [{ nested: 'x' }, 'must be an object'],
    [{ union: true }, 'is not valid'],
    [{ closed: { a: 1 } }, 'has unknown members: a'],
  ])('in %j has its sentence', (faulty, message) => expect(messagesOf(faulty)).toEqual([message]))
})
