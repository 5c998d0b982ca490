// Keys and values of tags, in lists without pages and with descriptions. `tags.ts` shows the same rows in pages.
import { asc, eq, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, run } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { tagKeys, tagValues } from './tables.ts'
import {
  insertTagKey,
  insertTagValue,
  isTagKey,
  readTagKeyRow,
  readTagValueRow,
  removeTagKey,
  removeTagValue,
  type TagKeyRow,
  type TagValueRow,
  updateTagKey,
  updateTagValue,
} from './tag-keys.ts'
import type { TagKeyRef } from './tags.schema.ts'
import type * as schema from './workspace-tags.schema.ts'

type KeyParams = z.output<typeof TagKeyRef>
type ValueParams = z.output<typeof schema.TagValueOfKeyRef>

const IN_WORKSPACE = { inWorkspace: true }
const MAX_LISTED = 10_000
/** Clients look for these keys before they create their own. */
const ADD_DEFAULT_KEYS = sql`select add_default_tag_keys()`

export const tagKeyToWire = (row: TagKeyRow) => ({
  id: row.id,
  key: row.key,
  description: row.description,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})
export const tagValueToWire = (row: TagValueRow) => ({
  id: row.id,
  tag_key_id: row.tag_key_id,
  value: row.value,
  description: row.description,
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})
const refOf = ({ tag_key_id, tag_value_id }: ValueParams) => ({ tag_value_id, ofKey: tag_key_id })

const keysStatement = prepareStatement(() =>
  db.select().from(tagKeys).where(inTenant(tagKeys)).orderBy(asc(tagKeys.key)),
)

export const listKeys = verb(
  'workspaces:read',
  async ctx => (await run(ctx, keysStatement({}), ADD_DEFAULT_KEYS)).map(tagKeyToWire),
  IN_WORKSPACE,
)

export const readKey = verb(
  'workspaces:read',
  async (ctx, { tag_key_id }: KeyParams) => tagKeyToWire(await readTagKeyRow(ctx, tag_key_id)),
  IN_WORKSPACE,
)

export const createKey = verb(
  'workspaces:update',
  async (ctx, input: z.output<typeof schema.NewWorkspaceTagKey>) => tagKeyToWire(await insertTagKey(ctx, input)),
  IN_WORKSPACE,
)

export const changeKey = verb(
  'workspaces:update',
  async (ctx, { tag_key_id, ...patch }: KeyParams & z.output<typeof schema.WorkspaceTagKeyPatch>) =>
    tagKeyToWire(await updateTagKey(ctx, tag_key_id, patch)),
  IN_WORKSPACE,
)

export const deleteKey = verb(
  'workspaces:update',
  async (ctx, { tag_key_id }: KeyParams) => {
    await removeTagKey(ctx, tag_key_id)
    return {}
  },
  IN_WORKSPACE,
)

/** Selects from the key, to tell an unknown key from one without values. */
const valuesStatement = prepareStatement(({ tag_key_id }: Placeholders<KeyParams>) =>
  db
    .select()
    .from(tagKeys)
    .leftJoin(tagValues, eq(tagValues.tag_key_id, tagKeys.id))
    .where(isTagKey(tag_key_id))
    .orderBy(asc(tagValues.value)),
)

export const listValues = verb(
  'workspaces:read',
  async (ctx, { tag_key_id }: KeyParams) => {
    const rows = await run(ctx, valuesStatement({ tag_key_id }))
    requireRow(rows, 'tag_key_not_found')
    return rows.flatMap(({ tag_values: value }) => (value ? [tagValueToWire(value)] : []))
  },
  IN_WORKSPACE,
)

export const readValue = verb(
  'workspaces:read',
  async (ctx, ref: ValueParams) => tagValueToWire(await readTagValueRow(ctx, refOf(ref))),
  IN_WORKSPACE,
)

export const createValue = verb(
  'workspaces:update',
  async (ctx, { tag_key_id, ...input }: KeyParams & z.output<typeof schema.NewWorkspaceTagValue>) =>
    tagValueToWire(await insertTagValue(ctx, tag_key_id, input)),
  IN_WORKSPACE,
)

export const changeValue = verb(
  'workspaces:update',
  async (ctx, { tag_key_id, tag_value_id, ...patch }: ValueParams & z.output<typeof schema.WorkspaceTagValuePatch>) =>
    tagValueToWire(await updateTagValue(ctx, refOf({ tag_key_id, tag_value_id }), patch)),
  IN_WORKSPACE,
)

export const deleteValue = verb(
  'workspaces:update',
  async (ctx, ref: ValueParams) => {
    await removeTagValue(ctx, refOf(ref))
    return {}
  },
  IN_WORKSPACE,
)

/** All keys, with at most ten thousand values. */
const tagsStatement = prepareStatement(() => {
  const values = db
    .select()
    .from(tagValues)
    .where(inTenant(tagValues))
    .orderBy(asc(tagValues.tag_key_id), asc(tagValues.value))
    .limit(MAX_LISTED)
    .as('value')
  return db
    .select()
    .from(tagKeys)
    .leftJoin(values, eq(values.tag_key_id, tagKeys.id))
    .where(inTenant(tagKeys))
    .orderBy(asc(tagKeys.key), sql`"value"."value"`)
})

export const listTags = verb(
  'workspaces:read',
  async ctx => {
    const keys = new Map<string, ReturnType<typeof tagKeyToWire> & { values: ReturnType<typeof tagValueToWire>[] }>()
    for (const { tag_keys: row, value } of await run(ctx, tagsStatement({}), ADD_DEFAULT_KEYS)) {
      const key = keys.get(row.id) ?? { ...tagKeyToWire(row), values: [] }
      keys.set(row.id, key)
      if (value) key.values.push(tagValueToWire(value))
    }
    return [...keys.values()]
  },
  IN_WORKSPACE,
)
