// The scheduled work of alerts: looks at what is due, and deletes what has expired.
import { sql } from 'drizzle-orm'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { lookAtDue, lookAtRecentMetrics, resolveQuietRunRules, tellDue } from './look.ts'
import { lookAtTraces } from './trace-looks.ts'

/** Every ten seconds. */
export async function lookAtAlerts(services: Services): Promise<void> {
  await lookAtDue(services)
  await tellDue(services)
  await resolveQuietRunRules(services)
  await lookAtTraces(services)
}

const SIGNALS_FOR = sql`interval '25 hours'`
const INCIDENTS_FOR = sql`interval '90 days'`
const MUTES_FOR = sql`interval '7 days'`

export async function sweepAlerts(services: Services): Promise<void> {
  await lookAtRecentMetrics(services)
  await lookAtAlerts(services)
  await deleteExpired(services, 'alerts', [
    { table: 'alert_signals', where: sql`at < clock() - ${SIGNALS_FOR}` },
    { table: 'incidents', where: sql`state = 'resolved' and resolved_at < clock() - ${INCIDENTS_FOR}` },
    { table: 'alert_mutes', where: sql`ends_at < clock() - ${MUTES_FOR}` },
  ])
}
