// Counts the waiting work of the whole installation, in one round trip. Every host reports the same.
import { sql } from 'drizzle-orm'
import journal from '../../drizzle/meta/_journal.json' with { type: 'json' }
import { LISTENER_SILENT_AFTER } from '../hosting/deployments/lifecycle.ts'
import { isPendingStatus } from '../hosting/deployments/tables.ts'
import { runAsSystem } from '../kernel/db/db.ts'
import { setClock } from '../kernel/db/journal.ts'
import type { DatabaseServices } from '../kernel/http/context.ts'
import type { MetricFamily } from '../protocol/open-metrics.ts'

const GAUGES = {
  slipway_listeners: 'Registered listeners.',
  slipway_listeners_silent: 'Listeners that did not poll for five minutes.',
  slipway_deployments: 'Deployments, as the database estimates.',
  slipway_revisions_pending: 'Revisions that are being built or deployed.',
  slipway_webhook_deliveries_waiting: 'Messages to webhooks that wait, also for a retry. Counted up to 10000.',
  slipway_githost_deliveries_waiting: 'Deliveries of git hosts that wait to be processed. Counted up to 10000.',
  slipway_preview_hooks_waiting: 'Hooks of previews that wait to be sent. Counted up to 10000.',
  slipway_oldest_delivery_seconds: 'How long the oldest due delivery of a git host waits.',
  slipway_oldest_webhook_seconds: 'How long the oldest due message to a webhook waits.',
  slipway_oldest_pending_revision_seconds: 'How long a revision has been in its state, the longest of those pending.',
  slipway_longest_silence_seconds: 'How long the listener with deployments that polled last has been silent.',
  slipway_rule_evaluations_waiting: 'Judgements of automation rules that wait. Counted up to 10000.',
  slipway_insight_jobs_waiting: 'Jobs of insights that are queued or run. Counted up to 10000.',
  slipway_database_bytes: 'The size of the database.',
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
      where state = 'waiting'),
    (select coalesce(greatest(0, extract(epoch from clock() - min(next_attempt_at))), 0)
      from webhook_deliveries
      where state = 'waiting'),
    (select coalesce(greatest(0, extract(epoch from clock() - min(status_since))), 0)
      from revisions
      where ${isPendingStatus(sql`status`)}),
    (select coalesce(greatest(0, extract(epoch from clock() - min(coalesce(l.last_seen_at, l.created_at)))), 0)
      from listeners l
      where exists (select from sync_items i where i.listener_id = l.id)),
    (select count(*) from (
      select from rule_evaluations where state = 'waiting' limit 10000) waiting),
    (select count(*) from (
      select from insight_jobs where status in ('queued', 'running') limit 10000) waiting),
    (select pg_database_size(current_database())),
    (select max(created_at) from drizzle.__drizzle_migrations),
    (select coalesce(json_agg(json_build_object('version', version, 'count', count)), '[]')::text
      from (
        select agent_version as version, count(*)
        from listeners
        where agent_version is not null
        group by agent_version
        limit 50
      ) versions)`

const gauge = (name: string, help: string, value: number): MetricFamily => ({
  name,
  help,
  type: 'gauge',
  samples: [{ value }],
})

/** `applied` is the time of the newest migration, `agents` are versions of agents as JSON. */
function readVersions(applied: string, agents: string): MetricFamily[] {
  const newest = journal.entries.findLast(({ when }) => when <= Number(applied))
  const versions = JSON.parse(agents) as { version: string; count: number }[]
  return [
    {
      name: 'slipway_migration',
      type: 'info',
      help: 'The newest migration of the database that this version knows.',
      samples: [{ labels: { migration: newest?.tag ?? 'none' }, value: 1 }],
    },
    {
      name: 'slipway_agents',
      type: 'gauge',
      help: 'Listeners by the version of the agent that polled last.',
      samples: versions.map(({ version, count }) => ({ labels: { version }, value: count })),
    },
  ]
}

/** While the database does not answer, only that is reported, and the keys. */
export async function readInstallationGauges({ config, platform, database }: DatabaseServices) {
  const rows = await runAsSystem(database, setClock(platform), SELECT_GAUGES).catch(() => undefined)
  const [values] = (rows?.[1] ?? []) as string[][]
  const up = gauge('slipway_database_up', 'Whether the database answers.', values ? 1 : 0)
  const keys: MetricFamily = {
    name: 'slipway_sealing_key',
    type: 'info',
    help: 'The sealing keys of this process. The first one seals.',
    samples: config.sealingKeys.map(([kid], place) => ({ labels: { kid, place: String(place + 1) }, value: 1 })),
  }
  if (!values) return [up, keys]
  const gauges = NAMES.map((name, i) => gauge(name, GAUGES[name], Number(values[i])))
  return [up, keys, ...gauges, ...readVersions(values[NAMES.length]!, values[NAMES.length + 1]!)]
}
