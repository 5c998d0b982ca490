// The sessions of a caller: opened with a key, listed, ended; and who the caller is.
import { and, eq, getTableColumns, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { newSessionToken } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { db, type Row, run, textArray } from '../../kernel/db/db.ts'
import { commit, openOwnAnswer } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, hasCredential, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { afterCursor, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { formatSessionCookie } from '../../kernel/http/session-cookie.ts'
import type { Page } from '../../protocol/wire.ts'
import type * as schema from './schema.ts'
import { sessions } from './tables.ts'

type SessionWire = z.output<typeof schema.SignInSession>

const { token_hash: _, made_by: __, ...visibleColumns } = getTableColumns(sessions)
const sessionColumns = {
  ...visibleColumns,
  is_current: sql<boolean>`coalesce(${sessions.id} = setting('session_id')::uuid, false)`.as('is_current'),
}
export type SessionRow = Omit<typeof sessions.$inferSelect, 'token_hash' | 'made_by'> & { is_current: boolean }

export const toWire = (row: SessionRow): SessionWire => ({
  id: row.id,
  method: row.method as SessionWire['method'],
  is_current: row.is_current,
  client_address: row.client_address,
  user_agent: row.user_agent,
  created_at: toIsoTime(row.created_at),
  last_seen_at: toIsoTime(row.last_seen_at),
  expires_at: toIsoTime(row.expires_at),
})

/** The sessions of the member or of the key. Row-level security enforces the same. */
const ownSessions = sql`
  ${sessions.organization_id} = current_organization()
  and ${sessions.owner_id} = current_actor()
  and is_alive(${sessions})`

const SESSION_RECORD = recordColumns(sessions, ['method', 'expires_at', 'revoked_at'])

/** The address and agent of the request that runs this statement. */
const requestedFrom = {
  client_address: sql`setting('request')::json ->> 'client_address'`,
  user_agent: sql`setting('request')::json ->> 'user_agent'`,
}

/**
 * A trigger refuses keys that end with an access token, or with a token of a trusted issuer.
 *
 * Sealed for the caller, the token is stored with the answer: a repeat under the idempotency key sets it again.
 */
export const openSession = verb(null, async ctx => {
  const { actor } = ctx
  // A session cannot open another one: it would outlive the first.
  if (!hasCredential(actor) || actor.kind !== 'key') throw fail('key_missing')
  if (ctx.isCrossSite) throw fail('cross_site_request')
  const token = newSessionToken()
  const sealed = await ctx.sealer.seal(token, actor.hash, 'session')
  const change = db
    .insert(sessions)
    .values({
      organization_id: sql`current_organization()`,
      key_id: sql`current_actor()`,
      token_hash: sha256Hex(token),
      method: 'key',
      ...requestedFrom,
    })
    .returning({ ...visibleColumns, sealed: sql<string>`${sealed}::text`.as('sealed') })
  const changes = { changes: createdMembers(SESSION_RECORD) }
  const row = requireRow(await commit(ctx, 'session.opened', change, { method: 'key' }, changes), 'key_unknown')
  const opened = await openOwnAnswer(ctx, row.sealed, 'session')
  ctx.cookies?.push(formatSessionCookie(ctx.origin, opened))
  return toWire({ ...row, is_current: true })
})

const pageStatement = prepareStatement((page: Placeholders<Page>) =>
  db
    .select(sessionColumns)
    .from(sessions)
    .where(and(ownSessions, afterCursor(sessions, page)))
    .orderBy(...newestFirst(sessions))
    .limit(page.limit)
    .offset(page.offset),
)

export const listSessions = verb(null, (ctx, page: Page) => readPage(ctx, pageStatement, page, toWire))

async function endSession(ctx: Ctx, which: SQL): Promise<void> {
  const change = db
    .update(sessions)
    .set({ revoked_at: sql`clock()` })
    .where(and(ownSessions, which))
    .returning(sessionColumns)
  const parts = {
    lock: sql`select from ${sessions} where ${ownSessions} and ${which} for update`,
    changes: changedMembers(sessions, SESSION_RECORD),
  }
  const { is_current } = requireRow(await commit(ctx, 'session.ended', change, {}, parts), 'session_not_found')
  if (is_current) ctx.cookies?.push(formatSessionCookie(ctx.origin, null))
}

export const endOwnSession = verb(null, (ctx, { own_session_id }: z.output<typeof schema.SessionRef>) =>
  endSession(ctx, eq(sessions.id, own_session_id)),
)
export const signOut = verb(null, ctx => endSession(ctx, sql`${sessions.id} = setting('session_id')::uuid`))

const sorted = (permissions: SQL): SQL => sql`array(
  select distinct permission from unnest(${permissions}) as permission order by permission)`

/** A key of a workspace sees that workspace, and a member those where one of its roles has any workspace permission. */
const readCaller = (instanceAdmins: string[]) => sql<Row>`
  with
  member as (
    select m.id, m.email, m.full_name, m.role_id, r.permissions
    from members m
    join roles r on r.id = m.role_id
    where m.id = current_actor() and setting('actor_kind') = 'session'
  ),
  key as (
    select
      a.id, a.description, a.hint, a.role_id, a.tenant_id, a.expires_at,
      (select json_build_object('id', m.id, 'email', m.email) from members m where m.id = a.member_id) as member
    from api_keys a
    where a.id = current_actor() and setting('actor_kind') = 'key'
  ),
  granted as (
    select ${sorted(sql`coalesce((select permissions from member), actor_permissions())`)} as permissions
  ),
  reachable as (
    select
      w.id, w.display_name, w.created_at, wm.role_id,
      case
        when wm.id is null then g.permissions
        else ${sorted(sql`g.permissions || r.permissions`)}
      end as permissions
    from workspaces w
    cross join granted g
    left join workspace_members wm on wm.tenant_id = w.id and wm.member_id = (select id from member)
    left join roles r on r.id = wm.role_id
    where w.organization_id = current_organization()
      and (
        wm.id is not null
        or exists (select from key)
        or g.permissions && '{workspaces:read, deployments:read}'
      )
  )
  select json_build_object(
    'organization', (
      select json_build_object('id', o.id, 'display_name', o.display_name)
      from organizations o
      where o.id = current_organization()
    ),
    'member', (select to_jsonb(m) - 'permissions' from member m),
    'api_key', (select to_json(k) from key k),
    'session', (
      select to_jsonb(s) - 'token_hash' || '{"is_current": true}'
      from sessions s
      where s.id = setting('session_id')::uuid
    ),
    'is_instance_admin', is_instance_admin(${textArray(instanceAdmins)}),
    'permissions', (select permissions from granted),
    'workspaces', (
      select coalesce(
        json_agg(
          json_build_object(
            'id', r.id, 'display_name', r.display_name, 'role_id', r.role_id, 'permissions', r.permissions
          )
          order by r.created_at, r.id
        ),
        '[]'
      )
      from reachable r
    )
  )`

type Me = z.output<typeof schema.Me>

export const readMe = verb(null, async ctx => {
  const [text] = requireRow(await run(ctx, readCaller(ctx.config.instanceAdmins)), 'organization_not_found')
  const me = JSON.parse(text as string) as Omit<Me, 'session'> & { session: SessionRow | null }
  const api_key = me.api_key && { ...me.api_key, expires_at: toIsoTime(me.api_key.expires_at) }
  return { ...me, api_key, session: me.session && toWire(me.session) }
})
