// Tags: keys, their values, and which deployment bears which.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { verb } from '../kernel/context.ts'
import { db, mine, run, unless, uuidArray } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { found, iso } from '../kernel/rows.ts'
import type { Page } from '../kernel/wire.ts'
import { deployments, tagKeys, tagValues } from '../tables.ts'
import type { DeploymentRef } from './schema.ts'
import { theOne } from './service.ts'
import * as schema from './tags.schema.ts'

type OfDeployment = z.output<typeof DeploymentRef>
type Borne = z.output<typeof schema.BorneRef>
type KeyRef = z.output<typeof schema.TagKeyRef>
type ValueRef = z.output<typeof schema.TagValueRef>

const keyToWire = (row: typeof tagKeys.$inferSelect) => ({
  id: row.id,
  key: row.key,
  created_at: iso(row.created_at),
})
const valueToWire = (row: typeof tagValues.$inferSelect) => ({
  id: row.id,
  tag_key_id: row.tag_key_id,
  value: row.value,
  created_at: iso(row.created_at),
})
const theKey = (id: string): SQL => and(eq(tagKeys.id, id), mine(tagKeys))!
const theValue = (id: string): SQL => and(eq(tagValues.id, id), mine(tagValues))!

// ---- keys

export const listTagKeys = verb('deployments:read', async (ctx, page: Page) => {
  const { limit, offset } = bounds(page)
  const rows = db
    .select()
    .from(tagKeys)
    .where(and(mine(tagKeys), beyond(tagKeys, page)))
    .orderBy(...newestFirst(tagKeys))
    .limit(limit)
    .offset(offset)
  return listed(await run(ctx, rows), page, keyToWire)
})

export const readTagKey = verb('deployments:read', async (ctx, { tag_key_id }: KeyRef) =>
  keyToWire(found(await run(ctx, db.select().from(tagKeys).where(theKey(tag_key_id))), 'tag_key_not_found')),
)

export const createTagKey = verb('deployments:update', async (ctx, { key }: z.output<typeof schema.NewTagKey>) => {
  const room = sql`(select count(*) from tag_keys k where k.tenant_id = current_tenant()) < ${schema.MOST_KEYS}`
  const change = sql<typeof tagKeys.$inferSelect>`
    insert into tag_keys (organization_id, tenant_id, key)
    select organization_id, id, ${key} from workspaces
    where id = current_tenant() and ${unless('tag_keys_full', room)} returning *`
  // Held, so that two do not both take the last place.
  const lock = sql`select from workspaces where id = current_tenant() for no key update`
  return keyToWire(found(await commit(ctx, 'tag_key.created', change, { key }, { lock }), 'workspace_not_found'))
})

export const renameTagKey = verb(
  'deployments:update',
  async (ctx, { tag_key_id, key }: KeyRef & z.output<typeof schema.TagKeyName>) => {
    const change = db.update(tagKeys).set({ key }).where(theKey(tag_key_id)).returning()
    return keyToWire(found(await commit(ctx, 'tag_key.renamed', change, { key }), 'tag_key_not_found'))
  },
)

export const deleteTagKey = verb('deployments:update', async (ctx, { tag_key_id }: KeyRef) => {
  const key = sql`${tag_key_id}::uuid`
  const change = db
    .delete(tagKeys)
    .where(and(theKey(tag_key_id), TAKEN_OFF))
    .returning()
  const gone = takenOff(sql`v.tag_key_id = ${key}`)
  const rows = await commit(ctx, 'tag_key.deleted', change, {}, { lock: held(key, 'update'), first: gone })
  found(rows, 'tag_key_not_found')
})

// ---- values

export const listTagValues = verb('deployments:read', async (ctx, { tag_key_id, ...query }: KeyRef & Page) => {
  const { limit, offset } = bounds(query)
  const page = db
    .select()
    .from(tagValues)
    .where(and(eq(tagValues.tag_key_id, tag_key_id), mine(tagValues), beyond(tagValues, query)))
    .orderBy(...newestFirst(tagValues))
    .limit(limit)
    .offset(offset)
    .as('value')
  // Through the key, so that one that is not there is told from one without values.
  const through = db
    .select()
    .from(tagKeys)
    .leftJoinLateral(page, sql`true`)
    .where(theKey(tag_key_id))
    .orderBy(...newestFirst(page as unknown as Record<'created_at' | 'id', AnyPgColumn>))
  const rows = await run(ctx, through)
  found(rows, 'tag_key_not_found')
  return listed(
    rows.flatMap(({ value }) => (value ? [value] : [])),
    query,
    valueToWire,
  )
})

export const readTagValue = verb('deployments:read', async (ctx, { tag_value_id }: ValueRef) =>
  valueToWire(found(await run(ctx, db.select().from(tagValues).where(theValue(tag_value_id))), 'tag_value_not_found')),
)

export const createTagValue = verb(
  'deployments:update',
  async (ctx, { tag_key_id, value }: KeyRef & z.output<typeof schema.NewTagValue>) => {
    const lock = held(sql`${tag_key_id}::uuid`, 'no key update')
    const room = sql`(select count(*) from tag_values v where v.tag_key_id = k.id) < ${schema.MOST_VALUES}`
    const change = sql<typeof tagValues.$inferSelect>`
      insert into tag_values (organization_id, tenant_id, tag_key_id, value)
      select organization_id, tenant_id, id, ${value} from tag_keys k
      where id = ${tag_key_id}::uuid and tenant_id = current_tenant() and ${unless('tag_values_full', room)} returning *`
    const data = { tag_key_id, value }
    return valueToWire(found(await commit(ctx, 'tag_value.created', change, data, { lock }), 'tag_key_not_found'))
  },
)

export const renameTagValue = verb(
  'deployments:update',
  async (ctx, { tag_value_id, value }: ValueRef & z.output<typeof schema.TagValueName>) => {
    const change = db.update(tagValues).set({ value }).where(theValue(tag_value_id)).returning()
    return valueToWire(found(await commit(ctx, 'tag_value.renamed', change, { value }), 'tag_value_not_found'))
  },
)

export const deleteTagValue = verb('deployments:update', async (ctx, { tag_value_id }: ValueRef) => {
  const value = sql`${tag_value_id}::uuid`
  const change = db
    .delete(tagValues)
    .where(and(theValue(tag_value_id), TAKEN_OFF))
    .returning()
  const lock = held(keysOf(sql`v.id = ${value}`), 'update')
  const rows = await commit(ctx, 'tag_value.deleted', change, {}, { lock, first: takenOff(sql`v.id = ${value}`) })
  found(rows, 'tag_value_not_found')
})

const keysOf = (which: SQL): SQL =>
  sql`select v.tag_key_id from tag_values v where ${which} and v.tenant_id = current_tenant()`

/** Whoever puts a value on a deployment or deletes one holds its key, so that none is put on while it goes away. */
const held = (keys: SQL, strength: 'update' | 'no key update' | 'key share'): SQL =>
  sql`select from tag_keys where id in (${keys}) and tenant_id = current_tenant() order by id for ${sql.raw(strength)}`

/** From every deployment that bears one of them: held in one order, and before the journal is, as every other write holds them. */
const takenOff = (which: SQL): SQL[] => [
  sql`gone as (select array(select v.id from tag_values v where ${which} and v.tenant_id = current_tenant()) as ids)`,
  sql`held as (select d.id from deployments d, gone
    where d.tenant_id = current_tenant() and d.tag_value_ids && gone.ids order by d.id for no key update of d)`,
  sql`untagged as (update deployments d set tag_value_ids = array(
      select borne.id from unnest(d.tag_value_ids) with ordinality borne(id, place)
      where borne.id <> all(gone.ids) order by borne.place)
    from held, gone where d.id = held.id returning d.id)`,
]
const TAKEN_OFF = sql`(select count(*) from untagged) >= 0`

// ---- borne

type Tags = z.output<typeof schema.Tags>
type Bearer = { id: string; tags: Tags['resources'] }

const TAGS = sql`(select coalesce(json_agg(json_build_object(
    'tag_value_id', v.id, 'tag_key_id', k.id, 'key', k.key, 'value', v.value) order by k.key, v.value), '[]')
  from tag_values v join tag_keys k on k.id = v.tag_key_id where v.id = any(d.tag_value_ids) and v.tenant_id = d.tenant_id)`

const ofDeployment = (id: string): SQL => sql`d.id = ${id}::uuid and d.tenant_id = current_tenant()`

export const listTags = verb('deployments:read', async (ctx, { deployment_id }: OfDeployment): Promise<Tags> => {
  const rows = await run(ctx, sql<[string]>`select ${TAGS} from deployments d where ${ofDeployment(deployment_id)}`)
  return { resources: JSON.parse(found(rows, 'deployment_not_found')[0]) }
})

export const addTags = verb(
  'deployments:update',
  async (ctx, { deployment_id, tag_value_ids }: OfDeployment & z.output<typeof schema.NewTags>): Promise<Tags> => {
    const asked = uuidArray([...new Set(tag_value_ids)])
    const lock = held(keysOf(sql`v.id = any(${asked})`), 'key share')
    const unknown = sql`(select string_agg(asked.id::text, ', ') from unnest(${asked}) asked(id)
      where not exists (select from tag_values v where v.id = asked.id and v.tenant_id = current_tenant()))`
    const union = sql`array(select id from unnest(d.tag_value_ids || ${asked}) with ordinality u(id, place)
      group by id order by min(place))`
    const change = sql<Bearer>`
      update deployments d set tag_value_ids = ${union} where ${ofDeployment(deployment_id)}
        and ${unless('deployment_deleting', sql`d.deleting_at is null`)}
        and case when ${unknown} is null then true else refuse('tag_value_not_found', ${unknown}) end
        and ${unless('tags_full', sql`cardinality(${union}) <= ${schema.MOST_TAGS}`)}
      returning d.id, ${TAGS} as tags`
    const rows = await commit(ctx, 'deployment.tagged', change, { tag_value_ids }, { lock })
    return { resources: found(rows, 'deployment_not_found').tags }
  },
)

export const removeTag = verb('deployments:update', async (ctx, { deployment_id, tag_value_id }: Borne) => {
  const change = db
    .update(deployments)
    .set({ tag_value_ids: sql`array_remove(${deployments.tag_value_ids}, ${tag_value_id}::uuid)` })
    .where(
      and(
        theOne(deployment_id),
        unless('tag_value_not_found', sql`${tag_value_id}::uuid = any(${deployments.tag_value_ids})`),
      ),
    )
    .returning({ id: deployments.id })
  found(await commit(ctx, 'deployment.untagged', change, { tag_value_id }), 'deployment_not_found')
})
