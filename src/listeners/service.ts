// Listeners of a workspace: registered, read, changed, removed, and the keys of their agents.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { ADMIN } from '../access/built-in.ts'
import { makeKey } from '../access/keys.ts'
import { verb } from '../kernel/context.ts'
import { db, mine, run, touched, unless, unmoved } from '../kernel/db.ts'
import { commit } from '../kernel/journal.ts'
import { beyond, bounds, listed, newestFirst } from '../kernel/paging.ts'
import { version } from '../kernel/routes.ts'
import { found, iso, supplied } from '../kernel/rows.ts'
import type { Page } from '../kernel/wire.ts'
import { listeners } from '../tables.ts'
import type * as schema from './schema.ts'

type Ref = z.output<typeof schema.ListenerRef>
type Row = typeof listeners.$inferSelect

const toWire = (row: Row): schema.Listener & { [version]: number } => ({
  id: row.id,
  compute_type: row.compute_type,
  compute_id: row.compute_id,
  compute_config: { k8s_namespaces: row.compute_config.k8s_namespaces },
  version: row.agent_version,
  last_seen_at: iso(row.last_seen_at),
  created_at: iso(row.created_at),
  updated_at: iso(row.updated_at),
  [version]: row.version,
})

const theOne = ({ listener_id }: Ref): SQL => and(eq(listeners.id, listener_id), mine(listeners))!

export const listListeners = verb('listeners:read', async (ctx, page: Page) => {
  const { limit, offset } = bounds(page)
  const query = db
    .select()
    .from(listeners)
    .where(and(mine(listeners), beyond(listeners, page)))
    .orderBy(...newestFirst(listeners))
    .limit(limit)
    .offset(offset)
  return listed(await run(ctx, query), page, toWire)
})

export const readListener = verb('listeners:read', async (ctx, ref: Ref) =>
  toWire(found(await run(ctx, db.select().from(listeners).where(theOne(ref))), 'listener_not_found')),
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
  const { compute_type, compute_id } = input
  const rows = await commit(ctx, 'listener.created', change, { compute_type, compute_id }, { lock: WORKSPACE_STAYS })
  return toWire(found(rows, 'workspace_not_found'))
})

/** Before the journal is held, as for deployments: a workspace going away waits for those who hold it. */
const WORKSPACE_STAYS = sql`select from workspaces w where w.id = current_tenant() for key share`

/** What deployments live in cannot be taken from under them. */
const stillThere = (namespaces: string[]): SQL =>
  unless(
    'listener_in_use',
    sql`not exists (select from deployments d where d.listener_id = ${listeners.id} and d.tenant_id = current_tenant()
      and not ${JSON.stringify(namespaces)}::jsonb ? (d.source_config #>> '{listener_config,k8s_namespace}'))`,
  )

export const changeListener = verb(
  'listeners:update',
  async (ctx, { listener_id, ...input }: Ref & schema.ListenerPatch) => {
    const changes = supplied(input)
    const namespaces = changes.compute_config?.k8s_namespaces
    // Whoever makes a deployment in one of them holds it too.
    const lock = sql`select from ${listeners} where ${theOne({ listener_id })} for update`
    const change = db
      .update(listeners)
      .set({ ...changes, ...touched(listeners) })
      .where(and(theOne({ listener_id }), unmoved(ctx, listeners), namespaces && stillThere(namespaces)))
      .returning()
    return toWire(found(await commit(ctx, 'listener.updated', change, changes, { lock }), 'listener_not_found'))
  },
)

export const deleteListener = verb('listeners:delete', async (ctx, ref: Ref) => {
  const change = db
    .delete(listeners)
    .where(and(theOne(ref), unmoved(ctx, listeners)))
    .returning()
  found(await commit(ctx, 'listener.deleted', change), 'listener_not_found')
})

/** All that it can do is to be the agent of this listener. */
export const createListenerKey = verb(
  'api-keys:create',
  (ctx, { listener_id, ...input }: Ref & schema.NewListenerKey) => {
    const bound = sql`(select l.id from ${listeners} l where l.id = ${listener_id}::uuid and l.tenant_id = current_tenant())`
    const checked = sql`case when ${bound} is null and refuse('listener_not_found') then null else ${bound} end`
    const wanted = {
      description: input.description ?? 'Agent of a listener',
      role_id: ADMIN,
      permissions: ['listeners:sync' as const],
      expires_at: input.expires_at,
    }
    return makeKey(ctx, wanted, sql`current_tenant()`, 'workspace', checked)
  },
)
