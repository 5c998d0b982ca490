// Versions of a dataset: listed, found by time or tag, compared, tagged; and the splits of its examples.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { lockDataset } from './datasets.ts'
import { isInVersion, timeOfTag } from './example-rows.ts'
import type { AsOf } from './examples.schema.ts'
import type { DatasetRef } from './schema.ts'
import type * as schema from './versions.schema.ts'

type DatasetParams = z.output<typeof DatasetRef>

const isDataset = (id: string): SQL => sql`d.id = ${id}::uuid and d.tenant_id = current_tenant()`
/** Adds `latest`, which no row has. */
const TAGS = sql`case when v.as_of = d.examples_at then array['latest'] else '{}' end || v.tags`

/** The tags come as the text of an array in JSON. */
const toWire = ([as_of, tags]: [string, string]): schema.DatasetVersion => ({
  as_of: toIsoTime(as_of),
  tags: JSON.parse(tags),
})

/** The time of the last version of `d` at or before the named one. Null if there is none. */
export const timeOf = (asOf: AsOf): SQL =>
  asOf === undefined
    ? sql`d.examples_at`
    : 'tag' in asOf
      ? timeOfTag(asOf.tag, sql`d.id`)
      : sql`(
        select max(v.as_of)
        from dataset_versions v
        where v.dataset_id = d.id and v.tenant_id = d.tenant_id and v.as_of <= ${asOf.time}::timestamptz
      )`

export const listVersions = verb(
  'datasets:read',
  async (ctx, { dataset_id, ...query }: DatasetParams & schema.VersionQuery) => {
    const { search, example, limit, offset } = query
    const isTagged = sql`exists (select from unnest(v.tags) tag where strpos(lower(tag), lower(${search})) > 0)`
    const hasChanged = sql`exists (
            select from examples e
            where e.tenant_id = d.tenant_id and e.dataset_id = d.id and e.id = ${example}::uuid
              and v.as_of in (e.since, e.until)
          )`
    const rows = await run(
      ctx,
      sql<[string | null, string | null]>`
        select v.as_of, v.tags
        from datasets d
        left join lateral (
          select v.as_of, to_json(${TAGS})::text as tags
          from dataset_versions v
          where v.dataset_id = d.id and v.tenant_id = d.tenant_id
            ${search === undefined ? sql`` : sql`and ${isTagged}`}
            ${example === undefined ? sql`` : sql`and ${hasChanged}`}
          order by v.as_of desc
          limit ${limit}
          offset ${offset}
        ) v on true
        where ${isDataset(dataset_id)}
        order by v.as_of desc`,
    )
    requireRow(rows, 'dataset_not_found')
    return rows.filter((row): row is [string, string] => row[0] !== null).map(toWire)
  },
)

export const readVersion = verb(
  'datasets:read',
  async (ctx, { dataset_id, as_of, tag }: DatasetParams & schema.VersionName) => {
    const asOf = tag === undefined ? as_of : tag === 'latest' ? undefined : { tag }
    const rows = await run(
      ctx,
      sql<[string | null, string | null]>`
        select v.as_of, to_json(${TAGS})::text
        from datasets d
        left join dataset_versions v on v.dataset_id = d.id and v.tenant_id = d.tenant_id and v.as_of = ${timeOf(asOf)}
        where ${isDataset(dataset_id)}`,
    )
    const [time, tags] = requireRow(rows, 'dataset_not_found')
    if (time === null) throw fail('dataset_version_not_found')
    return toWire([time, tags!])
  },
)

/** Finds the examples that only one of two versions has, and those that both have with other contents. */
export const diffVersions = verb(
  'datasets:read',
  async (ctx, { dataset_id, from_version, to_version }: DatasetParams & schema.VersionPair) => {
    const inVersion = (asOf: AsOf) => sql`(
          select e.id, e.since
          from examples e
          where e.tenant_id = d.tenant_id and e.dataset_id = d.id and ${isInVersion(asOf, sql`d.id`)}
        )`
    const idsOf = (condition: SQL) => sql`coalesce(json_agg(coalesce(a.id, b.id)) filter (where ${condition}), '[]')`
    const rows = await run(
      ctx,
      sql<[string | null]>`
        select case when ${timeOf(from_version)} is not null and ${timeOf(to_version)} is not null then (
          select json_build_object(
            'examples_added', ${idsOf(sql`a.id is null`)},
            'examples_removed', ${idsOf(sql`b.id is null`)},
            'examples_modified', ${idsOf(sql`a.since <> b.since`)}
          )
          from ${inVersion(from_version)} a
          full join ${inVersion(to_version)} b on b.id = a.id
        ) end
        from datasets d
        where ${isDataset(dataset_id)}`,
    )
    const [diff] = requireRow(rows, 'dataset_not_found')
    if (diff === null) throw fail('dataset_version_not_found')
    return JSON.parse(diff) as schema.VersionDiff
  },
)

/** A tag names one version: it moves from the one that has it. */
export const tagVersion = verb(
  'datasets:update',
  async (ctx, { dataset_id, as_of, tag }: DatasetParams & schema.VersionTag) => {
    const moved = sql`moved as (
      update dataset_versions v
      set tags = case
        when v.as_of = t.as_of then array_remove(v.tags, ${tag}) || ${tag}::text
        else array_remove(v.tags, ${tag})
      end
      from (
        select v.as_of
        from datasets d
        join dataset_versions v on v.dataset_id = d.id and v.tenant_id = d.tenant_id
        where ${isDataset(dataset_id)}
          and v.as_of = ${as_of && 'time' in as_of ? sql`${as_of.time}::timestamptz` : timeOf(as_of)}
      ) t
      where v.dataset_id = ${dataset_id}::uuid and v.tenant_id = current_tenant()
        and (v.as_of = t.as_of or ${tag} = any(v.tags))
      returning v.as_of, v.tags, v.as_of = t.as_of as is_tagged
    )`
    const change = sql<{ id: string; as_of: string | null; tags: string[] }>`
      select d.id, v.as_of, ${TAGS} as tags
      from datasets d
      left join moved v on v.is_tagged
      where ${isDataset(dataset_id)}
        and case when v.as_of is not null then true else refuse('dataset_version_not_found') end`
    const data = sql`json_build_object('as_of', changed.as_of, 'tag', ${tag}::text)`
    const parts = { ctesBefore: [moved], lock: lockDataset(dataset_id) }
    const row = requireRow(await commit(ctx, 'dataset.version_tagged', change, data, parts), 'dataset_not_found')
    return { as_of: toIsoTime(row.as_of!), tags: row.tags }
  },
)

export const listSplits = verb(
  'datasets:read',
  async (ctx, { dataset_id, as_of }: DatasetParams & schema.SplitQuery) => {
    const rows = await run(
      ctx,
      sql<Row>`
        select case when ${as_of === undefined ? sql`true` : sql`${timeOf(as_of)} is not null`} then (
          select coalesce(json_agg(distinct split order by split), '[]')
          from examples e, jsonb_array_elements_text(e.metadata -> 'dataset_split') split
          where e.tenant_id = d.tenant_id and e.dataset_id = d.id and ${isInVersion(as_of, sql`d.id`)}
        ) end
        from datasets d
        where ${isDataset(dataset_id)}`,
    )
    const [splits] = requireRow(rows, 'dataset_not_found')
    if (splits === null) throw fail('dataset_version_not_found')
    return JSON.parse(splits as string) as string[]
  },
)
