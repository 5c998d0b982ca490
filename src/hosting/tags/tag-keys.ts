// Keys of tags and their values: created, changed, deleted. Two kinds of routes show the rows, each in its own way.
import { and, eq, type Placeholder, type SQL, sql } from 'drizzle-orm'
import { bumpVersion, db, inTenant, refuseUnless, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { tagKeys, tagValues } from './tables.ts'
import { MAX_KEYS, MAX_VALUES } from './tags.schema.ts'

export type TagKeyRow = typeof tagKeys.$inferSelect
export type TagValueRow = typeof tagValues.$inferSelect
type Described = { description?: string | null | undefined }

/** `ofKey`: where the path names the key, too. */
type ValueRef = { tag_value_id: string; ofKey?: string | undefined }

export const isTagKey = (id: string | Placeholder): SQL => and(eq(tagKeys.id, id), inTenant(tagKeys))!
const isTagValue = ({ tag_value_id, ofKey }: ValueRef | Placeholders<ValueRef>): SQL =>
  and(eq(tagValues.id, tag_value_id), ofKey ? eq(tagValues.tag_key_id, ofKey) : undefined, inTenant(tagValues))!

const KEY_RECORD = recordColumns(tagKeys, ['key', 'description'])
const VALUE_RECORD = recordColumns(tagValues, ['tag_key_id', 'value', 'description'])

/** Adding a value to a resource and deleting the value lock its key, so that a deleted value is never added. */
export const lockTagKeys = (keys: SQL, strength: 'update' | 'no key update' | 'key share'): SQL =>
  sql`select from tag_keys where id in (${keys}) and tenant_id = current_tenant() order by id for ${sql.raw(strength)}`
export const selectKeyIds = (condition: SQL): SQL =>
  sql`select v.tag_key_id from tag_values v where ${condition} and v.tenant_id = current_tenant()`

const removeValues = (condition: SQL): SQL => sql`
  select remove_tag_values(array(select v.id from tag_values v where ${condition} and v.tenant_id = current_tenant()))`

/** Access policies are about keys by their names. */
const requireKeyRights = (...keys: SQL[]): SQL => sql`require_key_rights(array[${sql.join(keys, sql`, `)}]::text[])`
const KEY_OF_VALUE = sql`(select k.key from tag_keys k where k.id = ${tagValues.tag_key_id})`

// ---- keys

const keyStatement = prepareStatement(({ id }: Placeholders<{ id: string }>) =>
  db.select().from(tagKeys).where(isTagKey(id)),
)

export async function readTagKeyRow(ctx: Ctx, id: string): Promise<TagKeyRow> {
  return requireRow(await run(ctx, keyStatement({ id })), 'tag_key_not_found')
}

export async function insertTagKey(ctx: Ctx, { key, description }: { key: string } & Described): Promise<TagKeyRow> {
  const hasRoom = sql`(select count(*) from tag_keys k where k.tenant_id = current_tenant()) < ${MAX_KEYS}`
  const change = sql<TagKeyRow>`
    insert into tag_keys (organization_id, tenant_id, key, description)
    select organization_id, id, ${key}, ${description ?? null}
    from workspaces
    where id = current_tenant() and ${refuseUnless('tag_keys_full', hasRoom)}
    returning *`
  // Two concurrent requests must not both take the last place.
  const lock = sql`select from workspaces where id = current_tenant() for no key update`
  const parts = { lock, changes: createdMembers(KEY_RECORD) }
  return requireRow(await commit(ctx, 'tag_key.created', change, {}, parts), 'workspace_not_found')
}

export async function updateTagKey(
  ctx: Ctx,
  id: string,
  { key, description }: { key?: string | null | undefined } & Described,
): Promise<TagKeyRow> {
  const rights = requireKeyRights(sql`${tagKeys.key}`, sql`${key ?? null}`)
  const change = db
    .update(tagKeys)
    .set({ ...withoutNulls({ key, description }), ...bumpVersion(tagKeys) })
    .where(and(isTagKey(id), versionMatches(ctx, tagKeys), key == null ? undefined : rights))
    .returning()
  const parts = { lock: lockTagKeys(sql`${id}::uuid`, 'update'), changes: changedMembers(tagKeys, KEY_RECORD) }
  return requireRow(await commit(ctx, 'tag_key.renamed', change, {}, parts), 'tag_key_not_found')
}

export async function removeTagKey(ctx: Ctx, id: string): Promise<void> {
  const key = sql`${id}::uuid`
  const change = db
    .delete(tagKeys)
    .where(and(isTagKey(id), versionMatches(ctx, tagKeys), requireKeyRights(sql`${tagKeys.key}`)))
    .returning()
  const lock = [lockTagKeys(key, 'update'), removeValues(sql`v.tag_key_id = ${key}`)]
  const parts = { lock, changes: deletedMembers(KEY_RECORD) }
  requireRow(await commit(ctx, 'tag_key.deleted', change, {}, parts), 'tag_key_not_found')
}

// ---- values

const valueStatement = prepareStatement((ref: Placeholders<ValueRef>) =>
  db.select().from(tagValues).where(isTagValue(ref)),
)

export async function readTagValueRow(ctx: Ctx, { tag_value_id, ofKey }: ValueRef): Promise<TagValueRow> {
  return requireRow(await run(ctx, valueStatement({ tag_value_id, ofKey })), 'tag_value_not_found')
}

export async function insertTagValue(
  ctx: Ctx,
  key_id: string,
  { value, description }: { value: string } & Described,
): Promise<TagValueRow> {
  const hasRoom = sql`(select count(*) from tag_values v where v.tag_key_id = k.id) < ${MAX_VALUES}`
  const change = sql<TagValueRow>`
    insert into tag_values (organization_id, tenant_id, tag_key_id, value, description)
    select organization_id, tenant_id, id, ${value}, ${description ?? null}
    from tag_keys k
    where id = ${key_id}::uuid
      and tenant_id = current_tenant()
      and ${refuseUnless('tag_values_full', hasRoom)}
    returning *`
  const parts = { lock: lockTagKeys(sql`${key_id}::uuid`, 'no key update'), changes: createdMembers(VALUE_RECORD) }
  return requireRow(await commit(ctx, 'tag_value.created', change, {}, parts), 'tag_key_not_found')
}

export async function updateTagValue(
  ctx: Ctx,
  ref: ValueRef,
  { value, description }: { value?: string | null | undefined } & Described,
): Promise<TagValueRow> {
  const change = db
    .update(tagValues)
    .set({ ...withoutNulls({ value, description }), ...bumpVersion(tagValues) })
    .where(
      and(isTagValue(ref), versionMatches(ctx, tagValues), value == null ? undefined : requireKeyRights(KEY_OF_VALUE)),
    )
    .returning()
  const lock = sql`select from ${tagValues} where ${isTagValue(ref)} for update`
  const parts = { lock, changes: changedMembers(tagValues, VALUE_RECORD) }
  return requireRow(await commit(ctx, 'tag_value.renamed', change, {}, parts), 'tag_value_not_found')
}

export async function removeTagValue(ctx: Ctx, ref: ValueRef): Promise<void> {
  const change = db
    .delete(tagValues)
    .where(and(isTagValue(ref), versionMatches(ctx, tagValues), requireKeyRights(KEY_OF_VALUE)))
    .returning()
  const ofKey = ref.ofKey === undefined ? sql`` : sql`and v.tag_key_id = ${ref.ofKey}::uuid`
  const isValue = sql`v.id = ${ref.tag_value_id}::uuid ${ofKey}`
  const lock = [lockTagKeys(selectKeyIds(isValue), 'update'), removeValues(isValue)]
  const parts = { lock, changes: deletedMembers(VALUE_RECORD) }
  requireRow(await commit(ctx, 'tag_value.deleted', change, {}, parts), 'tag_value_not_found')
}
