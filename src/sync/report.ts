// An agent says what became of deployments: judged against what is wanted now, and applied through the queue of revisions.
import { type SQL, sql } from 'drizzle-orm'
import { UNUSED_AFTER } from '../deployments/lifecycle.ts'
import { IMAGE_SOURCES } from '../deployments/registry-credentials.ts'
import { applyMoves, applyMovesToDeployments, promoteWaiting } from '../deployments/revision-queue.ts'
import { verb } from '../kernel/context.ts'
import { type Row, run, textArray, uuidArray } from '../kernel/db.ts'
import { agentEventLimit, journalSystemEvents } from '../kernel/journal.ts'
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
/** What is wanted has moved on, and a poll tells to what; anything else never becomes right. */
const STALE_CODES: ReportCode[] = ['revision_ended', 'generation_passed']

type ResultRow = [deployment_id: string, revision_id: string | null, code: ReportCode | null, generation: string | null]

export const report = verb('listeners:sync', async (ctx, input: Reports): Promise<ReportResults> => {
  const ids = uuidArray(input.reports.map(one => one.deployment_id))
  // Held in one order, behind the lease: what a later lease does, comes after.
  const rows = sql`select from deployments d where d.id = any(${ids}) and d.listener_id = current_listener() order by d.id for update`
  const answered = await run(ctx, applyReports(input, agentEventLimit(ctx)), [lockLease(input), rows])
  return { results: (answered as ResultRow[]).map(toResult) }
})

function toResult([deployment_id, revision_id, code, generation]: ResultRow): ReportResult {
  const [accepted, stale, refused] = reportOutcomes
  const outcome = code === null ? accepted : STALE_CODES.includes(code) ? stale : refused
  return { deployment_id, revision_id, outcome, code, generation: generation === null ? null : Number(generation) }
}

/** A report is right, or there is a code that says why not. */
const REPORT_CODE = sql`case
  when d.id is null and g.state = 'removed' then null
  when d.id is null then case when i.deployment_id is null then 'deployment_unknown' else 'generation_passed' end
  when g.generation > d.generation then 'generation_unknown'
  when g.state = 'removed' then case when d.deleting_at is null then 'still_wanted' when g.generation < d.generation then 'generation_passed' end
  when g.revision_id is not null and r.id is null then 'revision_unknown'
  when g.state = 'interrupted' then case when r.id = d.in_flight_revision_id then 'still_wanted' end
  when g.state = any(${sql.param([...movingStates])}::text[]) then case when r.status in ('CREATING', 'QUEUED') then 'revision_unknown' when s.path is null then 'revision_ended' end
  when g.state = 'serving' and g.generation < d.generation then 'generation_passed' end`

/** With these the agent has what is wanted at its generation; while a revision is in flight, only that one's end says so. */
const REACHES_GENERATION = sql`state in ('deployed', 'failed', 'interrupted') and coalesce(flying = revision_id, true)
  or state = 'serving' and flying is null and revision_id is not distinct from active`

/** What the deployment becomes: it has its database, or somebody uses it. */
const NEXT_STATUS = sql`case
  when state = 'database_ready' and status = 'AWAITING_DATABASE' then 'READY'
  when status = 'UNUSED' and last_request_at > clock() - ${UNUSED_AFTER} * interval '1 millisecond' then 'READY' end`

const imageNameOf = (image: SQL): SQL =>
  sql`regexp_replace(regexp_replace(${image}, '(:[^/:@]*)?(@.*)?$', ''), '^(docker[.]io/)?(library/)?', '')`
/** Where a person named the image, an agent says which one its tag means, and names no other: it is what it may then pull. */
const RESOLVED_IMAGE = sql`case when source <> all(${textArray(IMAGE_SOURCES)}) or ${imageNameOf(sql`image_uri`)} = ${imageNameOf(sql`named`)} then image_uri end`

function applyReports({ reports }: Reports, most: SQL): SQL<Row> {
  const given = JSON.stringify(reports)
  const steps = sql`jsonb_to_recordset(${JSON.stringify(TRANSITIONS)}::jsonb) s(source text, status text, state text, path text[])`
  return sql`with reported as (
      select g.* from rows from (jsonb_to_recordset(${given}::jsonb)
        as (deployment_id uuid, revision_id uuid, generation integer, state text, message text, "commit" jsonb, image_uri text,
          url text, healthy boolean, last_request_at timestamptz)) with ordinality
        g(deployment_id, revision_id, generation, state, message, "commit", image_uri, url, healthy, last_request_at, place)),
    judged as (
      select g.*, d.tenant_id, d.organization_id, d.generation as wanted, d.status, d.url as known_url, d.in_flight_revision_id as flying,
        d.active_revision_id as active, r.number, r.source, r.source_revision_config ->> 'image_uri' as named, s.path, ${REPORT_CODE} as code
      from reported g
      left join deployments d on d.id = g.deployment_id and d.listener_id = current_listener()
      left join sync_items i on i.deployment_id = g.deployment_id and i.listener_id = current_listener()
      left join revisions r on r.id = g.revision_id and r.deployment_id = d.id
      left join ${steps} on s.source = r.source and s.status = r.status and s.state = g.state),
    accepted as (select * from judged where code is null),
    moves as (
      select revision_id as id, deployment_id, number, path[cardinality(path)] as becomes,
        case when state = 'failed' then message end as message,
        jsonb_strip_nulls(jsonb_build_object('repo_commit_sha', "commit" ->> 'sha', 'image_uri', ${RESOLVED_IMAGE})) as resolved,
        jsonb_build_object('message', null, 'author', null) || "commit" as made_commit
      from accepted where cardinality(path) > 0),
    ${sql.join(
      promoteWaiting(sql`said as (
        select deployment_id, case when ${REACHES_GENERATION} then generation end as generation, url, healthy,
          case when last_request_at > clock() then clock() else last_request_at end as last_request_at, ${NEXT_STATUS} as becomes
        from accepted where state <> 'removed')`),
      sql`, `,
    )},
    changed as (${applyMoves}), ${sql.join(applyMovesToDeployments, sql`, `)},
    removed as (delete from deployments d using accepted a where d.id = a.deployment_id and d.listener_id = current_listener() and a.state = 'removed' returning d.*),
    ${journalSystemEvents(reportEvents, sql`'listener', current_listener()`, sql`order by t.place`, most)}
    select j.deployment_id, j.revision_id, j.code, case when j.state = 'removed' and j.code is null then null else coalesce(o.generation, j.wanted) end,
      (select sync_forget(array(select a.deployment_id from accepted a where a.state = 'removed' and a.wanted is null)))
    from judged j left join outcomes o on o.id = j.deployment_id order by j.place`
}

/** Each step of each revision in its order, then what follows from it. */
const reportEvents = sql`
  select a.tenant_id, a.organization_id, 'revision.' || lower(step) as type, a.revision_id as subject_id,
    json_build_object('deployment_id', a.deployment_id, 'message', case when a.state = 'failed' then a.message end,
      'commit', case when last then a."commit" ->> 'sha' end) as data, row_number() over (order by a.place, nth) as place
  from accepted a cross join lateral (select step, nth, nth = cardinality(a.path) as last from unnest(a.path) with ordinality p(step, nth)) p
  union all select tenant_id, organization_id, type, subject_id, data, 1000000 from consequences
  union all select tenant_id, organization_id, 'deployment.located', deployment_id, json_build_object('url', url), 1000001
    from accepted where url is not null and url is distinct from known_url and state <> 'removed'
  union all select tenant_id, organization_id, 'deployment.removed', id, '{}', 1000002 from removed`
