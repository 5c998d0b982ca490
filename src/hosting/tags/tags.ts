// Tags: keys, their values, and the tags of each deployment.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { db, inTenant, refuseUnless, run, uuidArray } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, hasName, newestFirst, pageBounds, readPage, toListPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type { NamedPage } from '../../protocol/wire.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { isDeployment, lockDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { tagKeys, tagValues } from './tables.ts'
import {
  insertTagKey,
  insertTagValue,
  isTagKey,
  lockTagKeys,
  readTagKeyRow,
  readTagValueRow,
  removeTagKey,
  removeTagValue,
  selectKeyIds,
  updateTagKey,
  updateTagValue,
} from './tag-keys.ts'
import * as schema from './tags.schema.ts'

type DeploymentParams = z.output<typeof DeploymentRef>
type DeploymentTagParams = z.output<typeof schema.DeploymentTagRef>
type TagKeyParams = z.output<typeof schema.TagKeyRef>
type TagValueParams = z.output<typeof schema.TagValueRef>

const keyToWire = (row: typeof tagKeys.$inferSelect) => ({
  id: row.id,
  key: row.key,
  created_at: toIsoTime(row.created_at),
  [etagVersion]: row.version,
})
const valueToWire = (row: typeof tagValues.$inferSelect) => ({
  id: row.id,
  tag_key_id: row.tag_key_id,
  value: row.value,
  created_at: toIsoTime(row.created_at),
  [etagVersion]: row.version,
})
// ---- keys

const keyPageStatement = prepareStatement((page: Placeholders<NamedPage>) =>
  db
    .select()
    .from(tagKeys)
    .where(and(inTenant(tagKeys), hasName(tagKeys.key, page), afterCursor(tagKeys, page)))
    .orderBy(...newestFirst(tagKeys))
    .limit(page.limit)
    .offset(page.offset),
)

export const listTagKeys = verb('deployments:read', (ctx, page: NamedPage) =>
  readPage(ctx, keyPageStatement, page, keyToWire),
)

export const readTagKey = verb('deployments:read', async (ctx, { tag_key_id }: TagKeyParams) =>
  keyToWire(await readTagKeyRow(ctx, tag_key_id)),
)
export const createTagKey = verb('deployments:update', async (ctx, { key }: z.output<typeof schema.NewTagKey>) =>
  keyToWire(await insertTagKey(ctx, { key })),
)
export const renameTagKey = verb(
  'deployments:update',
  async (ctx, { tag_key_id, key }: TagKeyParams & z.output<typeof schema.TagKeyName>) =>
    keyToWire(await updateTagKey(ctx, tag_key_id, { key })),
)
export const deleteTagKey = verb('deployments:update', (ctx, { tag_key_id }: TagKeyParams) =>
  removeTagKey(ctx, tag_key_id),
)

// ---- values

/** Selects from the key, to tell an unknown key from one without values. */
const valuePageStatement = prepareStatement(({ tag_key_id, ...query }: Placeholders<TagKeyParams & NamedPage>) => {
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
    .limit(query.limit)
    .offset(query.offset)
    .as('value')
  return db
    .select()
    .from(tagKeys)
    .leftJoinLateral(page, sql`true`)
    .where(isTagKey(tag_key_id))
    .orderBy(...newestFirst(page as unknown as Record<'created_at' | 'id', AnyPgColumn>))
})

export const listTagValues = verb('deployments:read', async (ctx, input: TagKeyParams & NamedPage) => {
  const rows = await run(ctx, valuePageStatement({ ...input, ...pageBounds(input) }))
  requireRow(rows, 'tag_key_not_found')
  return toListPage(
    rows.flatMap(({ value }) => (value ? [value] : [])),
    input,
    valueToWire,
  )
})

export const readTagValue = verb('deployments:read', async (ctx, ref: TagValueParams) =>
  valueToWire(await readTagValueRow(ctx, ref)),
)
export const createTagValue = verb(
  'deployments:update',
  async (ctx, { tag_key_id, value }: TagKeyParams & z.output<typeof schema.NewTagValue>) =>
    valueToWire(await insertTagValue(ctx, tag_key_id, { value })),
)
export const renameTagValue = verb(
  'deployments:update',
  async (ctx, { tag_value_id, value }: TagValueParams & z.output<typeof schema.TagValueName>) =>
    valueToWire(await updateTagValue(ctx, { tag_value_id }, { value })),
)
export const deleteTagValue = verb('deployments:update', (ctx, ref: TagValueParams) => removeTagValue(ctx, ref))

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

/** Describes tags as text, because a tag that is deleted later cannot be looked up by its id. */
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
    const union = sql`require_tag_change(d.tag_value_ids, d.tag_value_ids || ${added}, false)`
    const change = sql<TaggedDeployment>`
      update deployments d set tag_value_ids = ${union}
      where ${isDeploymentInTenant(deployment_id)}
        and ${refuseUnless('deployment_deleting', sql`d.deleting_at is null`)}
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
      .set({
        tag_value_ids: sql`require_tag_change(
          ${deployments.tag_value_ids}, array_remove(${deployments.tag_value_ids}, ${tag_value_id}::uuid), false)`,
      })
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
