// Applies the reports of an agent: each is checked against what is wanted now, and moves revisions through their queue.
import { type SQL, sql } from 'drizzle-orm'
import { UNUSED_AFTER } from '../deployments/lifecycle.ts'
import { IMAGE_SOURCES } from '../deployments/registry-credentials.ts'
import {
  applyMoves,
  applyMovesToDeployments,
  type MoveColumns,
  promoteWaiting,
  selectMoves,
  selectReports,
} from '../deployments/revision-moves.ts'
import { DEPLOYMENT_STATUS_RECORD } from '../deployments/rows.ts'
import { columnOf, selectColumns, selectTenantEvents } from '../deployments/sql-columns.ts'
import { verb } from '../kernel/context.ts'
import { type Row, run, textArray, uuidArray } from '../kernel/db.ts'
import { agentEventLimit, announceEvents, journalSystemEvents, LISTENER_ACTOR } from '../kernel/journal.ts'
import { changesBetween, deletedMembers } from '../kernel/recorded-changes.ts'
import {
  type ReportResult,
  type ReportResults,
  type Reports,
  type reportCodes,
  reportOutcomes,
} from '../protocol/report.schema.ts'
import { lockLease } from './lease.ts'
import { movingStates, TRANSITIONS } from './revision-transitions.ts'

type ReportCode = (typeof reportCodes)[number]
/** What is wanted has moved on, and the next poll says to what. A report with any other code never becomes valid. */
const STALE_CODES: ReportCode[] = ['revision_ended', 'generation_passed']

type ResultRow = [
  deployment_id: string,
  revision_id: string | null,
  code: ReportCode | null,
  generation: string | null,
  hookedTenant: string | null,
]

export const report = verb('listeners:sync', async (ctx, input: Reports): Promise<ReportResults> => {
  const ids = uuidArray(input.reports.map(({ deployment_id }) => deployment_id))
  const lockDeployments = sql`
    select from deployments d
    where d.id = any(${ids}) and d.listener_id = current_listener()
    order by d.id
    for update`
  // The lease first: what happens under a later lease comes after this.
  const rows = await run(ctx, applyReports(input, agentEventLimit(ctx)), [lockLease(input), lockDeployments])
  const results = rows as ResultRow[]
  for (const tenant of new Set(results.map(([, , , , tenant]) => tenant))) announceEvents(ctx, tenant)
  return { results: results.map(toResult) }
})

function toResult([deployment_id, revision_id, code, generation]: ResultRow): ReportResult {
  const [accepted, stale, refused] = reportOutcomes
  const outcome = code === null ? accepted : STALE_CODES.includes(code) ? stale : refused
  return { deployment_id, revision_id, outcome, code, generation: generation === null ? null : Number(generation) }
}

// ---- reported: the body, as rows

/** The columns of `reported`, beside `place`, the position in the body. */
const REPORTED_TYPES = {
  deployment_id: sql`uuid`,
  revision_id: sql`uuid`,
  generation: sql`integer`,
  state: sql`text`,
  message: sql`text`,
  commit: sql`jsonb`,
  image_uri: sql`text`,
  url: sql`text`,
  healthy: sql`boolean`,
  last_request_at: sql`timestamptz`,
} satisfies Partial<Record<keyof Reports['reports'][number], SQL>>
type ReportedColumns = Record<keyof typeof REPORTED_TYPES | 'place', SQL>

const REPORTED_NAMES = Object.keys(REPORTED_TYPES).map(name => sql`${sql.identifier(name)}`)
const REPORTED_DEFINITION = Object.entries(REPORTED_TYPES).map(([name, type]) => sql`${sql.identifier(name)} ${type}`)

const selectReported = ({ reports }: Reports): SQL => sql`reported as (
  select g.*
  from rows from (jsonb_to_recordset(${JSON.stringify(reports)}::jsonb) as (${sql.join(REPORTED_DEFINITION, sql`, `)}))
    with ordinality g(${sql.join(REPORTED_NAMES, sql`, `)}, place))`

// ---- judged: is a report valid, and which states does it take its revision through?

type JudgedColumns = {
  tenant_id: SQL
  organization_id: SQL
  wanted_generation: SQL
  deployment_status: SQL
  known_url: SQL
  in_flight_revision_id: SQL
  active_revision_id: SQL
  number: SQL
  source: SQL
  status: SQL
  status_message: SQL
  stored_config: SQL
  stored_commit: SQL
  /** The states that follow from the report, in their order. */
  path: SQL
  /** Null for a valid report; otherwise why it is not. */
  code: SQL
}
const reported = columnOf<ReportedColumns>('g')
const judged = columnOf<ReportedColumns & JudgedColumns>('a')
const state = reported('state')

const REMOVED_CODE = sql`case
        when d.deleting_at is null then 'still_wanted'
        when ${reported('generation')} < d.generation then 'generation_passed'
      end`
const MOVED_CODE = sql`case
        when r.status in ('CREATING', 'QUEUED') then 'revision_unknown'
        when s.path is null then 'revision_ended'
      end`

const REPORT_CODE = sql`case
      when d.id is null and ${state} = 'removed' then null
      when d.id is null and i.deployment_id is null then 'deployment_unknown'
      when d.id is null then 'generation_passed'
      when ${reported('generation')} > d.generation then 'generation_unknown'
      when ${state} = 'removed' then ${REMOVED_CODE}
      when ${reported('revision_id')} is not null and r.id is null then 'revision_unknown'
      when ${state} = 'interrupted' then case when r.id = d.in_flight_revision_id then 'still_wanted' end
      when ${state} = any(${textArray(movingStates)}) then ${MOVED_CODE}
      when ${state} = 'serving' and ${reported('generation')} < d.generation then 'generation_passed'
    end`

const TRANSITION_ROWS = sql`jsonb_to_recordset(${JSON.stringify(TRANSITIONS)}::jsonb)
    s(source text, status text, state text, path text[])`

const JUDGED = sql`judged as (
  select g.*,
    ${selectColumns<JudgedColumns>({
      tenant_id: sql`d.tenant_id`,
      organization_id: sql`d.organization_id`,
      wanted_generation: sql`d.generation`,
      deployment_status: sql`d.status`,
      known_url: sql`d.url`,
      in_flight_revision_id: sql`d.in_flight_revision_id`,
      active_revision_id: sql`d.active_revision_id`,
      number: sql`r.number`,
      source: sql`r.source`,
      status: sql`r.status`,
      status_message: sql`r.status_message`,
      stored_config: sql`r.source_revision_config::jsonb`,
      stored_commit: sql`r."commit"::jsonb`,
      path: sql`s.path`,
      code: REPORT_CODE,
    })}
  from reported g
  left join deployments d on d.id = ${reported('deployment_id')} and d.listener_id = current_listener()
  left join sync_items i on i.deployment_id = ${reported('deployment_id')} and i.listener_id = current_listener()
  left join revisions r on r.id = ${reported('revision_id')} and r.deployment_id = d.id
  left join ${TRANSITION_ROWS} on s.source = r.source and s.status = r.status and s.state = ${state})`

const ACCEPTED = sql`accepted as (
  select *
  from judged
  where code is null)`

// ---- moves and reports: what the valid ones mean

const imageNameOf = (image: SQL): SQL => sql`
      regexp_replace(regexp_replace(${image}, '(:[^/:@]*)?(@.*)?$', ''), '^(docker[.]io/)?(library/)?', '')`

/** An agent resolves the tag of the image that a user named. Naming another image would allow it to pull that one. */
const RESOLVED_IMAGE = sql`case
      when ${judged('source')} <> all(${textArray(IMAGE_SOURCES)})
        or ${imageNameOf(judged('image_uri'))} = ${imageNameOf(sql`${judged('stored_config')} ->> 'image_uri'`)}
        then ${judged('image_uri')}
    end`

const MOVES = selectMoves(
  {
    id: judged('revision_id'),
    deployment_id: judged('deployment_id'),
    number: judged('number'),
    becomes: sql`coalesce(a.path[cardinality(a.path)], ${judged('status')})`,
    message: sql`case when ${judged('state')} in ('deploying', 'failed') then ${judged('message')} end`,
    resolved: sql`jsonb_strip_nulls(jsonb_build_object(
      'repo_commit_sha', ${judged('commit')} ->> 'sha',
      'image_uri', ${RESOLVED_IMAGE}))`,
    new_commit: sql`jsonb_build_object('message', null, 'author', null) || ${judged('commit')}`,
  },
  sql`accepted a
  where cardinality(${judged('path')}) > 0
    or ${judged('state')} = 'deploying'
      and ${judged('status')} = 'DEPLOYING'
      and ${judged('message')} is distinct from ${judged('status_message')}`,
)

/** While a revision is in flight, only its own end reaches the wanted generation. */
const REACHES_GENERATION = sql`
      ${judged('state')} in ('deployed', 'failed', 'interrupted')
        and coalesce(${judged('in_flight_revision_id')} = ${judged('revision_id')}, true)
      or ${judged('state')} = 'serving'
        and ${judged('in_flight_revision_id')} is null
        and ${judged('revision_id')} is not distinct from ${judged('active_revision_id')}`

const IS_USED = sql`${judged('last_request_at')} > clock() - ${UNUSED_AFTER} * interval '1 millisecond'`

const NEXT_STATUS = sql`case
      when ${judged('state')} = 'database_ready' and ${judged('deployment_status')} = 'AWAITING_DATABASE' then 'READY'
      when ${judged('deployment_status')} = 'UNUSED' and ${IS_USED} then 'READY'
    end`

const REPORTS = selectReports(
  {
    deployment_id: judged('deployment_id'),
    generation: sql`case when ${REACHES_GENERATION} then ${judged('generation')} end`,
    url: judged('url'),
    healthy: judged('healthy'),
    last_request_at: sql`case
      when ${judged('last_request_at')} > clock() then clock()
      else ${judged('last_request_at')}
    end`,
    becomes: NEXT_STATUS,
  },
  sql`accepted a
  where ${judged('state')} <> 'removed'`,
)

const CHANGED = sql`changed as (${applyMoves})`

const REMOVED = sql`removed as (
  delete from deployments d
  using accepted a
  where d.id = ${judged('deployment_id')} and d.listener_id = current_listener() and ${judged('state')} = 'removed'
  returning d.*)`

// ---- events, and the answer

/** After those of the revisions, whose place is below. */
const LAST_PLACES = [sql`1000000`, sql`1000001`, sql`1000002`] as const

const move = columnOf<MoveColumns>('m')
const atLastStep = (value: SQL): SQL => sql`case when p.nth = cardinality(${judged('path')}) then ${value} end`

/** What the report tells of the revision comes with its last step, and its former message goes with the first one. */
const STEP_CHANGES = changesBetween(
  {
    status: sql`coalesce(a.path[p.nth - 1], ${judged('status')})`,
    status_message: sql`case when p.nth = 1 then ${judged('status_message')} end`,
    source_revision_config: atLastStep(judged('stored_config')),
    commit: atLastStep(judged('stored_commit')),
  },
  {
    status: sql`p.step`,
    status_message: atLastStep(move('message')),
    source_revision_config: atLastStep(sql`${judged('stored_config')} || ${move('resolved')}`),
    commit: atLastStep(sql`coalesce(${move('new_commit')}, ${judged('stored_commit')})`),
  },
)

/** Every step of every revision in its order, then what follows. */
const REPORT_EVENTS = selectTenantEvents(
  {
    type: sql`'revision.' || lower(p.step)`,
    subject: judged('revision_id'),
    data: sql`json_build_object(
      'deployment_id', ${judged('deployment_id')},
      'message', case when ${judged('state')} = 'failed' then ${judged('message')} end,
      'commit', case when p.nth = cardinality(${judged('path')}) then ${judged('commit')} ->> 'sha' end)`,
    changes: STEP_CHANGES,
    place: sql`row_number() over (order by ${judged('place')}, p.nth)`,
    from: sql`accepted a
  join moves m on m.id = ${judged('revision_id')}
  cross join lateral unnest(${judged('path')}) with ordinality p(step, nth)`,
  },
  {
    type: sql`type`,
    subject: sql`subject_id`,
    data: sql`data`,
    changes: sql`changes`,
    place: LAST_PLACES[0],
    from: sql`consequences`,
  },
  {
    type: sql`'deployment.located'`,
    subject: judged('deployment_id'),
    changes: changesBetween({ url: judged('known_url') }, { url: judged('url') }),
    place: LAST_PLACES[1],
    from: sql`accepted a
  where ${judged('url')} is not null
    and ${judged('url')} is distinct from ${judged('known_url')}
    and ${judged('state')} <> 'removed'`,
  },
  {
    type: sql`'deployment.removed'`,
    subject: sql`id`,
    changes: deletedMembers(DEPLOYMENT_STATUS_RECORD, sql`removed`),
    place: LAST_PLACES[2],
    from: sql`removed`,
  },
)

const FORGET_REMOVED = sql`delete_sync_items(array(
      select a.deployment_id
      from accepted a
      where ${judged('state')} = 'removed' and ${judged('wanted_generation')} is null))`

/** The workspace, if it has webhooks to send the events to. */
const HOOKED_TENANT = sql`case when has_webhooks(${judged('tenant_id')}) then ${judged('tenant_id')} end`

function applyReports(input: Reports, eventLimit: SQL): SQL<Row> {
  const ctes = [
    selectReported(input),
    JUDGED,
    ACCEPTED,
    MOVES,
    ...promoteWaiting(REPORTS),
    CHANGED,
    ...applyMovesToDeployments,
    REMOVED,
    journalSystemEvents(REPORT_EVENTS, LISTENER_ACTOR, sql`order by t.place`, eventLimit),
  ]
  return sql`
  with ${sql.join(ctes, sql`,\n  `)}
  select ${judged('deployment_id')}, ${judged('revision_id')}, ${judged('code')},
    case
      when ${judged('state')} = 'removed' and ${judged('code')} is null then null
      else coalesce(o.generation, ${judged('wanted_generation')})
    end,
    ${HOOKED_TENANT},
    (select ${FORGET_REMOVED})
  from judged a
  left join outcomes o on o.id = ${judged('deployment_id')}
  order by ${judged('place')}`
}
