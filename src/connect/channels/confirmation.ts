// Asks the owner of an address to confirm it, and ends e-mails to an address. The token of a link replaces a key.
import { and, type SQL, sql } from 'drizzle-orm'
import { html } from 'hono/html'
import { looksLikeChannelToken, newChannelToken } from '../../kernel/crypto/crypto.ts'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { bumpVersion, db, type Row, refuseUnless, runAsSystem } from '../../kernel/db/db.ts'
import { commit, journalTenantEvents, setSystemSettings } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, type OpenRequest, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { type ChannelParams, type ChannelRow, isChannel, MAY_MANAGE, toWire } from './channel-rows.ts'
import { CONFIRMATIONS } from './mail-limits.ts'
import { deliverMail, unsubscribeUrl } from './senders/email.ts'
import { CREDENTIALS_PLACE, UndeliveredError } from './senders/outgoing.ts'
import { channels } from './tables.ts'

const EXPIRY = sql`interval '3 days'`

/** The columns of a channel whose address is to be confirmed. */
export const ASKED = (token: string) => ({
  confirmed_at: null,
  confirmation_hash: sha256Hex(token),
  confirmation_expires_at: sql`clock() + ${EXPIRY}`,
})

/** `name+anything@` reaches the mailbox of `name@`. */
const mailboxOf = (address: SQL | string): SQL => sql`lower(regexp_replace(${address}::text, '\\+[^@]*@', '@'))`

/** For a condition: counts the request to confirm, or refuses it. */
export const hasConfirmationRoom = (address: SQL | string): SQL => {
  const wait = sql`take_mail(
    array[
      'confirm address ' || encode(sha256(convert_to(${mailboxOf(address)}, 'UTF8')), 'hex'),
      'confirm organization ' || current_organization()
    ],
    array[${CONFIRMATIONS.ofMailbox}::integer, ${CONFIRMATIONS.ofOrganization}::integer],
    interval '1 day')`
  return sql`(
    select case when t.wait = 0 then true else refuse('confirmations_full', t.wait::text) end
    from (select ${wait} as wait offset 0) t)`
}

/** For a condition. The database refuses first who may not ask. */
export const sendsMail = ({ platform }: Pick<Ctx, 'platform'>): SQL =>
  refuseUnless('email_unavailable', platform.sendMail ? sql`true` : sql`false`)

export const mayAsk = (ctx: Ctx, address: SQL | string): SQL =>
  sql`${sendsMail(ctx)} and ${hasConfirmationRoom(address)}`

const buildText = (link: string, leave: string) =>
  [
    'A workspace of Slipway wants to send notices of incidents and deployments to this address.',
    '',
    'Confirm it within three days, if you want them:',
    link,
    '',
    'Otherwise nothing is sent. To refuse at once:',
    leave,
    '',
  ].join('\n')

/** Sends the e-mail after the response. A failure is shown by the health of the channel. */
export function askToConfirm(ctx: Ctx, row: ChannelRow, token: string): void {
  const { config, database, origin, platform, sealer, waitUntil } = ctx
  const work = async () => {
    const credentials = JSON.parse(await sealer.open(row.credentials, row.id, CREDENTIALS_PLACE))
    const link = `${origin}/channel-links/confirm?token=${encodeURIComponent(token)}`
    const leave = unsubscribeUrl({ config, platform }, { credentials })
    const page = html`<!doctype html><html lang="en"><body style="font:15px/1.5 sans-serif">
<p>A workspace of Slipway wants to send notices of incidents and deployments to this address.</p>
<p><a href="${link}">Confirm the address</a> within three days, if you want them.</p>
<p><small>Otherwise nothing is sent. <a href="${leave}">Refuse at once</a></small></p></body></html>`
    const host = config.smtp!.from.address.split('@')[1]
    const error = await deliverMail(
      { config, platform },
      {
        to: row.config.address!,
        subject: 'Confirm this address for notices of Slipway',
        text: buildText(link, leave),
        html: String(await page),
        messageId: `<${crypto.randomUUID()}@${host}>`,
        references: [],
        unsubscribeUrl: leave,
        pictures: [],
      },
    ).then(
      () => null,
      (failure: unknown) => (failure instanceof UndeliveredError ? failure.code : 'internal'),
    )
    await runAsSystem(
      database,
      sql`update channels set attempted_at = now(), last_error = ${error} where id = ${row.id}::uuid`,
    ).catch(() => {})
  }
  waitUntil?.(work())
}

export const sendConfirmation = verb('channels:read', async (ctx, ref: ChannelParams) => {
  const token = newChannelToken()
  const change = db
    .update(channels)
    .set({ ...ASKED(token), ...bumpVersion(channels) })
    .where(
      and(
        isChannel(ref),
        MAY_MANAGE,
        refuseUnless('channel_confirmed', sql`${channels.kind} = 'email' and ${channels.confirmed_at} is null`),
        mayAsk(ctx, sql`${channels.config} ->> 'address'`),
      ),
    )
    .returning()
  const lock = sql`select from ${channels} where ${isChannel(ref)} for update`
  const row = requireRow(await commit(ctx, 'channel.confirmation_sent', change, {}, { lock }), 'channel_not_found')
  if (row.confirmation_hash === sha256Hex(token)) askToConfirm(ctx, row, token)
  return toWire(row)
})

// ---- links of e-mails

const CONFIRM = sql`
  confirmed_at = clock(), confirmation_hash = null, enabled = true, disabled_at = null, disabled_reason = null,
  failing_since = null`
const UNSUBSCRIBE = sql`
  confirmed_at = case when c.member_id is null then null else c.confirmed_at end,
  confirmation_hash = null, enabled = false, disabled_at = clock(), disabled_reason = 'unsubscribed'`

export type LinkAction = 'confirm' | 'unsubscribe'
const LINKS = {
  confirm: {
    set: CONFIRM,
    column: sql`confirmation_hash`,
    condition: sql`c.confirmed_at is null and c.confirmation_expires_at > clock()`,
    event: 'channel.confirmed',
  },
  unsubscribe: { set: UNSUBSCRIBE, column: sql`unsubscribe_hash`, condition: sql`true`, event: 'channel.unsubscribed' },
} as const

/** Returns the address. To unsubscribe twice is no failure: mail clients send the request again. */
export async function useLink(
  { platform, database, config }: Services,
  action: LinkAction,
  { requestId, request }: OpenRequest,
  token: string,
): Promise<{ failure: null; address: string }> {
  if (!looksLikeChannelToken(token)) throw fail('channel_link_invalid')
  const { set, column, condition, event } = LINKS[action]
  const events = sql`
    select tenant_id, organization_id, ${event} as type, id as subject_id, '{}'::json as data,
      ${changedMembers(channels, recordColumns(channels, ['enabled']), sql`used`)} as changes
    from used
    where was_enabled or ${action === 'confirm'}`
  const [, [row]] = (await runAsSystem(
    database,
    setSystemSettings(platform, requestId, request),
    sql<Row>`
      with found as (
        select c.id, c.enabled as was_enabled
        from channels c
        where c.${column} = ${sha256Hex(token)} and ${condition}
        for update
      ),
      used as (
        update channels c
        set ${set}, version = c.version + 1, updated_at = clock()
        from found f
        where c.id = f.id
        returning c.*, f.was_enabled
      )
      select config ->> 'address', ${journalTenantEvents(events, {
        actor: sql`'visitor', null, 'Owner of the address'`,
        dailyLimit: sql`${config.eventsPerDay || null}::bigint`,
      })}
      from used`,
  )) as [unknown, Row[]]
  if (!row) throw fail('channel_link_invalid')
  return { failure: null, address: row[0] as string }
}
