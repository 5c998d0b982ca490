// Reads what rules and subjects have to be looked at, each with its state and the sums or signals of its window, in one
// statement for all workspaces.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, uuidArray } from '../../kernel/db/db.ts'
import type { StoredCondition } from '../../protocol/alerts.schema.ts'
import { latencyColumns } from '../metrics/metric-points.ts'
import { coveringMutes } from './covering-mutes.ts'
import type { AlertState } from './decide.ts'
import type { MetricSums } from './metric-values.ts'
import type { MuteWindow } from './mute-windows.ts'

const MAX_PAIRS = 500

export type Watched = {
  rule: {
    id: string
    name: string
    organization_id: string
    tenant_id: string
    built_in: string | null
    condition: StoredCondition
    for_seconds: number
    resolve_after_seconds: number
    project_id: string | null
  }
  /** False: the rule is off, the subject is gone or no longer in the scope. */
  is_watched: boolean
  subject: { type: 'deployment' | 'project' | 'listener' | 'workspace'; id: string; name: string }
  /** Null: nothing was seen yet. */
  state: (AlertState & { version: number }) | null
  sums: MetricSums | null
  signals: Signals | null
  mutes: MuteWindow[]
}
type Signals = {
  /** Within the window of the condition. */
  count: number
  lines: string[]
  /** The last event that opens, and whether one that ends came after it. */
  cause: string | null
  isEnded: boolean
}

/** The states that are due, of all kinds but traces, which `trace-looks.ts` claims. */
export const duePairs: SQL = sql`
    select s.rule_id, s.subject_id, s.subject_type
    from alert_states s
    join alert_rules k on k.id = s.rule_id and k.kind <> 'trace'
    where s.due_at <= clock()
    order by s.due_at
    limit ${MAX_PAIRS}`

/** The rules on metrics, of deployments whose metrics have come. */
export const metricPairs = (deployments: string[]): SQL => sql`
    select k.id as rule_id, d.id as subject_id, 'deployment' as subject_type
    from deployments d
    join alert_rules k on k.tenant_id = d.tenant_id and k.kind = 'metric' and k.enabled
    where d.id = any(${uuidArray(deployments)})
      and is_in_alert_scope(k.deployment_ids, k.tag_value_ids, d.id, d.tag_value_ids)`

/** Deployments whose metrics came lately: those that a look after their arrival may have missed. */
export const recentDeployments: SQL = sql`array(
      select distinct p.deployment_id
      from metric_points p
      where p.seconds = 60 and p.at > clock() - interval '3 minutes'
    )`

/** The deployments that rules on metrics watch, each with their number, in turns of the workspaces. */
export const metricRuleCounts = (deployments: SQL): SQL<Row> => sql<Row>`
    select d.id, count(*)
    from deployments d
    join alert_rules k on k.tenant_id = d.tenant_id and k.kind = 'metric' and k.enabled
    where d.id = any(${deployments})
      and is_in_alert_scope(k.deployment_ids, k.tag_value_ids, d.id, d.tag_value_ids)
    group by d.id
    order by row_number() over (partition by d.tenant_id order by d.id), d.id`

export const pairOf = (rule: string, project: string): SQL => sql`
    select ${rule}::uuid as rule_id, ${project}::uuid as subject_id, 'project' as subject_type`

const milliseconds = (time: SQL): SQL => sql`extract(epoch from ${time}) * 1000`
const STATE = sql`case when s.rule_id is not null then json_build_object(
      'version', s.version, 'phase', s.phase, 'since', ${milliseconds(sql`s.since`)}, 'relapses', s.relapses,
      'sampledAt', ${milliseconds(sql`s.sampled_at`)}
    ) end`

const WINDOW = sql`(k.condition ->> 'window_seconds')::integer * interval '1 second'`
const LATENCIES = sql.join(
  latencyColumns.map(name => sql`coalesce(sum(p.${sql.identifier(name)}), 0)`),
  sql`, `,
)
/** The sizes of the stores of deployment `d`, as the deployment or its source asks for them. */
const STORE_SIZES = sql`(
        select 'disk:' || (v.value #>> '{persistentVolumeClaim, claimName}') as store,
          (v.value #>> '{persistentVolumeClaim, storage_gi}')::double precision as gi
        from jsonb_array_elements(nullif((d.source_config #> '{resource_spec, volumes}')::jsonb, 'null')) v
        union all
        select 'database', (d.source_config #>> '{resource_spec, db_storage_gi}')::double precision
        union all
        select 'disk:' || (g.value ->> 'name'), (g.value ->> 'storage_gi')::double precision
        from revisions v
        cross join jsonb_array_elements(nullif((v.build_plan -> 'disks')::jsonb, 'null')) g
        where v.id = d.active_revision_id and v.tenant_id = d.tenant_id
      )`
const DISK = sql`(
        select max(p.bytes / (z.gi * 1024 * 1024 * 1024))
        from store_points p
        join ${STORE_SIZES} z on z.store = p.store and z.gi > 0
        where p.deployment_id = d.id and p.seconds = 60 and p.at > clock() - ${WINDOW} - interval '1 minute'
      )`
const MEMORY_LIMIT = sql`coalesce(
        (d.source_config #>> '{resource_spec, memory_limit_mb}')::integer,
        (d.source_config #>> '{resource_spec, memory_mb}')::integer
      )`
const isOf = (metric: string) => sql`k.condition ->> 'metric' = ${metric}`
const SUMS = sql`
    select json_build_object(
        'minutes', count(distinct p.at),
        'requests', sum(p.status_1xx + p.status_2xx + p.status_3xx + p.status_4xx + p.status_5xx
          + coalesce(p.unreached, 0)),
        'errors', sum(p.status_5xx + coalesce(p.unreached, 0)),
        'restarts', sum(p.restarts),
        'cpu_ms', sum(p.cpu_ms),
        'memory_peak_bytes', max(p.memory_peak_bytes),
        'copies', sum(p.copies) filter (where p.at = p.newest),
        'queue', max(p.queue) filter (where p.at = p.newest),
        'latencies', case
          when k.condition ->> 'metric' like 'latency%' and count(p.latency_more) > 0
            then json_build_array(${LATENCIES})
        end,
        'memory_limit_mb', ${MEMORY_LIMIT},
        'disk', case when ${isOf('disk')} then ${DISK} end
      ) as value,
      coalesce(sum(p.status_5xx + coalesce(p.unreached, 0)), 0) as errors
    from (
      select m.*, max(m.at) over () as newest
      from metric_points m
      where k.kind = 'metric'
        and m.deployment_id = d.id
        and m.seconds = 60
        and m.at > clock() - ${WINDOW} - interval '1 minute'
    ) p`

const SIGNALS = sql`
    select json_build_object(
        'count', coalesce(sum(g.count) filter (where g.at > clock() - coalesce(
          ${WINDOW}, greatest(k.resolve_after_seconds, 60) * interval '1 second'
        )), 0),
        'lines', coalesce((array_agg(to_json(g.lines) order by g.at desc))[1], '[]'),
        'cause', (array_agg(g.cause order by g.at desc) filter (where g.count > 0))[1],
        'isEnded', coalesce((array_agg(g.count order by g.at desc))[1] = 0, false)
      ) as value
    from alert_signals g
    where g.rule_id = k.id and g.subject_id = p.subject_id and k.kind in ('log', 'event')`

const MUTES = coveringMutes({
  tenant: sql`k.tenant_id`,
  rule: sql`k.id`,
  deployment: sql`d.id`,
  tags: sql`d.tag_value_ids`,
})

/**
 * Most deployments have no failed request, and a rule that sees nothing has no state: these pairs are left out.
 * `isEarly`: the newest points are not stored, so nothing is left out.
 */
export const selectWatched = (pairs: SQL, isEarly = false): SQL<Row> => sql<Row>`
  with pairs as (${pairs})
  select json_build_object(
      'rule', json_build_object(
        'id', k.id, 'name', k.name, 'organization_id', k.organization_id, 'tenant_id', k.tenant_id,
        'built_in', k.built_in, 'condition', k.condition, 'for_seconds', k.for_seconds,
        'resolve_after_seconds', k.resolve_after_seconds, 'project_id', k.project_id
      ),
      'is_watched', is_alert_rule_active(k) and case p.subject_type
        when 'deployment' then d.deleting_at is null
          and is_in_alert_scope(k.deployment_ids, k.tag_value_ids, d.id, d.tag_value_ids)
        else true
      end is true,
      'subject', json_build_object(
        'type', p.subject_type,
        'id', p.subject_id,
        'name', case p.subject_type
          when 'deployment' then d.name
          when 'project' then (select j.name from projects j where j.id = p.subject_id)
          when 'listener' then (select l.compute_id from listeners l where l.id = p.subject_id)
          else (select w.display_name from workspaces w where w.id = k.tenant_id)
        end
      ),
      'state', ${STATE},
      'sums', case when k.kind = 'metric' then sums.value end,
      'signals', case when k.kind in ('log', 'event') then signals.value end,
      'mutes', ${MUTES}
    )::text
  from pairs p
  join alert_rules k on k.id = p.rule_id
  left join alert_states s on s.rule_id = p.rule_id and s.subject_id = p.subject_id
  left join deployments d on d.id = p.subject_id and d.tenant_id = k.tenant_id and p.subject_type = 'deployment'
  left join lateral (${SUMS}) sums on true
  left join lateral (${SIGNALS}) signals on true
  where s.rule_id is not null
    or ${isEarly}
    or k.kind = 'trace'
    or not (${isOf('error_rate')} and sums.errors = 0)
      and not (${isOf('disk')} and coalesce((sums.value ->> 'disk')::double precision, 0)
        <= (k.condition ->> 'threshold')::double precision)`
