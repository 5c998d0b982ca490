// Lists deliveries, shows their last request and answer, and sends them again; and a test event.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type { AnyPgColumn } from 'drizzle-orm/pg-core'
import type * as z from 'zod'
import { db, inTenant, type Row, requirePermission, run } from '../../kernel/db/db.ts'
import { commit, concludeWrite, prepareWrite } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import { type EventRow, eventId } from '../../people/events/rows.ts'
import { EVENT_JSON, RECEIVER_JSON, setAttempt } from './delivery-worker.ts'
import { isWebhook } from './endpoints.ts'
import { buildPayload } from './payload.ts'
import type * as schema from './schema.ts'
import { type Attempt, type Receiver, sendMessage } from './send.ts'
import { webhookDeliveries, webhooks } from './tables.ts'

type WebhookParams = z.output<typeof schema.WebhookRef>
type DeliveryParams = z.output<typeof schema.DeliveryRef>
type DeliveryRow = typeof webhookDeliveries.$inferSelect

const toWire = (row: DeliveryRow): schema.Delivery => ({
  id: row.id,
  webhook_id: row.webhook_id,
  message_id: eventId({ scope_id: row.tenant_id, seq: row.seq }),
  type: row.type,
  number: Number(row.seq),
  state: row.state,
  attempts: row.attempts,
  next_attempt_at: toIsoTime(row.next_attempt_at),
  attempted_at: toIsoTime(row.attempted_at),
  error: row.error,
  answer_status: row.answer_status,
  duration_ms: row.duration_ms,
  created_at: toIsoTime(row.created_at),
})

type DeliveryPage = WebhookParams & z.output<typeof schema.DeliveryQuery>

/** Joins from the webhook, so that one trip tells an empty list from a missing webhook. */
const pageStatement = prepareStatement(({ webhook_id, state, type, ...query }: Placeholders<DeliveryPage>) => {
  const page = db
    .select()
    .from(webhookDeliveries)
    .where(
      and(
        eq(webhookDeliveries.webhook_id, webhook_id),
        inTenant(webhookDeliveries),
        state && eq(webhookDeliveries.state, state),
        type && eq(webhookDeliveries.type, type),
        afterCursor(webhookDeliveries, query),
      ),
    )
    .orderBy(...newestFirst(webhookDeliveries))
    .limit(query.limit)
    .offset(query.offset)
    .as('delivery')
  return db
    .select()
    .from(webhooks)
    .leftJoinLateral(page, sql`true`)
    .where(isWebhook({ webhook_id }))
    .orderBy(...newestFirst(page as unknown as Record<'created_at' | 'id', AnyPgColumn>))
})

export const listDeliveries = verb('webhooks:read', async (ctx, input: DeliveryPage) => {
  const rows = await run(ctx, pageStatement({ ...input, ...pageBounds(input) }))
  requireRow(rows, 'webhook_not_found')
  return toListPage(
    rows.flatMap(({ delivery }) => (delivery ? [delivery] : [])),
    input,
    toWire,
  )
})

type SentDelivery = { delivery: DeliveryRow; receiver: Receiver; event: EventRow | null }

const selectDelivery = ({ webhook_id, delivery_id }: DeliveryParams): SQL<Row> => sql<Row>`
  select json_build_object('delivery', d, 'receiver', ${RECEIVER_JSON}, 'event', ${EVENT_JSON})::text
  from webhook_deliveries d
  join webhooks w on w.id = d.webhook_id and w.tenant_id = d.tenant_id
  left join events e on e.scope_id = d.tenant_id and e.seq = d.seq
  where d.id = ${delivery_id}::uuid and d.webhook_id = ${webhook_id}::uuid and d.tenant_id = current_tenant()
    and ${requirePermission('events:read')}`

const parseDelivery = (rows: Row[]): SentDelivery =>
  JSON.parse(requireRow(rows, 'webhook_delivery_not_found')[0] as string)

const bodyOf = ({ config }: Pick<Ctx, 'config'>, { event, delivery }: SentDelivery): string | null =>
  event && buildPayload(configuredOrigin(config), event, delivery.deployment)

function toDetails(ctx: Ctx, sent: SentDelivery): schema.DeliveryDetails {
  const { delivery, receiver } = sent
  const { answer_status: status, answer_body: body } = delivery
  return {
    ...toWire(delivery),
    request: { url: receiver.url, headers: delivery.request_headers, body: bodyOf(ctx, sent) },
    answer: status === null ? null : { status, body: body ?? '' },
  }
}

export const readDelivery = verb('webhooks:read', async (ctx, ref: DeliveryParams) =>
  toDetails(ctx, parseDelivery(await run(ctx, selectDelivery(ref)))),
)

/**
 * Attempts a delivery once, now, also for a disabled webhook. It changes neither the schedule of the retries nor the
 * health, which is about scheduled deliveries.
 */
export const redeliver = verb('webhooks:manage', async (ctx, ref: DeliveryParams) => {
  const { current, replayed } = await prepareWrite<Row, SentDelivery & { id: string }>(ctx, selectDelivery(ref))
  if (replayed) return toDetails(ctx, requireRow(replayed, 'webhook_delivery_not_found'))
  const sent = parseDelivery(current)
  const { receiver, event, delivery } = sent
  if (!event) return toDetails(ctx, sent)
  const body = bodyOf(ctx, sent)!
  const attempt = await sendMessage(ctx, receiver, eventId(event), body)
  const isDelivered = attempt.error === null
  const outcome = isDelivered ? sql`state = 'delivered', next_attempt_at = null,` : sql``
  const change = sql<SentDelivery & { id: string }>`
    select w.id, to_json(r) as delivery, ${RECEIVER_JSON} as receiver, ${JSON.stringify(event)}::json as event
    from redelivered r
    join webhooks w on w.id = r.webhook_id and w.tenant_id = current_tenant()`
  const redelivered = sql`redelivered as (
    update webhook_deliveries d
    set ${outcome} ${setAttempt(attempt)}
    where d.id = ${delivery.id}::uuid and d.tenant_id = current_tenant()
    returning d.*)`
  const data = { delivery_id: delivery.id, number: event.seq, delivered: isDelivered }
  const parts = { ctesBefore: [redelivered] }
  const rows = await concludeWrite(() => commit(ctx, 'webhook.redelivered', change, data, parts))
  return toDetails(ctx, requireRow(rows, 'webhook_delivery_not_found'))
})

const MAX_RECOVERED = 1000

/** The failed deliveries get all their attempts again, the oldest first. */
export const recover = verb(
  'webhooks:manage',
  async (ctx, { webhook_id, since }: WebhookParams & z.output<typeof schema.RecoveryWindow>) => {
    const recovered = sql`recovered as (
      update webhook_deliveries d
      set state = 'waiting', attempts = 0, next_attempt_at = clock()
      where d.tenant_id = current_tenant()
        and d.state = 'failed'
        and d.id = any(array(
          select f.id
          from webhook_deliveries f
          where f.webhook_id = ${webhook_id}::uuid
            and f.tenant_id = current_tenant()
            and f.state = 'failed'
            and f.created_at >= ${since}::timestamptz
          order by f.seq
          limit ${MAX_RECOVERED}))
      returning d.id)`
    const change = sql<{ id: string; recovered: number }>`
      select w.id, (select count(*) from recovered) as recovered
      from webhooks w
      where w.id = ${webhook_id}::uuid and w.tenant_id = current_tenant()`
    const data = sql`json_build_object('since', ${since}::timestamptz, 'recovered', changed.recovered)`
    const lock = sql`select from ${webhooks} where ${isWebhook({ webhook_id })} for update`
    const rows = await commit(ctx, 'webhook.recovered', change, data, { ctesBefore: [recovered], lock })
    return { recovered: requireRow(rows, 'webhook_not_found').recovered }
  },
)

// ---- a test event

type PingRow = { id: string; ping: schema.Ping }

export const pingWebhook = verb('webhooks:manage', async (ctx, { webhook_id }: WebhookParams): Promise<schema.Ping> => {
  const query = sql<Row>`
    select json_build_object('receiver', ${RECEIVER_JSON}, 'workspace_id', w.tenant_id, 'at', clock())::text
    from webhooks w
    where w.id = ${webhook_id}::uuid and w.tenant_id = current_tenant()`
  const { current, replayed } = await prepareWrite<Row, PingRow>(ctx, query)
  if (replayed) return requireRow(replayed, 'webhook_not_found').ping
  const { receiver, workspace_id, at } = JSON.parse(requireRow(current, 'webhook_not_found')[0] as string)
  const id = `ping_${crypto.randomUUID()}`
  const timestamp = toIsoTime(at as string)
  const body = JSON.stringify({ type: 'webhook.ping', timestamp, data: { id, workspace_id, webhook_id } })
  const ping = describePing(receiver, body, await sendMessage(ctx, receiver, id, body))
  const change = sql<PingRow>`
    select w.id, ${JSON.stringify(ping)}::json as ping
    from webhooks w
    where w.id = ${webhook_id}::uuid and w.tenant_id = current_tenant()`
  const { delivered, error } = ping
  const rows = await concludeWrite(() => commit(ctx, 'webhook.pinged', change, { delivered, error }))
  return requireRow(rows, 'webhook_not_found').ping
})

const describePing = ({ url }: Receiver, body: string, attempt: Attempt): schema.Ping => ({
  delivered: attempt.error === null,
  error: attempt.error,
  duration_ms: attempt.duration_ms,
  request: { url, headers: attempt.headers, body },
  answer: attempt.answer,
})
