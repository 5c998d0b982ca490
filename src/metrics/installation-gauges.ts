// Reads what waits in the whole installation, in one round trip. The same on every host.
import { sql } from 'drizzle-orm'
import { LISTENER_SILENT_AFTER } from '../deployments/lifecycle.ts'
import { type Database, runAsSystem } from '../kernel/db.ts'
import { setClock } from '../kernel/journal.ts'
import type { Services } from '../kernel/routes.ts'
import type { MetricFamily } from '../protocol/open-metrics.ts'
import { isPendingStatus } from '../tables/deployments.ts'

const GAUGES = {
  slipway_listeners: 'Registered listeners.',
  slipway_listeners_silent: 'Listeners that did not poll for five minutes.',
  slipway_deployments: 'Deployments, as the database estimates.',
  slipway_revisions_pending: 'Revisions that are being built or deployed.',
  slipway_webhook_deliveries_waiting: 'Messages to webhooks that wait, also for a retry. Counted up to 10000.',
  slipway_githost_deliveries_waiting: 'Deliveries of git hosts that wait to be processed. Counted up to 10000.',
  slipway_preview_hooks_waiting: 'Hooks of previews that wait to be sent. Counted up to 10000.',
  slipway_oldest_delivery_seconds: 'How long the oldest due delivery of a git host waits.',
}
const NAMES = Object.keys(GAUGES) as (keyof typeof GAUGES)[]

/** Every part reads an index of what waits, or a table of few rows. */
const SELECT_GAUGES = sql`
  select
    (select count(*) from listeners),
    (select count(*)
      from listeners
      where coalesce(last_seen_at, created_at) <= clock() - ${LISTENER_SILENT_AFTER} * interval '1 millisecond'),
    (select greatest(reltuples, 0)::bigint from pg_class where oid = 'deployments'::regclass),
    (select count(*)
      from revisions
      where ${isPendingStatus(sql`status`)}),
    (select count(*) from (
      select from webhook_deliveries where state = 'waiting' limit 10000) waiting),
    (select count(*) from (
      select from githost_deliveries where state = 'waiting' limit 10000) waiting),
    (select count(*) from (select from preview_hooks limit 10000) waiting),
    (select coalesce(greatest(0, extract(epoch from clock() - min(next_attempt_at))), 0)
      from githost_deliveries
      where state = 'waiting')`

const gauge = (name: string, help: string, value: number): MetricFamily => ({
  ...{ name, help, type: 'gauge' },
  samples: [{ value }],
})

/** Without the database, only that it does not answer. */
export async function readInstallationGauges({ config, database }: Pick<Services, 'config'> & { database: Database }) {
  const rows = await runAsSystem(database, setClock(config), SELECT_GAUGES).catch(() => undefined)
  const [values] = (rows?.[1] ?? []) as string[][]
  const up = gauge('slipway_database_up', 'Whether the database answers.', values ? 1 : 0)
  return [up, ...(values ?? []).map((value, i) => gauge(NAMES[i]!, GAUGES[NAMES[i]!], Number(value)))]
}
