// Webhook deliveries: each is stored once, and processed after it was answered. sweep.ts retries it.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { attemptItem, LEASE, type Outbox, type OutboxItem } from '../../kernel/db/outbox.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { handleBranch } from '../previews/branch-previews.ts'
import { handlePullRequest } from '../previews/pull-requests.ts'
import { findIntegration } from './find-integration.ts'
import { recordHeard } from './followed-repositories.ts'
import { handleInstallation } from './installation-deliveries.ts'
import { handlePush } from './pushes.ts'
import type { HostEvent } from './webhook-payloads.ts'

/** The column `event`: `origin` is the origin at which the host reached this installation, `request` is for events. */
type StoredEvent = { event: HostEvent; origin: string; request?: string | null }
type NewDelivery = StoredEvent & { receiver: string; delivery_id: string }
export type Delivery = OutboxItem & { receiver: string; stored: StoredEvent }

export const MAX_ATTEMPTS = 10

/** Null where the delivery is stored already. A failed one is accepted again when the host redelivers it. */
export async function storeDelivery(services: Services, { receiver, delivery_id, ...stored }: NewDelivery) {
  const statement = sql<Row>`
    insert into githost_deliveries as d (receiver, delivery_id, event, unfinished_attempts, next_attempt_at)
    values (${receiver}, ${delivery_id}, ${JSON.stringify(stored)}::json, 1, clock() + ${LEASE})
    on conflict on constraint githost_deliveries_one do update
      set state = 'waiting',
        attempts = 1,
        unfinished_attempts = 1,
        next_attempt_at = excluded.next_attempt_at,
        error = null
      where d.state = 'failed'
    returning d.id`
  const [, [row]] = (await runAsSystem(services.database, setClock(services.platform), statement)) as [unknown, Row[]]
  return row ? ({ id: row[0] as string, receiver, stored, attempts: 1 } satisfies Delivery) : null
}

const isOwnAttempt = ({ id, attempts }: Delivery): SQL => sql`id = ${id}::uuid and attempts = ${attempts}`
export const requestIdOf = (id: string) => `delivery-${id}`

export const OUTBOX: Outbox<Delivery> = {
  maxAttempts: MAX_ATTEMPTS,
  work: handleEvent,
  markDone: delivery => sql`
    update githost_deliveries
    set state = 'done', error = null, unfinished_attempts = 0
    where ${isOwnAttempt(delivery)}`,
  markFailed: (delivery, { code, isLast, nextAttemptAt }) => sql`
    update githost_deliveries
    set state = ${isLast ? 'failed' : 'waiting'},
      error = ${code},
      unfinished_attempts = 0,
      next_attempt_at = ${nextAttemptAt}
    where ${isOwnAttempt(delivery)} and state = 'waiting'`,
  logMembers: ({ id }) => ({ request_id: requestIdOf(id) }),
}

export const processDelivery = (services: Services, delivery: Delivery): Promise<void> =>
  attemptItem(services, OUTBOX, delivery)

async function handleEvent(services: Services, { id, receiver, attempts, stored }: Delivery): Promise<void> {
  const { event, origin, request = null } = stored
  const context = { services, requestId: requestIdOf(id), origin, request, attempts }
  if (event.kind === 'installation') return handleInstallation(context, receiver, event)
  const integration = await findIntegration(services, receiver, event.installation)
  if (!integration) return
  const { repo_id = null, repo_urls } = event
  const urls = repo_id === null ? repo_urls : await recordHeard(services, integration, { id: repo_id, urls: repo_urls })
  if (event.kind === 'pull_request') return handlePullRequest(context, integration, { ...event, repo_urls: urls })
  const push = { ...event, repo_urls: urls }
  await handlePush(context, integration, push)
  await handleBranch(context, integration, push)
}
