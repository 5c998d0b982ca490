// Reads the wanted, the serving and the observed state at a moment. Revisions keep their configuration and when they
// entered their state. Members that change in place are read back from the first event after the moment that changed
// them.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run, textArray } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { pageBounds, toListPage } from '../../kernel/http/paging.ts'
import type { DeploymentStatus } from '../../protocol/parts.schema.ts'
import { type ResourceSpec, SCALE_MEMBERS, withScale } from '../../protocol/resources.schema.ts'
import type * as s from './history.schema.ts'
import { inFlightStates, terminalStates, waitingStates } from './lifecycle.ts'
import { compareRevisions, IN_PLACE_MEMBERS, type RevisionContent } from './plan.ts'
import { configToWire, holdToWire, type RevisionRow, revisionConfigToWire } from './rows.ts'
import type { DeploymentRef } from './schema.ts'
import type { Hold } from './tables.ts'

/** Limits the events of a deployment after the moment that are read. */
const MAX_EVENTS = 5000
const MAX_EVENTS_IN_LIST = 200
/** The queue holds two revisions. Pushes that are held back may be newer than them. */
const MAX_QUEUE_DEPTH = 50
/** An event is numbered after its transaction began, so a later number can have a slightly earlier time. */
const CLOCK_SKEW = sql`interval '1 minute'`

// ---- the statement

/** A client writes a moment in milliseconds, the database has microseconds. */
const momentsCte = (at: string | undefined): SQL => sql`moments as (
  select 1 as place, least(${at ?? null}::timestamptz + interval '999 microseconds', clock()) as at
  union all
  select 2, clock())`

/** The place of the first event after the moment, and the time since which no event is missing. */
const JOURNAL = sql`journal as (
  select
    first_event_since(current_tenant(), m.at - ${CLOCK_SKEW}) as first_number,
    case
      when o.seq = 1 or (select seq from journals where scope_id = current_tenant()) is null then null
      else coalesce(o.created_at, clock())
    end as kept_since
  from moments m
  left join lateral (
    select seq, created_at
    from events
    where scope_id = current_tenant() and tenant_id = current_tenant()
    order by seq
    limit 1) o on true
  where m.place = 1)`

const NEWEST_FIRST = sql`order by r.created_at desc, r.id desc`
const REVISIONS_THEN = sql`revisions r
    where r.deployment_id = d.id and r.tenant_id = current_tenant() and r.created_at <= m.at`

/** The last state that it had entered. A revision of an old release has only the current one. */
const STATE_THEN = sql`(
      select json_build_object('status', e.value ->> 'status', 'since', e.value ->> 'since')
      from json_array_elements(coalesce(
        r.states, json_build_array(json_build_object('status', r.status, 'since', r.status_since))))
        with ordinality e(value, place)
      where (e.value ->> 'since')::timestamptz <= m.at
      order by e.place desc
      limit 1)`

const describeRevision = (columns: SQL = sql``): SQL => sql`json_build_object(
      'id', r.id,
      'number', r.number,
      'created_at', r.created_at,
      'state', ${STATE_THEN},
      'commit', r."commit",
      'image_uri', r.source_revision_config ->> 'image_uri'
      ${columns})`

const CONFIGURATION = sql`,
      'source', r.source,
      'source_config', r.source_config,
      'source_revision_config', r.source_revision_config,
      'secrets', r.secrets,
      'secret_references', r.secret_references`

const LATEST = (columns: SQL): SQL => sql`(
    select ${describeRevision(columns)}
    from ${REVISIONS_THEN} and not 'held' = any(r.reasons)
    ${NEWEST_FIRST}
    limit 1)`

/** An older revision never replaces the one that serves, and DEPLOYED is the last state of a revision. */
const SERVED = sql`(
    select ${describeRevision()}
    from ${REVISIONS_THEN} and r.status = 'DEPLOYED' and r.status_since <= m.at
    ${NEWEST_FIRST}
    limit 1)`

const QUEUE = sql`(
    select json_agg(${describeRevision()} ${NEWEST_FIRST})
    from (
      select r.*
      from ${REVISIONS_THEN}
      ${NEWEST_FIRST}
      limit ${MAX_QUEUE_DEPTH}) r
    where r.status <> all(${textArray(terminalStates)}) or r.status_since > m.at)`

/** Events have the resources as a whole, which change in place by their scale. */
const CONFIG_READ_BACK = [...new Set(IN_PLACE_MEMBERS.map(name => name.split('.')[0]!))]
const READ_BACK = ['status', 'url', 'healthy', ...CONFIG_READ_BACK.map(name => `source_config.${name}`)]
/** Events of these types record what they changed, in every release that records changes. */
const CONFIGURING = ['deployment.patched', 'deployment.rolled_back', 'deployment.redeployed']

/** Selects each member with its value before the first event after the moment that changed it. */
const CHANGED_SINCE = (limit: number): SQL => sql`(
    with later as (
      select e.seq, e.type, e.changes, e.request
      from events e
      where e.subject_id = d.id
        and e.scope_id = current_tenant()
        and e.tenant_id = current_tenant()
        and e.seq >= (select first_number from journal)
        and e.created_at > m.at
        and e.type like 'deployment.%'
      order by e.seq
      limit ${limit}),
    members as (
      select distinct on (c.value ->> 'path') c.value ->> 'path' as path, c.value -> 'before' as before
      from later l
      cross join lateral json_array_elements(l.changes) c
      where c.value ->> 'path' = any(${textArray(READ_BACK)}) or c.value ->> 'path' like 'hold.%'
      order by c.value ->> 'path', l.seq)
    select json_build_object(
      'before', (select coalesce(json_object_agg(path, before), '{}') from members),
      'is_cut', (select count(*) from later) = ${limit},
      'is_unrecorded', exists (
        select from later where type = any(${textArray(CONFIGURING)}) and changes is null and request is null)))`

type FactsOptions = { at: string | undefined; maxEvents: number; columns: SQL; deployments: SQL }

/** The events are read in the order of their index, up to the limit: a bitmap would have all of them first. */
const READ_IN_ORDER = sql`select set_config('enable_bitmapscan', 'off', true)`

/** One row for each deployment and moment: first then, next now. */
const selectFacts = ({ at, maxEvents, columns, deployments }: FactsOptions): SQL<Row> => sql`
  with ${momentsCte(at)},
  ${JOURNAL}
  select
    json_build_object(
      'id', d.id,
      'name', d.name,
      'created_at', d.created_at::text,
      'at', m.at,
      'kept_since', (select kept_since from journal),
      'current', json_build_object(
        'status', d.status,
        'url', d.url,
        'healthy', case
          when m.place = 2 or d.healthy is null then d.healthy
          else coalesce(d.recorded_health, 'healthy') not in ('unhealthy', 'crash_looping')
        end,
        'hold', d.hold,
        'source_config', d.source_config),
      'changed_since', case when m.place = 1 and d.created_at <= m.at then ${CHANGED_SINCE(maxEvents)} end,
      'latest', ${LATEST(columns)},
      'served', ${SERVED},
      'queue', ${QUEUE})::text
  from (${deployments}) d
  cross join moments m
  order by d.created_at desc, d.id desc, m.place`

// ---- the answer

type RevisionFacts = Pick<RevisionRow, 'id' | 'number' | 'created_at' | 'commit'> &
  Pick<RevisionRow, 'source' | 'source_config' | 'source_revision_config' | 'secrets' | 'secret_references'> & {
    state: { status: string; since: string } | null
    image_uri: string | null
  }
type Facts = {
  id: string
  name: string
  created_at: string
  at: string
  /** The time of the oldest event, if older ones have been deleted. */
  kept_since: string | null
  current: {
    status: string
    url: string | null
    healthy: boolean | null
    hold: Hold | null
    source_config: Record<string, unknown>
  }
  /** Null for the present, and for a deployment that did not exist. */
  changed_since: { before: Record<string, unknown>; is_cut: boolean; is_unrecorded: boolean } | null
  latest: RevisionFacts | null
  served: RevisionFacts | null
  queue: RevisionFacts[] | null
}

const revisionToWire = ({ state, ...revision }: RevisionFacts): s.RevisionAtMoment => ({
  id: revision.id,
  number: revision.number,
  status: (state?.status ?? null) as s.RevisionAtMoment['status'],
  since: toIsoTime(state?.since ?? revision.created_at),
  commit: revision.commit as s.RevisionAtMoment['commit'],
  image_uri: revision.image_uri,
})

function describeSummary(facts: Facts): s.MomentSummary {
  const { read, unknown } = readBack(facts)
  const inQueue = (states: string[]) => {
    const found = facts.queue?.find(({ state }) => state && states.includes(state.status))
    return found ? revisionToWire(found) : null
  }
  return {
    status: read('status', facts.current.status) as DeploymentStatus | null,
    healthy: facts.served && (read('healthy', facts.current.healthy) as boolean | null),
    latest: facts.latest && revisionToWire(facts.latest),
    served: facts.served && revisionToWire(facts.served),
    in_flight: inQueue(inFlightStates),
    waiting: inQueue(waitingStates),
    hold: unknown.includes('hold') ? null : readHold(facts),
    unknown,
  }
}

/** Reads members at the moment: their value before the first later change, or the current one. */
function readBack({ at, kept_since, changed_since }: Facts) {
  const before = changed_since?.before ?? {}
  const isExpired = changed_since !== null && kept_since !== null && Date.parse(at) < Date.parse(kept_since)
  const isKnown = (path: string) =>
    !isExpired &&
    !changed_since?.is_unrecorded &&
    (Object.hasOwn(before, path) ? !isLeftOut(before[path]) : !changed_since?.is_cut)
  const unknown = [
    ...READ_BACK.filter(path => !isKnown(path))
      .flatMap(path => (path === RESOURCES ? SCALE_MEMBERS.map(name => `${path}.${name}`) : [path]))
      .map(path => path.replace('source_config', 'wanted.source_config')),
    ...(isKnown('hold.since') ? [] : ['hold']),
  ]
  const read = (path: string, current: unknown): unknown => {
    if (!isKnown(path)) return null
    return Object.hasOwn(before, path) ? before[path] : current
  }
  return { read, unknown, isKnown }
}

const RESOURCES = 'source_config.resource_spec'
/** An event has the size of a large value instead of the value. */
const isLeftOut = (value: unknown) =>
  typeof value === 'object' && value !== null && Object.hasOwn(value, 'omitted_bytes')

function readHold({ current, changed_since }: Facts): s.MomentSummary['hold'] {
  const members = new Map<string, unknown>(Object.entries(current.hold ?? {}))
  for (const [path, value] of Object.entries(changed_since?.before ?? {}))
    if (path.startsWith('hold.')) members.set(path.slice('hold.'.length), value)
  const { from_commit = null, ...hold } = Object.fromEntries(members) as Hold
  return hold.since ? holdToWire({ ...hold, from_commit }) : null
}

function describeState(facts: Facts): s.MomentState {
  const { read, isKnown } = readBack(facts)
  return {
    ...describeSummary(facts),
    url: read('url', facts.current.url) as string | null,
    wanted: describeWanted(facts, read, isKnown(RESOURCES)),
  }
}

type Read = (path: string, current: unknown) => unknown
function describeWanted({ latest, current }: Facts, read: Read, isScaleKnown: boolean) {
  if (!latest) return null
  const inPlace: Record<string, unknown> = Object.fromEntries(
    CONFIG_READ_BACK.map(name => [name, read(`source_config.${name}`, current.source_config[name])]),
  )
  const ofRevision = latest.source_config as { resource_spec?: ResourceSpec }
  if (!isScaleKnown && ofRevision.resource_spec) inPlace.resource_spec = withScale(ofRevision.resource_spec, {})
  return {
    source: latest.source,
    source_config: configToWire({ ...ofRevision, ...inPlace }),
    source_revision_config: revisionConfigToWire(latest.source_revision_config),
    secrets: latest.secrets.map(({ name, version }) => ({ name, version })),
    secret_references: latest.secret_references,
  } as s.MomentState['wanted']
}

// ---- the verbs

async function readFacts(ctx: Ctx, options: FactsOptions): Promise<[past: Facts, present: Facts][]> {
  const rows = (await run(ctx, selectFacts(options), READ_IN_ORDER)).map(
    ([text]) => JSON.parse(text as string) as Facts,
  )
  return rows.flatMap((past, i) => (i % 2 === 0 ? [[past, rows[i + 1]!]] : []))
}

const existed = ({ created_at, at }: Facts): boolean => Date.parse(created_at) <= Date.parse(at)

type Moment = z.output<typeof DeploymentRef> & z.output<typeof s.MomentQuery>
export const readMoment = verb('deployments:read', async (ctx, { deployment_id, at }: Moment) => {
  const deployments = sql`
    select c.*
    from deployments c
    where c.id = ${deployment_id}::uuid and c.tenant_id = current_tenant()`
  const found = await readFacts(ctx, { at, maxEvents: MAX_EVENTS, columns: CONFIGURATION, deployments })
  const [facts, current] = requireRow(found, 'deployment_not_found')
  const past = existed(facts) ? describeState(facts) : null
  const present = describeState(current)
  const reply: s.DeploymentMoment = {
    deployment_id: facts.id,
    name: facts.name,
    created_at: toIsoTime(facts.created_at),
    at: toIsoTime(facts.at),
    past,
    present,
    changes: past?.wanted && present.wanted ? compareRevisions(contentOf(past.wanted), contentOf(present.wanted)) : [],
  }
  return reply
})

const contentOf = (wanted: NonNullable<s.MomentState['wanted']>) => wanted as unknown as RevisionContent

/** All deployments that exist now: what was deleted meanwhile is known by its events only. */
export const listMoments = verb(
  'deployments:read',
  async (ctx, { at, ...page }: s.MomentListQuery) => {
    const { cursor } = page
    const { limit, offset } = pageBounds(page)
    const isAfter = cursor ? sql`(c.created_at, c.id) < (${cursor.at}::timestamptz, ${cursor.id}::uuid)` : sql`true`
    const deployments = sql`
    select c.*
    from deployments c
    where c.tenant_id = current_tenant() and ${isAfter}
    order by c.created_at desc, c.id desc
    limit ${limit}
    offset ${offset}`
    const found = await readFacts(ctx, { at, maxEvents: MAX_EVENTS_IN_LIST, columns: sql``, deployments })
    const rows = found.map(([past, present]) => ({ id: past.id, created_at: past.created_at, past, present }))
    return toListPage(
      rows,
      page,
      ({ past, present }): s.ListedMoment => ({
        deployment_id: past.id,
        name: past.name,
        created_at: toIsoTime(past.created_at),
        past: existed(past) ? describeSummary(past) : null,
        present: describeSummary(present),
      }),
    )
  },
  { byPolicy: true },
)
