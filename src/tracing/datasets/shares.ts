// Shared datasets: everyone who has the link reads the dataset and its examples, without a key.
import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { LIMIT_TIME, refuseSlow } from '../../kernel/db/bounded-time.ts'
import { db, run, runAsSystem, runSlowAsSystem } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { createLinkSigner } from './attachment-links.ts'
import { isDataset, lockDataset } from './datasets.ts'
import { countRows, selectExamples } from './example-list.ts'
import { type ExampleRow, SHARED_MEMBERS, toWire } from './example-rows.ts'
import type { ExampleFilter } from './examples.schema.ts'
import type { DatasetRef } from './schema.ts'
import type * as schema from './shares.schema.ts'
import { datasets } from './tables.ts'

type DatasetParams = z.output<typeof DatasetRef>

const SHARE_COLUMNS = { id: datasets.id, share_token: datasets.share_token }
const shareStatement = prepareStatement(({ dataset_id }: Placeholders<DatasetParams>) =>
  db.select(SHARE_COLUMNS).from(datasets).where(isDataset(dataset_id)),
)

export const readShare = verb('datasets:read', async (ctx, { dataset_id }: DatasetParams) =>
  toShare(requireRow(await run(ctx, shareStatement({ dataset_id })), 'dataset_not_found')),
)

/** A dataset has one link. Sharing it again returns the same. */
export const shareDataset = verb('datasets:share', async (ctx, { dataset_id }: DatasetParams) => {
  const change = db
    .update(datasets)
    .set({ share_token: sql`coalesce(${datasets.share_token}, gen_random_uuid())` })
    .where(isDataset(dataset_id))
    .returning(SHARE_COLUMNS)
  const rows = await commit(ctx, 'dataset.shared', change, {}, { lock: lockDataset(dataset_id) })
  return toShare(requireRow(rows, 'dataset_not_found'))!
})

/** The link does not work from now on, and another one is made when the dataset is shared again. */
export const unshareDataset = verb('datasets:share', async (ctx, { dataset_id }: DatasetParams) => {
  const change = db
    .update(datasets)
    .set({ share_token: null })
    .where(isDataset(dataset_id))
    .returning({ id: datasets.id })
  const rows = await commit(ctx, 'dataset.unshared', change, {}, { lock: lockDataset(dataset_id) })
  return { id: requireRow(rows, 'dataset_not_found').id }
})

const toShare = ({ id, share_token }: { id: string; share_token: string | null }) =>
  share_token === null ? null : { dataset_id: id, share_token }

// ---- readers without a key

const hasToken = (token: string | Placeholder): SQL => sql`share_token = ${token}::uuid`
const sharedDataset = (token: string): SQL => sql`(select id from datasets where ${hasToken(token)})`

/** Reads as a request in the workspace of the dataset would. */
async function readAs<Row>({ database }: Services, token: string, query: SQL<Row>): Promise<Row[]> {
  const enter = sql`
    select set_config('app.tenant_id', tenant_id::text, true)
    from datasets
    where ${hasToken(token)}`
  const [entered, , rows] = await refuseSlow(runSlowAsSystem(database, enter, LIMIT_TIME, query))
  if (entered!.length === 0) throw fail('share_not_found')
  return rows as Row[]
}

const sharedStatement = prepareStatement(({ share_token }: Placeholders<schema.Share>) => {
  const { name, description, created_at, data_type, example_count } = datasets
  const { inputs_schema_definition, outputs_schema_definition, externally_managed, id } = datasets
  const columns = { id, name, description, created_at, data_type, example_count }
  const others = { inputs_schema_definition, outputs_schema_definition, externally_managed }
  return db
    .select({ ...columns, ...others })
    .from(datasets)
    .where(hasToken(share_token))
})

export async function readSharedDataset(
  services: Services,
  { share_token }: schema.Share,
): Promise<schema.SharedDataset> {
  const statement = sharedStatement({ share_token })
  const [[row]] = (await runAsSystem(services.database, statement)) as [(typeof datasets.$inferSelect)[]]
  if (!row) throw fail('share_not_found')
  return { ...row, created_at: toIsoTime(row.created_at), transformations: null }
}

export async function listSharedExamples(
  services: Services,
  origin: string,
  { share_token, ...query }: schema.Share & schema.SharedExampleQuery,
) {
  const members = query.select ?? SHARED_MEMBERS
  const statement = selectExamples(query, query, members, sharedDataset(share_token))
  const rows = await readAs(services, share_token, statement)
  const signer = createLinkSigner(services, origin)
  const found = rows.filter((row): row is ExampleRow => row[0] !== null)
  return Promise.all(found.map(row => toWire(row, members, signer)))
}

export async function countSharedExamples(
  services: Services,
  { share_token, ...filter }: schema.Share & ExampleFilter,
): Promise<number> {
  const rows = await readAs(services, share_token, countRows(filter, sharedDataset(share_token)))
  return Number(rows[0]![0])
}
