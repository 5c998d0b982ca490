// Tags: keys, their values, and the tags of each deployment.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { verb } from '../kernel/context.ts'
import { db, inTenant, lockRows, refuseUnless, run, uuidArray } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { afterCursor, hasName, newestFirst, pageBounds, toListPage } from '../kernel/paging.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../kernel/recorded-changes.ts'
import { requireRow, toIsoTime } from '../kernel/rows.ts'
import type { NamedPage } from '../protocol/wire.ts'
import { deployments } from '../tables/deployments.ts'
import { tagKeys, tagValues } from '../tables/tags.ts'
import { lockDeployment } from './revision-queue.ts'
import type { DeploymentRef } from './schema.ts'
import { isDeployment } from './service.ts'
import * as schema from './tags.schema.ts'

type DeploymentParams = z.output<typeof DeploymentRef>
type DeploymentTagParams = z.output<typeof schema.DeploymentTagRef>
type TagKeyParams = z.output<typeof schema.TagKeyRef>
type TagValueParams = z.output<typeof schema.TagValueRef>

const keyToWire = (row: typeof tagKeys.$inferSelect) => ({
  id: row.id,
  key: row.key,
  created_at: toIsoTime(row.created_at),
})
const valueToWire = (row: typeof tagValues.$inferSelect) => ({
  id: row.id,
  tag_key_id: row.tag_key_id,
  value: row.value,
  created_at: toIsoTime(row.created_at),
})
const isTagKey = (id: string): SQL => and(eq(tagKeys.id, id), inTenant(tagKeys))!
const isTagValue = (id: string): SQL => and(eq(tagValues.id, id), inTenant(tagValues))!

const TAG_KEY_RECORD = recordColumns(tagKeys, ['key'])
const TAG_VALUE_RECORD = recordColumns(tagValues, ['tag_key_id', 'value'])

// ---- keys

export const listTagKeys = verb('deployments:read', async (ctx, page: NamedPage) => {
  const { limit, offset } = pageBounds(page)
  const rows = db
    .select()
    .from(tagKeys)
    .where(and(inTenant(tagKeys), hasName(tagKeys.key, page), afterCursor(tagKeys, page)))
    .orderBy(...newestFirst(tagKeys))
    .limit(limit)
    .offset(offset)
  return toListPage(await run(ctx, rows), page, keyToWire)
})

export const readTagKey = verb('deployments:read', async (ctx, { tag_key_id }: TagKeyParams) =>
  keyToWire(requireRow(await run(ctx, db.select().from(tagKeys).where(isTagKey(tag_key_id))), 'tag_key_not_found')),
)

export const createTagKey = verb('deployments:update', async (ctx, { key }: z.output<typeof schema.NewTagKey>) => {
  const hasRoom = sql`(select count(*) from tag_keys k where k.tenant_id = current_tenant()) < ${schema.MAX_KEYS}`
  const change = sql<typeof tagKeys.$inferSelect>`
    insert into tag_keys (organization_id, tenant_id, key)
    select organization_id, id, ${key}
    from workspaces
    where id = current_tenant() and ${refuseUnless('tag_keys_full', hasRoom)}
    returning *`
  // So that two concurrent requests do not both take the last place.
  const lock = sql`select from workspaces where id = current_tenant() for no key update`
  const parts = { lock, changes: createdMembers(TAG_KEY_RECORD) }
  return keyToWire(requireRow(await commit(ctx, 'tag_key.created', change, {}, parts), 'workspace_not_found'))
})

export const renameTagKey = verb(
  'deployments:update',
  async (ctx, { tag_key_id, key }: TagKeyParams & z.output<typeof schema.TagKeyName>) => {
    const change = db.update(tagKeys).set({ key }).where(isTagKey(tag_key_id)).returning()
    const parts = {
      lock: lockTagKeys(sql`${tag_key_id}::uuid`, 'update'),
      changes: changedMembers(tagKeys, TAG_KEY_RECORD),
    }
    return keyToWire(requireRow(await commit(ctx, 'tag_key.renamed', change, {}, parts), 'tag_key_not_found'))
  },
)

export const deleteTagKey = verb('deployments:update', async (ctx, { tag_key_id }: TagKeyParams) => {
  const key = sql`${tag_key_id}::uuid`
  const change = db
    .delete(tagKeys)
    .where(and(isTagKey(tag_key_id), AFTER_REMOVAL))
    .returning()
  const ctesBefore = removeFromDeployments(sql`v.tag_key_id = ${key}`)
  const parts = { lock: lockTagKeys(key, 'update'), ctesBefore, changes: deletedMembers(TAG_KEY_RECORD) }
  const rows = await commit(ctx, 'tag_key.deleted', change, {}, parts)
  requireRow(rows, 'tag_key_not_found')
})

// ---- values

export const listTagValues = verb(
  'deployments:read',
  async (ctx, { tag_key_id, ...query }: TagKeyParams & NamedPage) => {
    const { limit, offset } = pageBounds(query)
    const page = db
      .select()
      .from(tagValues)
      .where(
        and(
          eq(tagValues.tag_key_id, tag_key_id),
          inTenant(tagValues),
          hasName(tagValues.value, query),
          afterCursor(tagValues, query),
        ),
      )
      .orderBy(...newestFirst(tagValues))
      .limit(limit)
      .offset(offset)
      .as('value')
    // From the key, to tell an unknown key from one without values.
    const pageOfKey = db
      .select()
      .from(tagKeys)
      .leftJoinLateral(page, sql`true`)
      .where(isTagKey(tag_key_id))
      .orderBy(...newestFirst(page as unknown as Record<'created_at' | 'id', AnyPgColumn>))
    const rows = await run(ctx, pageOfKey)
    requireRow(rows, 'tag_key_not_found')
    return toListPage(
      rows.flatMap(({ value }) => (value ? [value] : [])),
      query,
      valueToWire,
    )
  },
)

export const readTagValue = verb('deployments:read', async (ctx, { tag_value_id }: TagValueParams) =>
  valueToWire(
    requireRow(await run(ctx, db.select().from(tagValues).where(isTagValue(tag_value_id))), 'tag_value_not_found'),
  ),
)

export const createTagValue = verb(
  'deployments:update',
  async (ctx, { tag_key_id, value }: TagKeyParams & z.output<typeof schema.NewTagValue>) => {
    const lock = lockTagKeys(sql`${tag_key_id}::uuid`, 'no key update')
    const hasRoom = sql`(select count(*) from tag_values v where v.tag_key_id = k.id) < ${schema.MAX_VALUES}`
    const change = sql<typeof tagValues.$inferSelect>`
      insert into tag_values (organization_id, tenant_id, tag_key_id, value)
      select organization_id, tenant_id, id, ${value}
      from tag_keys k
      where id = ${tag_key_id}::uuid
        and tenant_id = current_tenant()
        and ${refuseUnless('tag_values_full', hasRoom)}
      returning *`
    const parts = { lock, changes: createdMembers(TAG_VALUE_RECORD) }
    return valueToWire(requireRow(await commit(ctx, 'tag_value.created', change, {}, parts), 'tag_key_not_found'))
  },
)

export const renameTagValue = verb(
  'deployments:update',
  async (ctx, { tag_value_id, value }: TagValueParams & z.output<typeof schema.TagValueName>) => {
    const change = db.update(tagValues).set({ value }).where(isTagValue(tag_value_id)).returning()
    const parts = {
      lock: lockRows(tagValues, isTagValue(tag_value_id)),
      changes: changedMembers(tagValues, TAG_VALUE_RECORD),
    }
    return valueToWire(requireRow(await commit(ctx, 'tag_value.renamed', change, {}, parts), 'tag_value_not_found'))
  },
)

export const deleteTagValue = verb('deployments:update', async (ctx, { tag_value_id }: TagValueParams) => {
  const value = sql`${tag_value_id}::uuid`
  const change = db
    .delete(tagValues)
    .where(and(isTagValue(tag_value_id), AFTER_REMOVAL))
    .returning()
  const lock = lockTagKeys(selectKeyIds(sql`v.id = ${value}`), 'update')
  const ctesBefore = removeFromDeployments(sql`v.id = ${value}`)
  const parts = { lock, ctesBefore, changes: deletedMembers(TAG_VALUE_RECORD) }
  const rows = await commit(ctx, 'tag_value.deleted', change, {}, parts)
  requireRow(rows, 'tag_value_not_found')
})

const selectKeyIds = (condition: SQL): SQL =>
  sql`select v.tag_key_id from tag_values v where ${condition} and v.tenant_id = current_tenant()`

/** Adding a value to a deployment and deleting the value lock its key, so that a deleted value is never added. */
const lockTagKeys = (keys: SQL, strength: 'update' | 'no key update' | 'key share'): SQL =>
  sql`select from tag_keys where id in (${keys}) and tenant_id = current_tenant() order by id for ${sql.raw(strength)}`

/** Locks the deployments in one order and before the journal, like every other write. */
const removeFromDeployments = (condition: SQL): SQL[] => [
  sql`removed_values as (
    select array(select v.id from tag_values v where ${condition} and v.tenant_id = current_tenant()) as ids)`,
  sql`tagged as (
    select d.id
    from deployments d, removed_values
    where d.tenant_id = current_tenant() and d.tag_value_ids && removed_values.ids
    order by d.id
    for no key update of d)`,
  sql`untagged as (
    update deployments d set tag_value_ids = array(
      select remaining.id
      from unnest(d.tag_value_ids) with ordinality remaining(id, place)
      where remaining.id <> all(removed_values.ids)
      order by remaining.place)
    from tagged, removed_values
    where d.id = tagged.id
    returning d.id)`,
]
/** Runs `untagged` before the tag is deleted. */
const AFTER_REMOVAL = sql`(select count(*) from untagged) >= 0`

// ---- tags of a deployment

type Tags = z.output<typeof schema.Tags>
type TaggedDeployment = { id: string; tags: Tags['resources'] }

const TAGS_JSON = sql`(
  select coalesce(
    json_agg(
      json_build_object('tag_value_id', v.id, 'tag_key_id', k.id, 'key', k.key, 'value', v.value)
      order by k.key, v.value),
    '[]')
  from tag_values v
  join tag_keys k on k.id = v.tag_key_id
  where v.id = any(d.tag_value_ids) and v.tenant_id = d.tenant_id)`

/** As text, because a tag that is deleted later cannot be looked up by its id. */
const TAGS_RECORD = {
  tags: (row: SQL) => sql`(
    select jsonb_agg(k.key || '=' || v.value order by k.key, v.value)
    from tag_values v
    join tag_keys k on k.id = v.tag_key_id
    where v.id = any(${row}.tag_value_ids) and v.tenant_id = current_tenant())`,
}

const isDeploymentInTenant = (id: string): SQL => sql`d.id = ${id}::uuid and d.tenant_id = current_tenant()`

export const listTags = verb('deployments:read', async (ctx, { deployment_id }: DeploymentParams): Promise<Tags> => {
  const rows = await run(
    ctx,
    sql<[string]>`select ${TAGS_JSON} from deployments d where ${isDeploymentInTenant(deployment_id)}`,
  )
  return { resources: JSON.parse(requireRow(rows, 'deployment_not_found')[0]) }
})

export const addTags = verb(
  'deployments:update',
  async (ctx, { deployment_id, tag_value_ids }: DeploymentParams & z.output<typeof schema.NewTags>): Promise<Tags> => {
    const added = uuidArray([...new Set(tag_value_ids)])
    const lock = [lockTagKeys(selectKeyIds(sql`v.id = any(${added})`), 'key share'), lockDeployment(deployment_id)]
    const unknown = sql`(
      select string_agg(added.id::text, ', ')
      from unnest(${added}) added(id)
      where not exists (select from tag_values v where v.id = added.id and v.tenant_id = current_tenant()))`
    const union = sql`array(
      select id
      from unnest(d.tag_value_ids || ${added}) with ordinality u(id, place)
      group by id
      order by min(place))`
    const change = sql<TaggedDeployment>`
      update deployments d set tag_value_ids = ${union}
      where ${isDeploymentInTenant(deployment_id)}
        and ${refuseUnless('deployment_deleting', sql`d.deleting_at is null`)}
        and case when ${unknown} is null then true else refuse('tag_value_not_found', ${unknown}) end
        and ${refuseUnless('tags_full', sql`cardinality(${union}) <= ${schema.MAX_TAGS}`)}
      returning d.id, d.tag_value_ids, ${TAGS_JSON} as tags`
    const parts = { lock, changes: changedMembers(deployments, TAGS_RECORD) }
    const rows = await commit(ctx, 'deployment.tagged', change, { tag_value_ids }, parts)
    return { resources: requireRow(rows, 'deployment_not_found').tags }
  },
)

export const removeTag = verb(
  'deployments:update',
  async (ctx, { deployment_id, tag_value_id }: DeploymentTagParams) => {
    const change = db
      .update(deployments)
      .set({ tag_value_ids: sql`array_remove(${deployments.tag_value_ids}, ${tag_value_id}::uuid)` })
      .where(
        and(
          isDeployment(deployment_id),
          refuseUnless('tag_value_not_found', sql`${tag_value_id}::uuid = any(${deployments.tag_value_ids})`),
        ),
      )
      .returning({ id: deployments.id, tag_value_ids: deployments.tag_value_ids })
    const parts = { lock: lockDeployment(deployment_id), changes: changedMembers(deployments, TAGS_RECORD) }
    requireRow(await commit(ctx, 'deployment.untagged', change, { tag_value_id }, parts), 'deployment_not_found')
  },
)
