// Stores feedback: of one request, or together with the runs of a batch in the statement that stores them.
import { type Placeholder, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { Fault } from '../../kernel/http/errors.ts'
import type { NewFeedback } from '../store/store.ts'
import type * as schema from './feedback.schema.ts'

const MAX_JSON_LENGTH = 65_536
/** Longer texts are notes, which statistics do not count. */
const MAX_CATEGORY_LENGTH = 64

/** Pushes the faults of members that are too large. `loc` is the place of the feedback in the request. */
export function toNewFeedback(
  body: z.output<typeof schema.NewFeedbackBody>,
  loc: (string | number)[],
  faults: Fault[],
): NewFeedback {
  const { feedback_source: source } = body
  const toJson = (member: string, value: unknown) => toJsonText(value, [...loc, member], faults)
  return {
    id: body.id ?? crypto.randomUUID(),
    run_id: body.run_id ?? undefined,
    trace_id: body.trace_id ?? undefined,
    session_id: body.session_id ?? undefined,
    start_time: body.start_time ?? undefined,
    key: body.key,
    score: toScore(body.score),
    value: toJson('value', body.value),
    category: toCategory(body.value),
    comment: body.comment ?? undefined,
    correction: toJson('correction', body.correction),
    source_type: source?.type ?? 'api',
    source_metadata: toJson('feedback_source', source?.metadata),
    feedback_group_id: body.feedback_group_id ?? undefined,
    comparative_experiment_id: body.comparative_experiment_id ?? undefined,
    is_error: body.error ?? false,
    extends_retention: body.extend_trace_retention ?? true,
    config: body.feedback_config ?? undefined,
    created_at: body.created_at ?? undefined,
    modified_at: body.modified_at ?? undefined,
  }
}

export function toJsonText(value: unknown, loc: (string | number)[], faults: Fault[]): string | undefined {
  if (value == null) return undefined
  const text = JSON.stringify(value)
  if (text.length > MAX_JSON_LENGTH)
    faults.push({ type: 'too_big', loc, msg: `must have at most ${MAX_JSON_LENGTH} characters as JSON` })
  return text
}

export const toScore = (score: number | boolean | null | undefined): number | undefined =>
  score == null ? undefined : Number(Number(score).toFixed(4))

export const toCategory = (value: unknown): string | undefined =>
  typeof value === 'string' && value.length <= MAX_CATEGORY_LENGTH && !value.includes('\0') && value.isWellFormed()
    ? value
    : undefined

const MEMBERS = sql`place integer, id uuid, run_id uuid, trace_id uuid, session_id uuid, start_time timestamptz,
      key text, score numeric, value text, category text, comment text, correction text, source_type text,
      source_metadata text, feedback_group_id uuid, comparative_experiment_id uuid, is_error boolean,
      extends_retention boolean, config json, created_at timestamptz, modified_at timestamptz`

/** No runs are stored in this statement. */
const NO_RUNS = sql`(
      select null::uuid as id, null::uuid as trace_id, null::uuid as session_id, null::timestamptz as start_time
      where false)`

type ScoreCheck = { key: SQL; stored: SQL; given: SQL; score: SQL }
/** A condition: a key has one configuration, and the score must fit it. */
export const requireFittingScore = ({ key, stored, given, score }: ScoreCheck): SQL => sql`case
        when ${given} is null or ${stored} is null or ${given}::jsonb = ${stored}::jsonb then true
        else refuse('feedback_config_differs', ${key})
      end
      and case
        when score_fits(coalesce(${stored}, ${given}), ${score}) then true
        else refuse('feedback_out_of_range', ${key} || ' is ' || ${score})
      end`

/** The first configuration of a key stays until it is changed. `given` is a relation with `key` and `config`. */
export const storeConfigs = (given: SQL): SQL => sql`
  stored_configs as (
    insert into feedback_configs (organization_id, tenant_id, key, config)
    select distinct on (g.key) current_organization(), current_tenant(), g.key, g.config
    from ${given} g
    where g.config is not null
    order by g.key
    on conflict do nothing)`

/**
 * Feedback that came before these runs belongs to their projects from now on. Most workspaces have none that waits, and
 * then the runs are not searched.
 */
export const attachFeedback = (runs: SQL): SQL => sql`
  attached_feedback as (
    update feedbacks f
    set trace_id = r.trace_id, session_id = r.session_id, start_time = r.start_time, is_attached = true
    from ${runs} r
    where (select exists (select from feedbacks w where w.tenant_id = current_tenant() and not w.is_attached))
      and f.tenant_id = current_tenant()
      and f.run_id = r.id
      and not f.is_attached)`

/** Makes the parameter of `readFeedbackRows()`. The later of two with one id is stored. */
export const toFeedbackRows = (feedback: NewFeedback[]): string => {
  const unique = [...new Map(feedback.map(one => [one.id, one])).values()]
  return JSON.stringify(unique.map((one, place) => ({ ...one, place })))
}
export const readFeedbackRows = (rows: string | Placeholder): SQL => sql`
    select *
    from json_to_recordset(${rows}::json) as g(${MEMBERS})`

type RunRelations = {
  /** The relation of `TraceStore.findRuns()`. */
  found: SQL
  /** The runs that the same statement stores, which it does not see: id, trace_id, session_id and start_time. */
  written?: SQL
}

/**
 * CTEs that store feedback; the rows are `stored_feedback`. `given` is a query of rows with `MEMBERS`. The sweep
 * extends the retention of their traces.
 */
export const storeFeedback = (given: SQL, { found, written = NO_RUNS }: RunRelations): SQL[] => [
  sql`
  given_feedback as (${given})`,
  sql`
  feedback_places as (
    select
      g.place,
      r.id is not null or g.run_id is null as is_attached,
      coalesce(r.trace_id, g.trace_id) as trace_id,
      coalesce(r.session_id, g.session_id) as session_id,
      coalesce(r.start_time, g.start_time) as start_time
    from given_feedback g
    left join lateral (
      select i.id, i.trace_id, i.session_id, i.start_time
      from ${written} i
      where i.id = g.run_id
      union all
      select s.id, s.trace_id, s.session_id, s.start_time
      from ${found} s
      where s.tenant_id = current_tenant() and s.id = g.run_id
      limit 1
    ) r on true)`,
  storeConfigs(sql`given_feedback`),
  sql`
  stored_feedback as (
    insert into feedbacks as f (
      organization_id, tenant_id, id, run_id, trace_id, session_id, start_time, is_attached, key, score, value,
      category, comment, correction, source_type, source_metadata, feedback_group_id, comparative_experiment_id,
      is_error, extends_retention, created_at, modified_at
    )
    select
      current_organization(), current_tenant(), g.id, g.run_id, p.trace_id, p.session_id, p.start_time, p.is_attached,
      g.key, g.score, g.value, g.category, g.comment, g.correction, g.source_type, g.source_metadata,
      g.feedback_group_id, g.comparative_experiment_id, g.is_error, g.extends_retention and g.run_id is not null,
      coalesce(g.created_at, clock()), coalesce(g.modified_at, g.created_at, clock())
    from given_feedback g
    join feedback_places p on p.place = g.place
    left join feedback_configs c on c.tenant_id = current_tenant() and c.key = g.key
    where case
        when g.session_id is null
          or exists (select from projects o where o.id = g.session_id and o.tenant_id = current_tenant())
          then true
        else refuse('project_not_found', g.session_id::text)
      end
      and ${requireFittingScore({ key: sql`g.key`, stored: sql`c.config`, given: sql`g.config`, score: sql`g.score` })}
    order by g.id
    on conflict (tenant_id, id) do update set
      score = excluded.score,
      value = excluded.value,
      category = excluded.category,
      comment = excluded.comment,
      correction = excluded.correction,
      source_type = excluded.source_type,
      source_metadata = excluded.source_metadata,
      is_error = excluded.is_error,
      extends_retention = f.extends_retention or excluded.extends_retention,
      modified_at = excluded.modified_at
    where case
        when f.key = excluded.key
          and f.run_id is not distinct from excluded.run_id
          and (f.run_id is not null or f.session_id is not distinct from excluded.session_id)
          and f.actor_id is not distinct from excluded.actor_id
          then true
        else refuse('feedback_exists', f.id::text)
      end
    returning f.*)`,
]
