// Moves revisions to another state: which leave the queue, which is next, which serves. See docs/design/writes.md.
// The caller locks the deployments' rows first.
import { type SQL, sql } from 'drizzle-orm'
import { changesBetween } from '../kernel/recorded-changes.ts'
import { inFlightStates, LISTENER_LOST, waitingStates } from './lifecycle.ts'
import { startStateOf } from './revision-queue.ts'
import type { RevisionRow } from './rows.ts'
import { columnOf, selectColumns, selectTenantEvents } from './sql-columns.ts'

// ---- moves and reports: what the caller decides

/** The columns of `moves`: one row for each revision that moves. */
export type MoveColumns = {
  id: SQL
  deployment_id: SQL
  number: SQL
  /** The next status. */
  becomes: SQL
  message: SQL
  /** JSON that is merged into source_revision_config: the commit or the image that a ref or a tag resolved to. */
  resolved: SQL
  /** Null keeps the commit that the revision has. */
  new_commit: SQL
}
/** `from` is what follows `from`. */
export const selectMoves = (columns: MoveColumns, from: SQL): SQL => sql`moves as (
  select
    ${selectColumns(columns)}
  from ${from})`

/** The columns of `reports`: what a data plane says of a deployment. Null says nothing. */
export type ReportColumns = {
  deployment_id: SQL
  /** The generation that the data plane has reached. */
  generation: SQL
  url: SQL
  healthy: SQL
  last_request_at: SQL
  /** The next status of the deployment. */
  becomes: SQL
}
export const selectReports = (columns: ReportColumns, from: SQL): SQL => sql`reports as (
  select
    ${selectColumns(columns)}
  from ${from})`

const NO_REPORTS = selectReports(
  {
    deployment_id: sql`null::uuid`,
    generation: sql`null::integer`,
    url: sql`null::text`,
    healthy: sql`null::boolean`,
    last_request_at: sql`null::timestamptz`,
    becomes: sql`null::text`,
  },
  sql`(select) nothing where false`,
)

// ---- queues and turns: who leaves, who is next

const move = columnOf<MoveColumns>('m')
const report = columnOf<ReportColumns>('s')

type QueueColumns = {
  /** The revisions that stay in flight and waiting after the moves. */
  in_flight: SQL
  waiting: SQL
}
const queue = columnOf<QueueColumns>('q')

const leavesQueue = (state: SQL): SQL => sql`${state} not in ${[...inFlightStates, ...waitingStates]}`

const QUEUES = sql`queues as (
  select c.id, c.organization_id, c.tenant_id,
    ${selectColumns<QueueColumns>({
      in_flight: sql`case when f.id is null then c.in_flight_revision_id end`,
      waiting: sql`case when w.id is null then c.waiting_revision_id end`,
    })}
  from deployments c
  left join moves f on f.id = c.in_flight_revision_id and ${leavesQueue(sql`f.becomes`)}
  left join moves w on w.id = c.waiting_revision_id and ${leavesQueue(sql`w.becomes`)}
  where c.id in (select deployment_id from moves union select deployment_id from reports))`

type TurnColumns = {
  /** The waiting revision whose turn it is, and its first state. */
  starts: SQL
  start_as: SQL
}
const turn = columnOf<QueueColumns & TurnColumns>('t')

/** A revision that still waits for its artifact (CREATING) keeps its place, and its turn comes once it is QUEUED. */
const TURNS = sql`turns as (
  select q.*,
    ${selectColumns<TurnColumns>({
      starts: sql`n.id`,
      start_as: startStateOf(sql`n.source`),
    })}
  from queues q
  left join revisions n on n.id = ${queue('waiting')}
    and ${queue('in_flight')} is null
    and coalesce((select m.becomes from moves m where m.id = n.id), n.status) = 'QUEUED')`

/** Reads `moves`; gives the turn to the waiting revision once nothing is in flight. */
export const promoteWaiting = (reports: SQL): SQL[] => [reports, QUEUES, TURNS]
export const promoteWithoutReports = promoteWaiting(NO_REPORTS)

// ---- the revisions that move

/** A revision that becomes QUEUED when its turn has come takes its first state at once. */
export const applyMoves: SQL<RevisionRow> = sql`
  update revisions r set
    status = coalesce(${turn('start_as')}, ${move('becomes')}),
    status_message = ${move('message')},
    status_since = case when r.status = ${move('becomes')} then r.status_since else clock() end,
    updated_at = clock(),
    source_revision_config = r.source_revision_config::jsonb || ${move('resolved')},
    "commit" = coalesce(${move('new_commit')}, r."commit"::jsonb)
  from moves m
  left join (select * from turns where starts is not null) t on ${turn('starts')} = m.id
  where r.id = m.id
  returning r.*`

// ---- outcomes: what the moves mean for their deployments

type OutcomeColumns = {
  previous_status: SQL
  previous_active_revision_id: SQL
  /** The revision that serves from now on, if another one does. */
  activated: SQL
  /** The commit that the ref of the latest revision resolved to. */
  resolved_commit: SQL
  url: SQL
  healthy: SQL
  last_request_at: SQL
  becomes: SQL
  generation: SQL
  acknowledged: SQL
  /** Whether members change that clients see. */
  is_visible: SQL
}
const outcome = columnOf<QueueColumns & TurnColumns & OutcomeColumns>('t')

/** The latest revision was lost with its listener, was still wanted, and has now ended: nothing is wanted any more. */
const ENDS_LOST_REVISION = sql`exists (
      select from moves m
      join revisions r on r.id = m.id
      where m.id = c.latest_revision_id and r.status = ${LISTENER_LOST.becomes})`

/** Another revision in flight, or none any more, is the next generation of what the agent has to do. */
const CHANGES_GENERATION = sql`select
      coalesce(${turn('in_flight')}, ${turn('starts')}) is distinct from c.in_flight_revision_id
        or ${ENDS_LOST_REVISION} as changes_generation`

/** An older revision never replaces the one that serves. */
const ACTIVATED = sql`
    select m.id
    from moves m
    left join revisions s on s.id = c.active_revision_id
    where m.deployment_id = t.id and m.becomes = 'DEPLOYED' and m.number > coalesce(s.number, 0)`

const RESOLVED_COMMIT = sql`
    select m.resolved ->> 'repo_commit_sha' as sha
    from moves m
    where m.id = c.latest_revision_id
      and m.resolved ->> 'repo_commit_sha' is distinct from c.source_revision_config ->> 'repo_commit_sha'`

/** An agent that reports the end of a revision without a successor has reached the next generation with it. */
const ACKNOWLEDGED = sql`case
      when ${report('generation')} = c.generation and ${turn('starts')} is null
        then c.generation + g.changes_generation::integer
      else greatest(c.acknowledged, ${report('generation')})
    end`

const OUTCOMES = sql`outcomes as (
  select t.*,
    ${selectColumns<OutcomeColumns>({
      previous_status: sql`c.status`,
      previous_active_revision_id: sql`c.active_revision_id`,
      activated: sql`a.id`,
      resolved_commit: sql`l.sha`,
      url: report('url'),
      healthy: report('healthy'),
      last_request_at: report('last_request_at'),
      becomes: report('becomes'),
      generation: sql`c.generation + g.changes_generation::integer`,
      acknowledged: ACKNOWLEDGED,
      is_visible: sql`a.id is not null
      or l.sha is not null
      or ${report('becomes')} is not null
      or (${report('url')} is not null and ${report('url')} is distinct from c.url)`,
    })}
  from turns t
  join deployments c on c.id = t.id
  left join reports s on s.deployment_id = t.id
  cross join lateral (${CHANGES_GENERATION}) g
  left join lateral (${ACTIVATED}) a on true
  left join lateral (${RESOLVED_COMMIT}) l on true)`

const UPDATED_DEPLOYMENTS = sql`updated_deployments as (
  update deployments d set
    in_flight_revision_id = coalesce(${outcome('in_flight')}, ${outcome('starts')}),
    waiting_revision_id = case when ${outcome('starts')} is null then ${outcome('waiting')} end,
    active_revision_id = coalesce(${outcome('activated')}, d.active_revision_id),
    source_revision_config = case
      when ${outcome('resolved_commit')} is null then d.source_revision_config
      else (d.source_revision_config::jsonb
        || jsonb_build_object('repo_commit_sha', ${outcome('resolved_commit')}))::json
    end,
    generation = ${outcome('generation')},
    acknowledged = ${outcome('acknowledged')},
    remote_reconciled = ${outcome('acknowledged')} >= ${outcome('generation')},
    status = coalesce(${outcome('becomes')}, d.status),
    url = coalesce(${outcome('url')}, d.url),
    healthy = coalesce(${outcome('healthy')}, d.healthy),
    last_request_at = greatest(d.last_request_at, ${outcome('last_request_at')}),
    version = d.version + ${outcome('is_visible')}::integer,
    updated_at = case
      when ${outcome('activated')} is null and ${outcome('resolved_commit')} is null then d.updated_at
      else greatest(clock(), d.updated_at)
    end
  from outcomes t
  where d.id = t.id)`

const STARTED_REVISIONS = sql`started_revisions as (
  update revisions r set
    status = ${turn('start_as')},
    status_since = clock(),
    updated_at = clock()
  from turns t
  where r.id = ${turn('starts')} and r.id not in (select id from moves))`

const CONSEQUENCES = sql`consequences as (
  ${selectTenantEvents(
    {
      type: sql`'revision.' || lower(${turn('start_as')})`,
      subject: turn('starts'),
      data: sql`json_build_object('deployment_id', t.id)`,
      changes: changesBetween({ status: sql`'QUEUED'` }, { status: turn('start_as') }),
      from: sql`turns t where ${turn('starts')} is not null`,
    },
    {
      type: sql`'deployment.activated'`,
      subject: sql`t.id`,
      data: sql`json_build_object('revision_id', ${outcome('activated')})`,
      changes: changesBetween(
        { active_revision_id: outcome('previous_active_revision_id') },
        { active_revision_id: outcome('activated') },
      ),
      from: sql`outcomes t where ${outcome('activated')} is not null`,
    },
    {
      type: sql`'deployment.' || lower(${outcome('becomes')})`,
      subject: sql`t.id`,
      changes: changesBetween({ status: outcome('previous_status') }, { status: outcome('becomes') }),
      from: sql`outcomes t where ${outcome('becomes')} is not null`,
    },
  )})`

export const applyMovesToDeployments = [OUTCOMES, UPDATED_DEPLOYMENTS, STARTED_REVISIONS, CONSEQUENCES]
/** Events besides those of the moves: a turn that is taken, another revision that serves. */
export const moveEvents = sql`select type, subject_id, data, changes from consequences`
