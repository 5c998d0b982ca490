// Sends the notices of channels: one at a time for each channel, and those of a thread in their order.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { journalTenantEvents, setClock } from '../../kernel/db/journal.ts'
import { drainOutbox, LEASE, type Outbox, type OutboxItem } from '../../kernel/db/outbox.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { workInTurns } from '../../kernel/db/worker-pool.ts'
import { pauseUntilAborted } from '../../kernel/http/context.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { createExpiringMap } from '../../kernel/limits/expiring-map.ts'
import { storeDeployNotices } from './deploy-notices.ts'
import { takeMail } from './mail-limits.ts'
import { send } from './senders/all.ts'
import {
  CREDENTIALS_PLACE,
  type OutgoingChannel,
  type OutgoingNotice,
  type Sent,
  UndeliveredError,
} from './senders/outgoing.ts'
import { channels } from './tables.ts'

/** Seconds before each retry, 20 hours together. A random fifth is added. */
const RETRY_SECONDS = [5, 30, 120, 600, 1800, 3600, 7200, 14_400, 43_200]
const MAX_ATTEMPTS = RETRY_SECONDS.length + 1
const JITTER = 0.2
const DISABLED_AFTER = sql`interval '5 days'`
const MAX_PAUSE_S = 300
/** The workspace has sent its e-mails of this hour: the attempt does not count. */
const MAIL_LIMIT = 'mail_limit'
/** The person may not read the workspace any more. */
const NOT_PERMITTED = 'not_permitted'

type Item = OutboxItem & {
  channel: Omit<OutgoingChannel, 'credentials'> & { credentials: string }
  notice: Omit<OutgoingNotice, 'mayHaveArrived'>
  isPermitted: boolean
}
type Outcome = Sent & { duration_ms: number }

class TimedError extends UndeliveredError {
  readonly duration_ms: number
  constructor({ code, refusal }: UndeliveredError, duration_ms: number) {
    super(code, refusal)
    this.duration_ms = duration_ms
  }
}

// ---- one notice

/** `c` is the channel. */
export const CHANNEL_JSON = sql`json_build_object(
    'id', c.id, 'tenant_id', c.tenant_id, 'kind', c.kind, 'config', c.config, 'credentials', c.credentials)`

const isFirstOfThread = sql`not exists (
    select from notices e
    where e.channel_id = n.channel_id and e.thread = n.thread and e.state = 'waiting' and e.sequence < n.sequence)`

const claimNotice = (channel: string): SQL<Row> => sql<Row>`
  with c as (
    select *
    from channels
    where id = ${channel}::uuid and enabled and confirmed_at is not null and next_send_at <= clock()
    for update
  ),
  due as (
    select n.id, n.attempts
    from c
    join notices n on n.channel_id = c.id
    where n.state = 'waiting' and n.next_attempt_at <= clock() and ${isFirstOfThread}
    order by n.next_attempt_at, n.sequence
    limit 1
  ),
  claimed as (
    update notices n
    set attempts = n.attempts + 1, next_attempt_at = clock() + ${LEASE}
    from due
    where n.id = due.id and n.state = 'waiting' and n.attempts = due.attempts
    returning n.*
  ),
  leased as (
    update channels v
    set next_send_at = clock() + ${LEASE}
    from claimed
    where v.id = claimed.channel_id
  )
  select json_build_object(
      'id', n.id, 'attempts', n.attempts, 'channel', ${CHANNEL_JSON}, 'isPermitted', may_be_told(v, n.thread),
      'notice', json_build_object(
        'id', n.id, 'thread', n.thread, 'phase', n.phase, 'content', n.content, 'created_at', n.created_at,
        'remote', (
          select r.remote
          from notices r
          where r.channel_id = n.channel_id and r.thread = n.thread and r.remote is not null
          order by r.sequence desc
          limit 1
        )
      )
    )::text
  from claimed n
  cross join c
  join channels v on v.id = c.id`

export const openChannel = async (
  { sealer }: Pick<Services, 'sealer'>,
  channel: Item['channel'],
): Promise<OutgoingChannel> => ({
  ...channel,
  credentials: JSON.parse(await sealer.open(channel.credentials, channel.id, CREDENTIALS_PLACE)),
})

async function attemptNotice(services: Services, { channel, notice, attempts, isPermitted }: Item): Promise<Outcome> {
  if (!isPermitted) throw new UndeliveredError(NOT_PERMITTED, { isFinal: true })
  const opened = await openChannel(services, channel)
  if (channel.kind === 'email') {
    const wait = await takeMail(services, channel.tenant_id)
    if (wait > 0) throw new UndeliveredError(MAIL_LIMIT, { isBusy: true, retryAfter: wait })
  }
  const started = Date.now()
  try {
    const sent = await send(services, opened, { ...notice, mayHaveArrived: attempts > 1 })
    return { ...sent, duration_ms: Date.now() - started }
  } catch (error) {
    throw error instanceof UndeliveredError ? new TimedError(error, Date.now() - started) : error
  }
}

const isOwnAttempt = ({ id, attempts }: OutboxItem): SQL =>
  sql`id = ${id}::uuid and attempts = ${attempts} and state = 'waiting'`

const markDelivered = (item: Item, { status, remote, duration_ms }: Outcome): SQL => sql`
  with delivered as (
    update notices
    set state = 'delivered', next_attempt_at = null, attempted_at = clock(), error = null,
      answer_status = ${status}::integer, duration_ms = ${duration_ms}::integer,
      remote = ${remote ? JSON.stringify(remote) : null}::jsonb
    where ${isOwnAttempt(item)}
    returning channel_id
  )
  update channels c
  set next_send_at = clock(), failing_since = null, throttled = 0, attempted_at = clock(), last_error = null
  from delivered d
  where c.id = d.channel_id`

const OUTBOX: Outbox<Item, Outcome> = {
  maxAttempts: MAX_ATTEMPTS,
  work: attemptNotice,
  markDone: markDelivered,
  markFailed: (item, { code, isLast, nextAttemptAt, error }) => {
    const {
      status = null,
      isFinal,
      endsChannel,
      isBusy,
      retryAfter = 0,
    } = error instanceof UndeliveredError ? error.refusal : {}
    const isLimited = code === MAIL_LIMIT
    const isPersonal = code === NOT_PERMITTED
    const isOver = (isLast && !isLimited) || isFinal === true || endsChannel === true
    const state = isPersonal ? 'dropped' : isOver ? 'failed' : 'waiting'
    const duration = error instanceof TimedError ? error.duration_ms : null
    const endsReason = sql`case
        when ${endsChannel === true} then 'rejected'
        when ${!isLimited && !isPersonal} and c.failing_since < clock() - ${DISABLED_AFTER} then 'failing'
      end`
    const backoff = sql`least(${MAX_PAUSE_S}, power(2, least(c.throttled, 9)))`
    const pause = isBusy ? sql`greatest(${retryAfter}, ${backoff})` : sql`0`
    const failed = sql`
      with failed as (
        update notices
        set state = ${state},
          attempts = attempts - ${isLimited ? 1 : 0},
          next_attempt_at = ${isOver ? sql`null` : nextAttemptAt},
          attempted_at = clock(), error = ${code}, answer_status = ${status}::integer,
          duration_ms = ${duration}::integer
        where ${isOwnAttempt(item)}
        returning channel_id
      ),
      held as (
        select c.id, ${endsReason} as reason, c.enabled as was_enabled
        from channels c
        join failed f on c.id = f.channel_id
        for update of c
      ),
      noted as (
        update channels c
        set next_send_at = clock() + ${pause} * interval '1 second',
          throttled = ${isBusy && !isLimited ? sql`c.throttled + 1` : sql`0`},
          attempted_at = clock(),
          last_error = ${code},
          failing_since = ${isLimited || isPersonal ? sql`c.failing_since` : sql`coalesce(c.failing_since, clock())`},
          enabled = c.enabled and h.reason is null,
          disabled_reason = case when c.enabled then h.reason else c.disabled_reason end,
          disabled_at = case when c.enabled and h.reason is not null then clock() else c.disabled_at end,
          version = c.version + case when c.enabled and h.reason is not null then 1 else 0 end
        from held h
        where c.id = h.id
        returning c.*, h.was_enabled
      )
      select ${journalTenantEvents(sql`
        select tenant_id, organization_id, 'channel.disabled' as type, id as subject_id,
          json_build_object('reason', disabled_reason, 'failing_since', failing_since) as data,
          ${changedMembers(channels, recordColumns(channels, ['enabled']), sql`noted`)} as changes
        from noted
        where was_enabled and not enabled`)}`
    return [sql`select set_config('app.request_id', ${`notice-${item.id}`}, true)`, failed]
  },
  logMembers: ({ id, channel }) => ({ channel: channel.id, notice: id }),
  backoff: (attempts, error) => {
    const seconds = RETRY_SECONDS[attempts - 1] ?? 0
    const retryAfter = error instanceof UndeliveredError ? (error.refusal.retryAfter ?? 0) : 0
    return Math.max(retryAfter, Math.round(seconds * (1 + JITTER * Math.random())))
  },
}

// ---- all that are due

const MAX_CHANNELS = 500
const MAX_CONCURRENT = 8

/** The channels with something to send: of each workspace the one that waits longest, then the second of each. */
const listDue = (condition: SQL): SQL<Row> => sql<Row>`
  select c.id, c.tenant_id
  from channels c
  where c.enabled
    and c.confirmed_at is not null
    and c.next_send_at <= clock()
    and ${condition}
    and (
      (
        c.deploys <> 'none'
        and exists (select from journals j where j.scope_id = c.tenant_id and j.seq > c.position)
      )
      or exists (
        select from notices n
        where n.channel_id = c.id and n.state = 'waiting' and n.next_attempt_at <= clock()
      )
    )
  order by row_number() over (partition by c.tenant_id order by c.next_send_at), c.next_send_at
  limit ${MAX_CHANNELS}`

export async function deliverDueNotices(services: Services, condition: SQL, maxItems?: number): Promise<void> {
  const { platform, database } = services
  const [, rows] = (await runAsSystem(database, setClock(platform), listDue(condition))) as [
    unknown,
    [string, string][],
  ]
  const due = rows.map(([id, workspace]) => ({ id, workspace }))
  const itemsOfEach = maxItems && Math.max(1, Math.floor(maxItems / due.length))
  await workInTurns(maxItems ? due.slice(0, maxItems) : due, {
    maxConcurrent: MAX_CONCURRENT,
    stopping: platform.stopping,
    work: ({ id }) =>
      drainOutbox(services, OUTBOX, {
        claim: claimNotice(id),
        beforeClaim: [storeDeployNotices(sql`${id}::uuid`)],
        maxConcurrent: 1,
        ...(itemsOfEach && { maxItems: itemsOfEach }),
      }),
  })
}

/** Writes of a workspace within this time share a look, so that many writes do not use up the database connections. */
const GATHER_MS = 20
/** A host may drop the request that gathers. */
const GATHER_EXPIRY_MS = 1000
const MAX_GATHERING = 10_000

/** Runs in the process that stored the notices or wrote the events, after its response. The schedule sends the rest. */
export function createNoticeDeliverer(services: Services): (tenant: string) => Promise<void> {
  const { platform } = services
  const gathering = createExpiringMap<true>(MAX_GATHERING, Date.now)
  return async tenant => {
    if (platform.deliveriesPerRequest === 0 || gathering.get(tenant)) return
    gathering.set(tenant, true, GATHER_EXPIRY_MS)
    await pauseUntilAborted(GATHER_MS)
    gathering.delete(tenant)
    try {
      await deliverDueNotices(services, sql`c.tenant_id = ${tenant}::uuid`, platform.deliveriesPerRequest)
    } catch (error) {
      platform.log({ level: 'warn', tenant, error: 'notices not delivered', message: String(error) })
    }
  }
}
