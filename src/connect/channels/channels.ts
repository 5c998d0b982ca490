// Creates, reads, changes and deletes the channels of a workspace, and those of the caller.
import { and, isNull, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { newChannelToken } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { bumpVersion, db, inTenant, refuseUnless, requirePermission, run, versionMatches } from '../../kernel/db/db.ts'
import { announceEvents, commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow, withoutNulls } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { requireAllowedUrl } from '../../kernel/http/guarded-fetch.ts'
import { afterCursor, hasName, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { newSecret } from '../../protocol/webhook-signing.ts'
import { type ChannelParams, type ChannelRow, isChannel, MAY_MANAGE, toWire } from './channel-rows.ts'
import { ASKED, askToConfirm, hasConfirmationRoom, mayAsk, sendsMail } from './confirmation.ts'
import type * as schema from './schema.ts'
import { type ChannelCredentials, CREDENTIALS_PLACE } from './senders/outgoing.ts'
import { type ChannelConfig, channels } from './tables.ts'

/** Others read the events of a workspace, so an own channel shows neither its name nor its address there. */
const ofWorkspace = (value: (row: SQL) => SQL) => (row: SQL) =>
  sql`case when ${row}.member_id is null then ${value(row)} end`
export const RECORDED = {
  name: ofWorkspace(row => sql`${row}.name`),
  kind: (row: SQL) => sql`${row}.kind`,
  target: ofWorkspace(
    row => sql`nullif(${row}.config || jsonb_strip_nulls(jsonb_build_object(
      'url', split_part(${row}.config ->> 'url', '?', 1))), '{}')`,
  ),
  deploys: (row: SQL) => sql`${row}.deploys`,
  is_default: (row: SQL) => sql`${row}.is_default`,
  enabled: (row: SQL) => sql`${row}.enabled`,
}

type ChannelPage = z.output<typeof schema.ChannelQuery>
const pageStatement = prepareStatement((page: Placeholders<ChannelPage>) =>
  db
    .select()
    .from(channels)
    .where(
      and(inTenant(channels), isNull(channels.run_rule_id), hasName(channels.name, page), afterCursor(channels, page)),
    )
    .orderBy(...newestFirst(channels))
    .limit(page.limit)
    .offset(page.offset),
)

export const listChannels = verb('channels:read', (ctx, page: ChannelPage) =>
  readPage(ctx, pageStatement, page, toWire),
)

const channelStatement = prepareStatement((ref: Placeholders<ChannelParams>) =>
  db.select().from(channels).where(isChannel(ref)),
)

export const readChannel = verb('channels:read', async (ctx, { channel_id }: ChannelParams) =>
  toWire(requireRow(await run(ctx, channelStatement({ channel_id })), 'channel_not_found')),
)

type StoredTarget = { kind: ChannelRow['kind']; config: ChannelConfig; credentials: ChannelCredentials }

/** Refuses an address that is not allowed. */
function storedTarget({ config, origin }: Ctx, target: schema.Target): StoredTarget {
  const { kind } = target
  if (kind === 'email')
    return { kind, config: { address: target.address }, credentials: { unsubscribe: newChannelToken() } }
  if (kind === 'pagerduty')
    return { kind, config: { region: target.region }, credentials: { routing_key: target.routing_key } }
  if (kind === 'webhook') {
    requireAllowedUrl(config, origin, target.url)
    return { kind, config: { url: target.url }, credentials: { secret: newSecret() } }
  }
  const { webhook_url, bot_token, slack_channel } = target
  if (webhook_url != null) {
    requireAllowedUrl(config, origin, webhook_url)
    return { kind, config: {}, credentials: { webhook_url } }
  }
  return { kind, config: { slack_channel: slack_channel! }, credentials: { bot_token: bot_token! } }
}

export const sealCredentials = (
  { sealer }: Pick<Ctx, 'sealer'>,
  id: string,
  credentials: ChannelCredentials,
): Promise<string> => sealer.seal(JSON.stringify(credentials), id, CREDENTIALS_PLACE)

/** Deployments from now on are told of. */
const NEWEST_EVENT = sql`coalesce((select j.seq from journals j where j.scope_id = current_tenant()), 0)`
/** Locks the workspace before the journal: deleting the workspace meanwhile could deadlock otherwise. */
const LOCK_WORKSPACE = sql`select from workspaces w where w.id = current_tenant() for key share`

async function insertChannel(ctx: Ctx, values: Record<string, unknown>, condition: SQL, token: string | null) {
  const change = db
    .insert(channels)
    .values({
      ...(values as typeof channels.$inferInsert),
      organization_id: sql`current_organization()` as never,
      tenant_id: sql`case when ${condition} then current_tenant() end` as never,
      position: NEWEST_EVENT as never,
    })
    .returning()
  const parts = { lock: LOCK_WORKSPACE, changes: createdMembers(RECORDED) }
  const rows = await commit(ctx, 'channel.created', change, {}, parts)
  const row = requireRow(rows, 'workspace_not_found')
  if (token !== null && row.confirmed_at === null) askToConfirm(ctx, row, token)
  return row
}

/** To set what a channel gets, or to change its receiver, takes the permission to read that. */
const mayTell = (what: { deploys?: SQL | string | null; incidents?: boolean | null }): SQL | undefined =>
  and(
    what.deploys == null
      ? undefined
      : sql`case when ${what.deploys} = 'none' then true else ${requirePermission('deployments:read')} end`,
    what.incidents ? requirePermission('alerts:read') : undefined,
  )

export const createChannel = verb('channels:manage', async (ctx, { target, ...input }: schema.NewChannel) => {
  const id = crypto.randomUUID()
  const { kind, config, credentials } = storedTarget(ctx, target)
  const token = kind === 'email' ? newChannelToken() : null
  const values = {
    ...input,
    id,
    kind,
    config,
    credentials: await sealCredentials(ctx, id, credentials),
    ...(credentials.unsubscribe && { unsubscribe_hash: sha256Hex(credentials.unsubscribe) }),
    ...(token && ASKED(token)),
  }
  const condition = and(
    mayTell({ deploys: input.deploys, incidents: input.is_default }),
    kind === 'email' ? mayAsk(ctx, config.address!) : sql`true`,
  )!
  const row = await insertChannel(ctx, values, condition, token)
  const { secret = null } = JSON.parse(await ctx.sealer.open(row.credentials, row.id, CREDENTIALS_PLACE))
  // A repeated request gets the stored row, and with it the same secret.
  return { ...toWire(row), secret: secret as string | null }
})

/** The address of a member whom an identity provider or the operator knows needs no confirmation. */
export const createOwnChannel = verb('channels:read', async (ctx, input: schema.NewOwnChannel) => {
  const id = crypto.randomUUID()
  const unsubscribe = newChannelToken()
  const token = newChannelToken()
  const address = sql`(select m.email from members m where m.id = actor_member())`
  const isKnown = sql`is_verified_member(actor_member())`
  const asked = ASKED(token)
  const values = {
    ...input,
    id,
    kind: 'email',
    member_id: sql`actor_member()`,
    config: sql`jsonb_build_object('address', ${address})`,
    credentials: await sealCredentials(ctx, id, { unsubscribe }),
    unsubscribe_hash: sha256Hex(unsubscribe),
    confirmation_hash: sql`case when not ${isKnown} then ${asked.confirmation_hash} end`,
    confirmation_expires_at: asked.confirmation_expires_at,
    confirmed_at: sql`case when ${isKnown} then clock() end`,
  }
  const condition = sql`${refuseUnless('channel_needs_member', sql`actor_member() is not null`)}
    and ${sendsMail(ctx)}
    and case when ${isKnown} then true else ${hasConfirmationRoom(address)} end`
  return toWire(await insertChannel(ctx, values, condition, token))
})

const lockChannel = (ref: ChannelParams): SQL => sql`select from ${channels} where ${isChannel(ref)} for update`

/** A resumed channel starts as if it were new. */
const RESUMED = {
  failing_since: null,
  disabled_reason: null,
  disabled_at: null,
  throttled: 0,
  next_send_at: sql`clock()`,
}

export const changeChannel = verb(
  'channels:read',
  async (ctx, { channel_id, target, ...input }: ChannelParams & schema.ChannelPatch) => {
    const stored = target && storedTarget(ctx, target)
    const token = stored?.kind === 'email' ? newChannelToken() : null
    const isNewAddress = sql`${channels.config} ->> 'address' is distinct from ${stored?.config.address ?? null}`
    /** A signing secret stays. The token that ends e-mails goes with the address to which it was sent. */
    const hasNewCredentials = stored != null && stored.kind !== 'webhook'
    const sealed = hasNewCredentials ? await sealCredentials(ctx, channel_id, stored.credentials) : null
    const { unsubscribe } = stored?.credentials ?? {}
    const asked = token === null ? undefined : ASKED(token)
    const change = db
      .update(channels)
      .set({
        ...withoutNulls(input),
        ...(input.enabled != null && RESUMED),
        ...(input.deploys != null && { position: sql`greatest(${channels.position}, ${NEWEST_EVENT})` }),
        ...(stored && { config: stored.config }),
        ...(sealed !== null && {
          credentials:
            token === null ? sealed : sql`case when ${isNewAddress} then ${sealed} else ${channels.credentials} end`,
        }),
        ...(unsubscribe && {
          unsubscribe_hash: sql`case
            when ${isNewAddress} then ${sha256Hex(unsubscribe)} else ${channels.unsubscribe_hash} end`,
        }),
        ...(asked && {
          confirmed_at: sql`case when ${isNewAddress} then null else ${channels.confirmed_at} end`,
          confirmation_hash: sql`case
            when ${isNewAddress} then ${asked.confirmation_hash} else ${channels.confirmation_hash} end`,
          confirmation_expires_at: sql`case
            when ${isNewAddress} then ${asked.confirmation_expires_at} else ${channels.confirmation_expires_at} end`,
        }),
        ...bumpVersion(channels),
      })
      .where(
        and(
          isChannel({ channel_id }),
          MAY_MANAGE,
          mayTell({
            deploys: input.deploys ?? (stored ? sql`${channels.deploys}` : null),
            incidents: input.is_default || stored != null,
          }),
          versionMatches(ctx, channels),
          stored
            ? refuseUnless(
                'channel_kind_fixed',
                sql`${channels.kind} = ${stored.kind} and ${channels.member_id} is null`,
              )
            : undefined,
          stored?.kind === 'email'
            ? sql`case when ${isNewAddress} then ${mayAsk(ctx, stored.config.address!)} else true end`
            : undefined,
        ),
      )
      .returning()
    const data = { supplied: Object.keys(withoutNulls({ ...input, target })) }
    const parts = { lock: lockChannel({ channel_id }), changes: changedMembers(channels, RECORDED) }
    const row = requireRow(await commit(ctx, 'channel.updated', change, data, parts), 'channel_not_found')
    if (token !== null && row.confirmation_hash === sha256Hex(token)) askToConfirm(ctx, row, token)
    announceEvents(ctx)
    return toWire(row)
  },
)

export const deleteChannel = verb('channels:read', async (ctx, ref: ChannelParams) => {
  const change = db
    .delete(channels)
    .where(and(isChannel(ref), MAY_MANAGE, versionMatches(ctx, channels)))
    .returning()
  const parts = { lock: lockChannel(ref), changes: deletedMembers(RECORDED) }
  requireRow(await commit(ctx, 'channel.deleted', change, {}, parts), 'channel_not_found')
})
