// Gathers the evidence of an incident when it opens: the cause, the last lines of the log, and a chart.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { unitOf } from './condition-values.ts'
import type { Watched } from './samples.ts'
import type { Evidence } from './tables.ts'

const MAX_LINES = 10
const MAX_LINE_LENGTH = 1000
const CHART_MINUTES = 45
const MAX_TEXT = 2000

/** A deployment as it is known. `minutes` has, for each, its time and what the metrics are made of. */
type Facts = {
  revision: number | null
  commit: string | null
  serving_since: string | null
  health: string | null
  health_reason: string | null
  incidents: { kind: string; last_at: string; message: string | null; count: number }[] | null
  lines: string[]
  minutes: Minute[]
}
type Minute = {
  at: number
  requests: number | null
  errors: number | null
  memory: number | null
  cpu_ms: number | null
  restarts: number | null
  copies: number | null
}

const selectFacts = (ids: string[]) => sql<Row>`
  select d.id, json_build_object(
      'revision', v.number,
      'commit', left(v.commit ->> 'sha', 12),
      'serving_since', v.status_since,
      'health', d.health,
      'health_reason', d.health_reason,
      'incidents', (
        select json_agg(i.value)
        from json_array_elements(d.incidents) i
        where (i.value ->> 'last_at')::timestamptz > clock() - interval '1 hour'
      ),
      'lines', (
        select coalesce(json_agg(l.message order by l.timestamp, l.number), '[]')
        from (
          select g.timestamp, g.number, left(g.message, ${MAX_LINE_LENGTH}) as message
          from log_lines g
          where g.deployment_id = d.id and g.kind = 'deploy' and g.number > 0
          order by g.timestamp desc, g.revision_id desc, g.number desc
          limit ${MAX_LINES}
        ) l
      ),
      'minutes', (
        select coalesce(json_agg(m order by m.at), '[]')
        from (
          select extract(epoch from p.at) * 1000 as at,
            sum(p.status_1xx + p.status_2xx + p.status_3xx + p.status_4xx + p.status_5xx + coalesce(p.unreached, 0))
              as requests,
            sum(p.status_5xx + coalesce(p.unreached, 0)) as errors,
            max(p.memory_peak_bytes) as memory, sum(p.cpu_ms) as cpu_ms, sum(p.restarts) as restarts,
            sum(p.copies) as copies
          from metric_points p
          where p.deployment_id = d.id and p.seconds = 60 and p.at > clock() - ${CHART_MINUTES} * interval '1 minute'
          group by p.at
        ) m
      )
    )::text
  from deployments d
  left join revisions v on v.id = d.active_revision_id
  where d.id = any(${uuidArray(ids)})`

export async function readFacts({ database, platform }: Services, ids: string[]): Promise<Map<string, Facts>> {
  if (ids.length === 0) return new Map()
  const [, rows] = await runAsSystem(database, setClock(platform), selectFacts(ids))
  return new Map((rows as [string, string][]).map(([id, facts]) => [id, JSON.parse(facts) as Facts]))
}

const MIB = 1024 * 1024
const MINUTE_MS = 60_000

/** A chart shows the metric of the rule, or else the memory, which crashes often have to do with. */
const CHARTS: Record<string, { title: string; unit: string; read: (minute: Minute) => number | null }> = {
  error_rate: {
    title: 'Error rate',
    unit: '%',
    read: ({ requests, errors }) => (requests ? (100 * (errors ?? 0)) / requests : null),
  },
  requests: { title: 'Requests a minute', unit: '', read: ({ requests }) => requests },
  cpu: { title: 'CPU', unit: 'cores', read: ({ cpu_ms }) => (cpu_ms === null ? null : cpu_ms / MINUTE_MS) },
  memory: { title: 'Memory', unit: 'MiB', read: ({ memory }) => (memory === null ? null : memory / MIB) },
  restarts: { title: 'Restarts', unit: '', read: ({ restarts }) => restarts },
  copies: { title: 'Copies', unit: '', read: ({ copies }) => copies },
}

function chartOf({ rule: { condition } }: Watched, minutes: Minute[]): Evidence['chart'] {
  const metric = condition.kind === 'metric' ? condition.metric : 'memory'
  const chart = CHARTS[metric]
  if (!chart) return undefined
  const points = minutes.flatMap((minute): [number, number][] => {
    const value = chart.read(minute)
    return value === null ? [] : [[minute.at, Number(value.toPrecision(6))]]
  })
  if (points.length < 2) return undefined
  const scale = unitOf(condition) === '%' ? 100 : 1
  const hasThreshold = condition.kind === 'metric' && condition.metric !== 'memory'
  return {
    title: chart.title,
    unit: chart.unit,
    points,
    ...(hasThreshold && { threshold: condition.threshold * scale }),
  }
}

const LAST_LINES = ' Its last lines:\n'
const withoutLines = (text: string): string => text.split(LAST_LINES)[0]!.trim()
/** The lines that the agent gave with a reason: those of the copy that ended. */
const linesOf = (text: string): string[] => text.split(LAST_LINES)[1]?.split('\n').filter(Boolean) ?? []
/** The same reason may begin with other words, and have another count: `Killed: it used 257 MB`. */
const coreOf = (text: string): string => withoutCounts(text).replace(/^[^:]{1,40}: /, '')
const withoutCounts = (text: string): string => text.replace(/\d+/g, '0')

const reasonsOf = ({ health, health_reason, incidents }: Facts): string[] =>
  [
    ...(health === 'healthy' ? [] : [health_reason]),
    ...(incidents ?? []).filter(({ kind }) => kind !== 'scaled').map(({ message }) => message),
  ].filter(reason => reason !== null)

/** Reasons that the agent gave, beside the condition itself, each once. */
function explain(cause: string, facts: Facts): string {
  const texts = [cause, ...reasonsOf(facts)].map(withoutLines).filter(text => text !== '')
  return texts
    .filter((text, i) => !texts.slice(0, i).some(other => withoutCounts(other).includes(coreOf(text))))
    .join(' ')
    .slice(0, MAX_TEXT)
}

/** `facts`: undefined for a subject that is no deployment. */
export function toEvidence(
  watched: Watched,
  cause: string,
  facts: Facts | undefined,
): { cause: string; evidence: Evidence } {
  const matched = watched.signals?.lines ?? []
  const named = [{ name: 'Rule', value: watched.rule.name }]
  if (!facts) return { cause: withoutLines(cause), evidence: { facts: named, lines: matched } }
  const { revision, commit, serving_since, lines, minutes } = facts
  const chart = chartOf(watched, minutes)
  const given = [cause, ...reasonsOf(facts)].map(linesOf).find(one => one.length > 0)
  return {
    cause: explain(cause, facts),
    evidence: {
      facts: [
        ...named,
        { name: 'Deployment', value: watched.subject.name },
        ...(revision === null
          ? []
          : [{ name: 'Revision', value: commit ? `${revision}, commit ${commit}` : `${revision}` }]),
        ...(serving_since === null ? [] : [{ name: 'Serving since', value: new Date(serving_since).toISOString() }]),
      ],
      // The lines that a rule has matched say more than those of the copy that ended, and these more than the newest.
      lines: matched.length > 0 ? matched.toReversed() : (given ?? lines).slice(-MAX_LINES),
      ...(chart && { chart }),
    },
  }
}
