// Deletes flows and reservations that have expired, and checks the providers that are due.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { deleteExpired, type SweepServices } from '../../kernel/db/sweep.ts'
import { createKeylessCaller } from '../../kernel/http/context.ts'
import { requestOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { maintainProvider, RENEW_AHEAD_MS } from './provider-recheck.ts'

export const sweepFlows = (services: SweepServices): Promise<number> =>
  deleteExpired(services, 'oauth flows', [
    { table: 'oauth_flows', where: sql`expires_at < clock() - interval '1 day'` },
  ])

const MAX_PROVIDERS = 8

export async function sweepProviders(services: Services): Promise<void> {
  const { config, platform, database } = services
  await deleteExpired(services, 'oauth reservations', [
    { table: 'oauth_reservations', where: sql`expires_at <= clock()` },
  ])
  const [, due] = (await runAsSystem(database, setClock(platform), CLAIM_DUE_PROVIDERS)) as [unknown, Row[]]
  for (const [organization, provider_id, redirect_uri] of due as [string, string, string][]) {
    const origin = requestOrigin(config, redirect_uri)
    const actor = { kind: 'cron' as const, id: null, organization, tenant: null }
    const caller = createKeylessCaller(services, actor, `recheck-${crypto.randomUUID()}`, origin)
    // A failed check must not stop the others.
    await maintainProvider(caller, { provider_id }).catch((error: unknown) =>
      platform.log({ level: 'error', request_id: caller.requestId, error: String(error) }),
    )
  }
}

/** Sets `checked_at` before the check, so that concurrent sweeps do not check the same provider. */
const CLAIM_DUE_PROVIDERS = sql<Row>`
  update oauth_providers
  set checked_at = clock()
  where id in (
    select id
    from oauth_providers
    where checked_at < clock() - interval '1 hour'
      and (
        checked_at < clock() - interval '1 day'
        or registration = 'dynamic'
          and client_secret_expires_at < clock() + ${RENEW_AHEAD_MS} * interval '1 millisecond')
    order by checked_at
    limit ${MAX_PROVIDERS}
    for update skip locked)
  returning organization_id, provider_id, redirect_uri`
