// Registers, reads, changes and deletes listeners of a workspace, and creates keys for their agents.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { bumpVersion, db, inTenant, lockRows, refuseUnless, run, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { afterCursor, hasName, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { createKey } from '../../people/access/api-keys.ts'
import { ADMIN } from '../../people/access/built-in-roles.ts'
import { ENGINE_FEATURES, type FeatureName, featureNames } from '../../protocol/engine-features.ts'
import type { ListenerPolicy } from '../../protocol/listener-policy.ts'
import type { NamedPage } from '../../protocol/wire.ts'
import type * as schema from './schema.ts'
import { listeners } from './tables.ts'

type ListenerParams = z.output<typeof schema.ListenerRef>
type ListenerRow = typeof listeners.$inferSelect

const capabilitiesOf = (policy: ListenerPolicy | null): schema.Listener['capabilities'] => {
  const features = policy?.features
  if (!features) return null
  const toCapability = (name: FeatureName) => {
    const { about } = ENGINE_FEATURES[name]
    return { feature: name, about, is_done: features.includes(name) }
  }
  return featureNames.map(toCapability)
}

const listenerToWire = (row: ListenerRow): schema.Listener & { [etagVersion]: number } => ({
  id: row.id,
  compute_type: row.compute_type,
  compute_id: row.compute_id,
  compute_config: { k8s_namespaces: row.compute_config.k8s_namespaces },
  version: row.agent_version,
  engine: row.policy?.engine ?? null,
  capabilities: capabilitiesOf(row.policy),
  last_seen_at: toIsoTime(row.last_seen_at),
  created_at: toIsoTime(row.created_at),
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

const LISTENER_RECORD = recordColumns(listeners, ['compute_type', 'compute_id', 'compute_config'])

const isListener = ({ listener_id }: ListenerParams | Placeholders<ListenerParams>): SQL =>
  and(eq(listeners.id, listener_id), inTenant(listeners))!

const pageStatement = prepareStatement((page: Placeholders<NamedPage>) =>
  db
    .select()
    .from(listeners)
    .where(and(inTenant(listeners), hasName(listeners.compute_id, page), afterCursor(listeners, page)))
    .orderBy(...newestFirst(listeners))
    .limit(page.limit)
    .offset(page.offset),
)

export const listListeners = verb('listeners:read', (ctx, page: NamedPage) =>
  readPage(ctx, pageStatement, page, listenerToWire),
)

const listenerStatement = prepareStatement((ref: Placeholders<ListenerParams>) =>
  db.select().from(listeners).where(isListener(ref)),
)

export const readListener = verb('listeners:read', async (ctx, { listener_id }: ListenerParams) =>
  listenerToWire(requireRow(await run(ctx, listenerStatement({ listener_id })), 'listener_not_found')),
)

export const createListener = verb('listeners:create', async (ctx, input: schema.NewListener) => {
  const change = db
    .insert(listeners)
    .values({
      ...input,
      organization_id: sql`current_organization()`,
      tenant_id: sql`current_tenant()`,
    })
    .returning()
  const parts = { lock: LOCK_WORKSPACE, changes: createdMembers(LISTENER_RECORD) }
  const rows = await commit(ctx, 'listener.created', change, {}, parts)
  return listenerToWire(requireRow(rows, 'workspace_not_found'))
})

/** Locks the workspace before the journal: deleting the workspace meanwhile could deadlock otherwise. */
const LOCK_WORKSPACE = sql`select from workspaces w where w.id = current_tenant() for key share`

/** Refuses to remove a namespace that deployments use. */
const keepsUsedNamespaces = (namespaces: string[]): SQL =>
  refuseUnless(
    'listener_in_use',
    sql`not exists (
      select from deployments d
      where d.listener_id = ${listeners.id}
        and d.tenant_id = current_tenant()
        and not ${JSON.stringify(namespaces)}::jsonb ? (d.source_config #>> '{listener_config,k8s_namespace}'))`,
  )

export const changeListener = verb(
  'listeners:update',
  async (ctx, { listener_id, ...input }: ListenerParams & schema.ListenerPatch) => {
    const changes = withoutNulls(input)
    const namespaces = changes.compute_config?.k8s_namespaces
    // Creating a deployment locks the listener too.
    const lock = lockRows(listeners, isListener({ listener_id }))
    const change = db
      .update(listeners)
      .set({ ...changes, ...bumpVersion(listeners) })
      .where(
        and(isListener({ listener_id }), versionMatches(ctx, listeners), namespaces && keepsUsedNamespaces(namespaces)),
      )
      .returning()
    const parts = { lock, changes: changedMembers(listeners, LISTENER_RECORD) }
    return listenerToWire(requireRow(await commit(ctx, 'listener.updated', change, {}, parts), 'listener_not_found'))
  },
)

export const deleteListener = verb('listeners:delete', async (ctx, ref: ListenerParams) => {
  const change = db
    .delete(listeners)
    .where(and(isListener(ref), versionMatches(ctx, listeners)))
    .returning()
  const parts = { changes: deletedMembers(LISTENER_RECORD) }
  requireRow(await commit(ctx, 'listener.deleted', change, {}, parts), 'listener_not_found')
})

export const createListenerKey = verb(
  'api-keys:create',
  (ctx, { listener_id, ...input }: ListenerParams & schema.NewListenerKey) => {
    const listener = sql`(
      select l.id
      from ${listeners} l
      where l.id = ${listener_id}::uuid and l.tenant_id = current_tenant())`
    const existing = sql`case when ${listener} is null and refuse('listener_not_found') then null else ${listener} end`
    const key = {
      description: input.description ?? 'Agent of a listener',
      role_id: ADMIN,
      permissions: ['listeners:sync' as const],
      expires_at: input.expires_at,
    }
    return createKey(ctx, key, sql`current_tenant()`, 'workspace', existing)
  },
)
