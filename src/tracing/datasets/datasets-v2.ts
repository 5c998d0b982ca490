// Lists datasets, and examples with the runs of experiments, for the second version of the API.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { runWithinTime } from '../../kernel/db/bounded-time.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { toOffsetPage } from '../projects/projects-v2.schema.ts'
import { columnsOfV2, readSelects } from '../runs/run-wire-v2.ts'
import type { Page, SelectV2 } from '../runs/runs-v2.schema.ts'
import { readPage, showRunsV2 } from '../runs/runs-v2.ts'
import type { RunCursor, StoredRun } from '../store/queries.ts'
import { createLinkSigner } from './attachment-links.ts'
import { findDatasets } from './datasets.ts'
import type * as schema from './datasets-v2.schema.ts'
import { selectExamples } from './example-list.ts'
import { ALL_MEMBERS, type ExampleRow, toWire } from './example-rows.ts'
import type { Example } from './examples.schema.ts'
import type { DatasetRef } from './schema.ts'

export const listDatasetsV2 = verb(
  'datasets:read',
  async (ctx, input: schema.DatasetQueryV2): Promise<Page<schema.DatasetV2>> => {
    const { cursor, page_size, sort_order, exclude, exclude_corrections_datasets: _, ...filters } = input
    const bounds = { limit: page_size + 1, offset: cursor ?? 0 }
    const found = await findDatasets(ctx, { ...filters, ...bounds, sort_by_desc: sort_order === 'desc' })
    const shown: schema.DatasetV2[] = exclude ? found.map(dataset => ({ ...dataset, example_count: null })) : found
    return toOffsetPage(shown, bounds)
  },
  { byPolicy: true },
)

/** The second trip reads the runs, which may be in another store. */
export const queryExperimentRuns = verb(
  'runs:read',
  async (
    ctx,
    { dataset_id, ...input }: z.output<typeof DatasetRef> & schema.ExperimentRunQuery,
  ): Promise<schema.ExperimentRunPage> => {
    const selects = readSelects(input.selects)
    const bounds = { limit: input.page_size + 1, offset: input.cursor ?? 0 }
    const dataset = sql`(
        select n.id
        from datasets n
        where n.id = ${dataset_id}::uuid
          and n.tenant_id = current_tenant()
          and require_permission_for('datasets:read', n.tag_value_ids)
      )`
    const filter = { ...(input.example_ids && { id: input.example_ids }) }
    const rows = await runWithinTime(ctx, selectExamples(filter, { ...bounds, order: 'id' }, ALL_MEMBERS, dataset))
    requireRow(rows, 'dataset_not_found')
    const page = toOffsetPage(
      rows.filter((row): row is ExampleRow => row[0] !== null),
      bounds,
    )
    const ids = page.items.map(([id]) => id)
    const stored = await readExperimentRuns(ctx, input.experiment_ids, ids, selects)
    const runs = await showRunsV2(ctx, stored, selects)
    const signer = createLinkSigner(ctx, ctx.origin)
    const examples = await Promise.all(page.items.map(row => toWire(row, ALL_MEMBERS, signer)))
    const isAbout = (id: string) => (_: unknown, i: number) => stored[i]!.reference_example_id === id
    return { ...page, items: examples.map(one => ({ ...showExample(one), runs: runs.filter(isAbout(one.id)) })) }
  },
  { byPolicy: true },
)

const MAX_RUNS = 1000
const MAX_PAGES = 5

/** All of them, so that no example lacks a run without a word. */
async function readExperimentRuns(
  ctx: Ctx,
  projects: string[],
  examples: string[],
  selects: readonly SelectV2[],
): Promise<StoredRun[]> {
  const columns = [...new Set([...columnsOfV2(selects), 'reference_example_id' as const])]
  const query = { projects, reference_examples: examples, is_root: true, order: 'desc' as const, limit: MAX_RUNS }
  const runs: StoredRun[] = []
  let cursor: RunCursor | undefined
  for (let pages = 0; pages < MAX_PAGES; pages++) {
    const page = await readPage(ctx, { ...query, columns, cursor })
    runs.push(...page.runs)
    if (!page.next) return runs
    cursor = page.next
  }
  throw fail('query_too_slow', { detail: 'These examples have too many runs. Ask for fewer: lower `page_size`.' })
}

type ExampleOfRuns = Omit<schema.ExperimentRunPage['items'][number], 'runs'>
/** Attachments by their names alone. */
function showExample({ attachment_urls: links, ...example }: Example): ExampleOfRuns {
  const urls = Object.entries(links ?? {}).map(([name, link]) => [name.replace('attachment.', ''), link.presigned_url])
  return { ...(example as ExampleOfRuns), attachment_urls: links ? Object.fromEntries(urls) : null }
}
