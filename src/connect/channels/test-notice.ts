// Sends a test notice now, and says what the receiver did with it.
import { and, type SQL, sql } from 'drizzle-orm'
import { type Row, refuseUnless } from '../../kernel/db/db.ts'
import { commit, concludeWrite, prepareWrite } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { type ChannelParams, isChannel, MAY_MANAGE } from './channel-rows.ts'
import { countMail } from './mail-limits.ts'
import { CHANNEL_JSON, openChannel } from './notice-worker.ts'
import type * as schema from './schema.ts'
import { send } from './senders/all.ts'
import { type OutgoingNotice, UndeliveredError } from './senders/outgoing.ts'
import { channels } from './tables.ts'

type Prepared = { channel: Parameters<typeof openChannel>[1]; name: string; wait: number }

const selectChannel = (ctx: Ctx, ref: ChannelParams): SQL<Row> => sql<Row>`
  select json_build_object(
      'channel', ${CHANNEL_JSON}, 'name', c.name,
      'wait', case when c.kind = 'email' then ${countMail(ctx, sql`c.tenant_id`)} else 0 end)::text
  from (
    select *
    from ${channels}
    where ${and(
      isChannel(ref),
      MAY_MANAGE,
      refuseUnless('channel_unconfirmed', sql`${channels.confirmed_at} is not null`),
    )}
    offset 0
  ) c`

const makeNotice = (channel: Prepared['channel'], name: string): OutgoingNotice => {
  const now = new Date().toISOString()
  return {
    id: crypto.randomUUID(),
    thread: `test ${crypto.randomUUID()}`,
    phase: 'single',
    created_at: now,
    mayHaveArrived: false,
    remote: null,
    content: {
      title: `Test of the channel ${name}`.slice(0, 300),
      summary: 'A person has asked for this notice, to see that it arrives. Nothing has happened.',
      severity: 'info',
      url: `/ui/${channel.tenant_id}/channels`,
      facts: [{ name: 'Channel', value: name }],
      lines: [],
      started_at: now,
    },
  }
}

async function attempt(ctx: Ctx, { channel, name }: Prepared): Promise<schema.Outcome> {
  const started = Date.now()
  const describe = (error: string | null, answer_status: number | null): schema.Outcome => ({
    delivered: error === null,
    error,
    answer_status,
    duration_ms: Date.now() - started,
  })
  try {
    const { status } = await send(ctx, await openChannel(ctx, channel), makeNotice(channel, name))
    return describe(null, status)
  } catch (error) {
    if (error instanceof UndeliveredError) return describe(error.code, error.refusal.status ?? null)
    throw error
  }
}

type TestRow = { id: string; outcome: schema.Outcome }

/** Also for a disabled channel. It changes neither the health nor the schedule of other notices. */
export const testChannel = verb('channels:read', async (ctx, ref: ChannelParams): Promise<schema.Outcome> => {
  const { current, replayed } = await prepareWrite<Row, TestRow>(ctx, selectChannel(ctx, ref))
  if (replayed) return requireRow(replayed, 'channel_not_found').outcome
  const prepared = JSON.parse(requireRow(current, 'channel_not_found')[0] as string) as Prepared
  if (prepared.wait > 0) throw fail('emails_full', { headers: { 'Retry-After': String(prepared.wait) } })
  const outcome = await attempt(ctx, prepared)
  const change = sql<TestRow>`
    select ${channels.id}, ${JSON.stringify(outcome)}::json as outcome
    from ${channels}
    where ${isChannel(ref)}`
  const { delivered, error } = outcome
  const rows = await concludeWrite(() => commit(ctx, 'channel.tested', change, { delivered, error }))
  return requireRow(rows, 'channel_not_found').outcome
})
