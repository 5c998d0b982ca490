// Looks at rules: reads what they have seen, decides, and writes incidents with their notices.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setClock, setSystemSettings } from '../../kernel/db/journal.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { MetricPoint } from '../../protocol/metrics.schema.ts'
import { describeValue, fallsByTime, nextLook, readSample, toCondition } from './condition-values.ts'
import { coveringMutes } from './covering-mutes.ts'
import { type Decision, decide, OK, type Sample } from './decide.ts'
import { readFacts, toEvidence } from './evidence.ts'
import { type MuteWindow, toMuteEnd } from './mute-windows.ts'
import { duePairs, metricPairs, metricRuleCounts, recentDeployments, selectWatched, type Watched } from './samples.ts'

/** Pages of a look. More are left to the next one. */
const MAX_PAGES = 10
const NOT_WATCHED = 'The rule does not watch this any more.'

type Decided = { watched: Watched; sample: Sample; decision: Decision }

export async function readWatched(services: Services, pairs: SQL, isEarly = false): Promise<Watched[]> {
  const { database, platform } = services
  const settings = setSystemSettings(platform, `alerts-${crypto.randomUUID()}`)
  const [, rows] = await runAsSystem(database, settings, selectWatched(pairs, isEarly))
  return (rows as Row[]).map(([text]) => JSON.parse(text as string))
}

/** A rule that is off, or a subject that is gone, ends what is open. */
export function decideOn(watched: Watched, sample: Sample): Decided {
  const state = watched.state ?? OK
  if (!watched.is_watched) {
    const isOpen = state.phase === 'firing' || state.phase === 'clearing'
    return { watched, sample, decision: { state: OK, action: isOpen ? 'resolve' : null, dueAt: null } }
  }
  const decision = decide(toCondition(watched), state, sample)
  const needsLook = decision.dueAt === null && decision.state.phase !== 'ok' && fallsByTime(watched.rule.condition)
  return { watched, sample, decision: needsLook ? { ...decision, dueAt: nextLook(sample.at) } : decision }
}

/** Nothing is to be written where nothing was seen, and nothing is. */
const isWorthWriting = ({ watched, decision }: Decided): boolean =>
  watched.state !== null || decision.state.phase !== 'ok'

/** The last event is no reason for the end. */
const toEnd = (kind: string, about: string): string | null => (kind === 'event' ? null : about || null)
const toTime = (ms: number | null): string | null => (ms === null ? null : new Date(ms).toISOString())

/** Writes decisions, and sends what they come to. Returns how many counted. */
export async function writeDecisions(services: Services, decided: Decided[]): Promise<number> {
  const worth = decided.filter(isWorthWriting)
  if (worth.length === 0) return 0
  const opened = worth.filter(({ decision }) => decision.action === 'open').map(({ watched }) => watched.subject)
  const facts = await readFacts(
    services,
    opened.filter(({ type }) => type === 'deployment').map(({ id }) => id),
  )
  const rows = worth.map(({ watched, sample, decision: { state, action, dueAt } }) => {
    const { rule, subject, mutes } = watched
    const about = sample.value === null ? '' : describeValue(watched, sample.value)
    return {
      rule_id: rule.id,
      subject_id: subject.id,
      subject_type: subject.type,
      subject_name: subject.name,
      version: watched.state?.version ?? 0,
      phase: state.phase,
      since: toTime(state.since),
      relapses: state.relapses,
      sampled_at: toTime(state.sampledAt),
      due_at: toTime(dueAt),
      action,
      value: sample.value,
      ...(action === 'resolve' && { message: watched.is_watched ? toEnd(rule.condition.kind, about) : NOT_WATCHED }),
      ...(action === 'open' && {
        title: `${subject.name}: ${rule.name}`,
        muted_until: toMuteEnd(mutes, sample.at),
        ...toEvidence(watched, about, facts.get(subject.id)),
      }),
    }
  })
  const { database, platform } = services
  const settings = setSystemSettings(platform, `alerts-${crypto.randomUUID()}`)
  const apply = sql<Row>`select apply_alert_decisions(${JSON.stringify(rows, withWholeCharacters)}::jsonb)`
  const [, written] = await runAsSystem(database, settings, apply)
  const moved = worth.filter(({ decision }) => decision.action !== null)
  await announce(services, [...new Set(moved.map(({ watched }) => watched.rule.tenant_id))])
  return Number((written as Row[])[0]![0])
}

/** The database refuses half of a surrogate pair. A text that was cut may end with one. */
const withWholeCharacters = (_: string, value: unknown): unknown =>
  typeof value === 'string' ? value.toWellFormed() : value

/** Decisions of one workspace that cannot be written do not keep those of others from being written. */
async function writeOfEach(services: Services, decided: Decided[]): Promise<number> {
  try {
    return await writeDecisions(services, decided)
  } catch {
    let written = 0
    for (const ofWorkspace of Map.groupBy(decided, ({ watched }) => watched.rule.tenant_id).values())
      written += await writeDecisions(services, ofWorkspace).catch(error => postpone(services, ofWorkspace, error))
    return written
  }
}

/** They would be the first of each page otherwise. */
async function postpone({ database, platform }: Services, decided: Decided[], error: unknown): Promise<number> {
  const { tenant_id } = decided[0]!.watched.rule
  platform.log({ level: 'error', tenant: tenant_id, error: 'alerts not written', message: String(error) })
  const rules = uuidArray([...new Set(decided.map(({ watched }) => watched.rule.id))])
  const later = sql`
    update alert_states s
    set due_at = clock() + interval '1 minute', version = version + 1
    where s.rule_id = any(${rules}) and s.due_at <= clock()`
  await runAsSystem(database, setSystemSettings(platform, `alerts-${crypto.randomUUID()}`), later)
  return decided.length
}

/** Notices and events leave at once. Their own schedules send what this leaves. */
async function announce({ deliverEvents }: Services, tenants: string[]): Promise<void> {
  await Promise.all(tenants.map(tenant => deliverEvents?.(tenant)))
}

/** Looks at what is due: conditions of all kinds but traces. */
export async function lookAtDue(services: Services): Promise<void> {
  for (let page = 0; page < MAX_PAGES; page++) {
    const watched = await readWatched(services, duePairs)
    if (watched.length === 0) return
    const at = services.platform.clock.now()
    const written = await writeOfEach(
      services,
      watched.map(one => decideOn(one, readSample(one, at))),
    )
    // Another instance has written them.
    if (written === 0) return
  }
}

const MAX_PAIRS = 500
const RECENT_MS = 20_000

/** Packs deployments by the number of rules that watch them, so that no look reads more than a page. */
function packDeployments(rows: [id: string, rules: string][]): string[][] {
  const packs: string[][] = []
  let size = MAX_PAIRS
  for (const [id, rules] of rows) {
    size += Number(rules)
    if (size <= MAX_PAIRS) packs.at(-1)!.push(id)
    else {
      packs.push([id])
      size = Number(rules)
    }
  }
  return packs
}

async function listWatched({ database, platform }: Services, deployments: SQL): Promise<string[][]> {
  const [, rows] = await runAsSystem(database, setClock(platform), metricRuleCounts(deployments))
  return packDeployments(rows as [string, string][])
}

async function lookAtPack(services: Services, ids: string[], early: MetricPoint[]): Promise<void> {
  const watched = await readWatched(services, metricPairs(ids), early.length > 0)
  const at = services.platform.clock.now()
  const ofDeployment = Map.groupBy(early, ({ deployment_id }) => deployment_id)
  await writeOfEach(
    services,
    watched.map(one => decideOn(one, readSample(one, at, ofDeployment.get(one.subject.id)))),
  )
}

/** Looks at the rules on metrics of deployments whose metrics have come. `early`: points that are not stored. */
export async function lookAtMetrics(services: Services, ids: string[], early: MetricPoint[] = []): Promise<void> {
  for (const pack of await listWatched(services, uuidArray(ids))) await lookAtPack(services, pack, early)
}

/**
 * Looks at the metrics of the last minutes again, as a process may have died before it looked at them. The deployments
 * of workspaces take turns, and what the time does not suffice for is left to the next look.
 */
export async function lookAtRecentMetrics(services: Services): Promise<void> {
  const until = Date.now() + RECENT_MS
  for (const pack of await listWatched(services, recentDeployments)) {
    if (Date.now() > until || services.platform.stopping?.aborted) return
    await lookAtPack(services, pack, [])
  }
}

// ---- incidents that are told later

const MAX_TOLD = 200
const DUE_TO_TELL = sql<Row>`
  select json_build_object(
      'id', i.id, 'tenant_id', i.tenant_id,
      'mutes', ${coveringMutes({
        tenant: sql`i.tenant_id`,
        rule: sql`i.rule_id`,
        deployment: sql`i.deployment_id`,
        tags: sql`(select d.tag_value_ids from deployments d where d.id = i.deployment_id)`,
      })}
    )::text
  from incidents i
  where i.tell_at <= clock() and i.state <> 'resolved'
  order by i.tell_at
  limit ${MAX_TOLD}`

/** Tells of incidents whose mute has ended, and of those that came back and last. */
export async function tellDue(services: Services): Promise<void> {
  const { database, platform } = services
  const settings = setSystemSettings(platform, `alerts-${crypto.randomUUID()}`)
  const [, rows] = await runAsSystem(database, settings, DUE_TO_TELL)
  const due: { id: string; tenant_id: string; mutes: MuteWindow[] }[] = (rows as Row[]).map(([text]) =>
    JSON.parse(text as string),
  )
  if (due.length === 0) return
  const now = platform.clock.now()
  const muted = due.flatMap(({ id, mutes }) => {
    const until = toMuteEnd(mutes, now)
    return until === null ? [] : [[id, until]]
  })
  const ids = due.map(({ id }) => id)
  const tell = sql`select tell_due_incidents(
    ${JSON.stringify(Object.fromEntries(muted))}::jsonb, array(
      select e.id::uuid from jsonb_array_elements_text(${JSON.stringify(ids)}::jsonb) e(id)
    ))`
  await runAsSystem(database, settings, tell)
  await announce(services, [...new Set(due.map(({ tenant_id }) => tenant_id))])
}

/** Resolves the incidents of automation rules that match nothing any more. */
export async function resolveQuietRunRules(services: Services): Promise<void> {
  const { database, platform } = services
  const settings = setSystemSettings(platform, `alerts-${crypto.randomUUID()}`)
  const [, rows] = await runAsSystem(database, settings, sql<Row>`select * from resolve_quiet_run_rules()`)
  await announce(services, [...new Set((rows as [string][]).map(([tenant]) => tenant))])
}
