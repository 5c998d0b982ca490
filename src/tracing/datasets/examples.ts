// Lists, counts and reads examples.
import type * as z from 'zod'
import { runWithinTime } from '../../kernel/db/bounded-time.ts'
import { run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { createLinkSigner } from './attachment-links.ts'
import { warnOfLongTexts } from './example-filter.ts'
import { countRows, selectExamples } from './example-list.ts'
import { ALL_MEMBERS, type ExampleRow, selectedMembers, toWire } from './example-rows.ts'
import type * as schema from './examples.schema.ts'

type ExampleParams = z.output<typeof schema.ExampleRef>

function requireScope({ dataset, id }: schema.ExampleFilter): void {
  if (dataset === undefined && id === undefined)
    throw invalidRequest([{ type: 'missing', loc: ['query', 'dataset'], msg: 'is required unless `id` is given' }])
}

export const listExamples = verb(
  'datasets:read',
  async (ctx, query: schema.ExampleQuery) => {
    requireScope(query)
    const members = selectedMembers(query)
    warnOfLongTexts(ctx, query)
    const rows = await runWithinTime(ctx, selectExamples(query, query, members))
    if (query.dataset !== undefined) requireRow(rows, 'dataset_not_found')
    const signer = createLinkSigner(ctx, ctx.origin)
    const found = rows.filter((row): row is ExampleRow => row[0] !== null)
    return Promise.all(found.map(row => toWire(row, members, signer)))
  },
  { byPolicy: true },
)

export const countExamples = verb(
  'datasets:read',
  async (ctx, filter: schema.ExampleFilter) => {
    requireScope(filter)
    warnOfLongTexts(ctx, filter)
    return Number(requireRow(await runWithinTime(ctx, countRows(filter)), 'dataset_not_found')[0])
  },
  { byPolicy: true },
)

export const readExample = verb(
  'datasets:read',
  async (ctx, { example_id, ...version }: ExampleParams & z.output<typeof schema.ExampleVersion>) => {
    const query = selectExamples({ ...version, id: [example_id] }, { limit: 1, offset: 0 }, ALL_MEMBERS)
    const [row] = await run(ctx, query)
    if (!row || row[0] === null) throw fail('example_not_found')
    return toWire(row, ALL_MEMBERS, createLinkSigner(ctx, ctx.origin))
  },
)
