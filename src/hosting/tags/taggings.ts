// Taggings: the tags of resources of every kind, in one list. A resource keeps the ids of its tag values in a column,
// and the id of a tagging is derived from both.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, refuseUnless, run } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changesBetween } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Permission } from '../../kernel/permissions.ts'
import { lockTagKeys, selectKeyIds, type TagKeyRow, type TagValueRow } from './tag-keys.ts'
import { MAX_TAGS } from './tags.schema.ts'
import * as schema from './workspace-tags.schema.ts'
import { tagKeyToWire, tagValueToWire } from './workspace-tags.ts'

type Kind = 'project' | 'dataset' | 'deployment' | 'queue'
type TaggedTable = {
  table: SQL
  listed: (typeof schema.TaggedKinds)[number]
  /** The name in the types of its events. */
  subject: string
  reading: Permission
  updating: Permission
}

const TABLES: Record<Kind, TaggedTable> = {
  project: {
    table: sql`projects`,
    listed: 'projects',
    subject: 'project',
    reading: 'projects:read',
    updating: 'projects:update',
  },
  dataset: {
    table: sql`datasets`,
    listed: 'datasets',
    subject: 'dataset',
    reading: 'datasets:read',
    updating: 'datasets:update',
  },
  deployment: {
    table: sql`deployments`,
    listed: 'deployments',
    subject: 'deployment',
    reading: 'deployments:read',
    updating: 'deployments:update',
  },
  queue: {
    table: sql`annotation_queues`,
    listed: 'queues',
    subject: 'annotation_queue',
    reading: 'annotation-queues:read',
    updating: 'annotation-queues:update',
  },
}
const kinds = Object.keys(TABLES) as Kind[]
/** The limit of a project, a dataset or a queue. */
const MAX_TAGS_OF_OTHERS = 100
const MAX_LISTED = 10_000
const IN_WORKSPACE = { inWorkspace: true }

function findKind(type: (typeof schema.taggedKinds)[number]): Kind {
  const kind = type === 'experiment' ? 'project' : type
  if (!(kind in TABLES)) throw fail('resource_not_found')
  return kind as Kind
}

/** Judges rows of lists. A row that only a policy permits is left out; a row that a policy denies is hidden anyway. */
const mayReadKind = ({ reading }: TaggedTable): SQL => sql`${reading} = any(actor_permissions())`
const mayRead = ({ reading }: TaggedTable): SQL => sql`is_permitted_for(${reading}, r.tag_value_ids)`
/** A deployment that is being deleted keeps its tags. */
const isPresent = (kind: Kind): SQL => (kind === 'deployment' ? sql`r.deleting_at is null` : sql`true`)

/** Tags as text, because a tag that is deleted later cannot be looked up by its id. */
const describeTags = (ids: SQL): SQL => sql`(
  select jsonb_agg(k.key || '=' || v.value order by k.key, v.value)
  from tag_values v
  join tag_keys k on k.id = v.tag_key_id
  where v.id = any(${ids}) and v.tenant_id = current_tenant())`
const CHANGES = changesBetween({ tags: describeTags(sql`changed.before`) }, { tags: describeTags(sql`changed.after`) })

/** Refuses what the caller may not tag so. It comes back as the new tags. */
const judgeTags = ({ updating }: TaggedTable, after: SQL): SQL =>
  sql`require_tagging(${updating}, r.tag_value_ids, ${after})`

export const createTagging = verb(
  'workspaces:read',
  async (ctx, { tag_value_id, resource_type, resource_id }: schema.NewTagging): Promise<schema.Tagging> => {
    const kind = findKind(resource_type)
    const { table } = TABLES[kind]
    const value = sql`${tag_value_id}::uuid`
    const isResource = sql`r.id = ${resource_id}::uuid and r.tenant_id = current_tenant() and ${isPresent(kind)}`
    const after = judgeTags(TABLES[kind], sql`r.tag_value_ids || ${value}`)
    const max = kind === 'deployment' ? MAX_TAGS : MAX_TAGS_OF_OTHERS
    const change = sql<{ id: string; tagging_id: string; tagged_at: string }>`
      update ${table} r
      set tag_value_ids = b.after
      from (
        select r.id, r.tag_value_ids as before, ${after} as after
        from ${table} r
        where ${isResource} and ${mayRead(TABLES[kind])}
      ) b
      where r.id = b.id
        and r.tenant_id = current_tenant()
        and ${refuseUnless('tags_full', sql`cardinality(b.after) <= ${max}`)}
      returning r.id, b.before, b.after, tagging_id(r.id, ${value}) as tagging_id, greatest(
        r.created_at, (select v.created_at from tag_values v where v.id = ${value} and v.tenant_id = current_tenant())
      ) as tagged_at`
    const lock = [
      lockTagKeys(selectKeyIds(sql`v.id = ${value}`), 'key share'),
      sql`select from ${table} r where ${isResource} for no key update`,
    ]
    const data = { tag_value_ids: [tag_value_id] }
    const rows = await commit(ctx, `${TABLES[kind].subject}.tagged`, change, data, { lock, changes: CHANGES })
    const row = requireRow(rows, 'resource_not_found')
    return { id: row.tagging_id, tag_value_id, resource_type, resource_id, created_at: toIsoTime(row.tagged_at) }
  },
  IN_WORKSPACE,
)

/** One of these updates finds the tagging. */
export const deleteTagging = verb(
  'workspaces:read',
  async (ctx, { tagging_id }: z.output<typeof schema.TaggingRef>) => {
    const isTagging = sql`tagging_id(r.id, t.id) = ${tagging_id}::uuid`
    const found = (kind: Kind) => sql`
      select r.id, r.tag_value_ids as before, t.id as tag_value_id
      from ${TABLES[kind].table} r
      cross join unnest(r.tag_value_ids) t(id)
      where r.tenant_id = current_tenant() and ${isTagging} and ${mayRead(TABLES[kind])}`
    const untag = (kind: Kind) => sql`${sql.identifier(kind)} as (
      update ${TABLES[kind].table} r
      set tag_value_ids = ${judgeTags(TABLES[kind], sql`array_remove(r.tag_value_ids, f.tag_value_id)`)}
      from (${found(kind)}) f
      where r.id = f.id and r.tenant_id = current_tenant()
      returning r.id, f.before, r.tag_value_ids as after, f.tag_value_id, ${TABLES[kind].subject}::text as subject)`
    const untagged = kinds.map(kind => sql`select * from ${sql.identifier(kind)}`)
    const change = sql<{ id: string }>`${sql.join(untagged, sql` union all `)}`
    const parts = {
      lock: kinds.map(
        kind => sql`
        select from ${TABLES[kind].table} r
        where r.tenant_id = current_tenant() and exists (select from unnest(r.tag_value_ids) t(id) where ${isTagging})
        for no key update`,
      ),
      ctesBefore: kinds.map(untag),
      changes: CHANGES,
    }
    const data = sql`json_build_object('tag_value_id', changed.tag_value_id)`
    const rows = await commit(ctx, sql`changed.subject || '.untagged'`, change, data, parts)
    requireRow(rows, 'tagging_not_found')
    return {}
  },
  IN_WORKSPACE,
)

type ListedRow = [key_id: string, key: string, value_id: string, value: string, resources: string]

export const listTaggings = verb(
  'workspaces:read',
  async (ctx, { tag_value_id }: z.output<typeof schema.TaggingQuery>): Promise<schema.Taggings> => {
    const hasValue = tag_value_id === undefined ? sql`true` : sql`r.tag_value_ids @> array[${tag_value_id}::uuid]`
    const isValue = tag_value_id === undefined ? sql`true` : sql`v.id = ${tag_value_id}::uuid`
    const tagged = kinds.map(kind => {
      const { table, listed } = TABLES[kind]
      return sql`
        select ${listed}::text as kind, r.id, r.name, t.id as tag_value_id
        from ${table} r
        cross join unnest(r.tag_value_ids) t(id)
        where r.tenant_id = current_tenant() and ${hasValue} and ${mayReadKind(TABLES[kind])} and ${isPresent(kind)}`
    })
    const rows = await run(
      ctx,
      sql<Row>`
        select k.id, k.key, v.id, v.value, json_agg(
          json_build_object(
            'kind', t.kind, 'tagging_id', tagging_id(t.id, v.id), 'resource_id', t.id, 'resource_name', t.name
          )
          order by t.name, t.id
        )::text
        from (select * from (${sql.join(tagged, sql` union all `)}) every_kind limit ${MAX_LISTED}) t
        join tag_values v on v.id = t.tag_value_id and v.tenant_id = current_tenant()
        join tag_keys k on k.id = v.tag_key_id
        where ${isValue}
        group by k.id, v.id
        order by k.key, v.value`,
    )
    return (rows as ListedRow[]).map(([tag_key_id, tag_key, tag_value_id, tag_value, resources]) => ({
      tag_key,
      tag_key_id,
      tag_value,
      tag_value_id,
      resources: groupByKind(JSON.parse(resources)),
    }))
  },
  IN_WORKSPACE,
)

type ListedResource = { kind: string; tagging_id: string; resource_id: string; resource_name: string }
const groupByKind = (resources: ListedResource[]): schema.Taggings[number]['resources'] =>
  Object.fromEntries(
    schema.TaggedKinds.map(kind => [
      kind,
      resources.filter(one => one.kind === kind).map(({ kind: _, ...one }) => one),
    ]),
  ) as schema.Taggings[number]['resources']

export const listResourceTags = verb(
  'workspaces:read',
  async (ctx, { resource_type, resource_id }: schema.ResourceTagQuery) => {
    const kind = findKind(resource_type)
    // Selects from the resource, to tell one without tags from none.
    const query = sql<Row>`
      select to_json(k)::text, to_json(v)::text, tagging_id(r.id, v.id), greatest(r.created_at, v.created_at)
      from ${TABLES[kind].table} r
      left join tag_values v on v.id = any(r.tag_value_ids) and v.tenant_id = r.tenant_id
      left join tag_keys k on k.id = v.tag_key_id
      where r.id = ${resource_id}::uuid
        and r.tenant_id = current_tenant()
        and ${isPresent(kind)}
        and ${mayRead(TABLES[kind])}
      order by k.key, v.value`
    const rows = (await run(ctx, query)) as [string | null, string, string, string][]
    requireRow(rows, 'resource_not_found')
    const tags = rows.flatMap(([key, value, id, tagged_at]) => {
      if (key === null) return []
      const row = JSON.parse(value) as TagValueRow
      const tagging = { id, tag_value_id: row.id, resource_type, resource_id, created_at: toIsoTime(tagged_at) }
      return [{ key: JSON.parse(key) as TagKeyRow, value: { ...tagValueToWire(row), taggings: [tagging] } }]
    })
    return [...Map.groupBy(tags, ({ key }) => key.id).values()].map(ofKey => ({
      ...tagKeyToWire(ofKey[0]!.key),
      values: ofKey.map(({ value }) => value),
    }))
  },
  IN_WORKSPACE,
)
