// `slipway metrics`: the newest value of each metric, of all revisions together and of each that runs.
import type { Reply } from '../../client/client.ts'
import type { Declaration } from '../declaration.ts'
import { findDeployment, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'show what the copies used and answered',
  options: command => command.option('--process <process>', 'only copies of this process type, such as web or worker'),
}

type Metrics = Reply<'GET /v2/deployments/{deployment_id}/metrics'>
type Value = {
  metric: Metrics['series'][number]['metric']
  unit: Metrics['series'][number]['unit']
  /** Null for all revisions together. */
  revision: number | string | null
  /** The database, Redis or disk of which it is. */
  store?: string | undefined
  at: string | null
  value: number | null
}

const LISTED_REVISIONS = 100
const MIB = 2 ** 20

export async function run(session: Session, { process }: { process?: string }, [name]: [string?]): Promise<void> {
  const { client, out, signal } = session
  const deployment = await findDeployment(session, name)
  const params = { deployment_id: deployment.id }
  const [metrics, { resources: revisions }] = await Promise.all([
    client.call('GET /v2/deployments/{deployment_id}/metrics', {
      params,
      query: { ...(process && { process }) },
      signal,
    }),
    client.call('GET /v2/deployments/{deployment_id}/revisions', {
      params,
      query: { limit: LISTED_REVISIONS },
      signal,
    }),
  ])
  const numbers = new Map(revisions.map(({ id, number }) => [id, number]))
  const values = metrics.series.map(series => findNewest(metrics, series, numbers))
  const shown = out.isMachine ? values : values.filter(({ value }) => value !== null)
  const columns = {
    metric: ({ metric }: Value) => metric,
    revision: ({ revision, store }: Value) => store ?? revision ?? 'all',
    newest: (one: Value) => formatValue(one),
    at: ({ at }: Value) => at && new Date(at).toTimeString().slice(0, 5),
  }
  out.table(
    shown,
    columns,
    `Nothing was measured in the last hour. See whether ${deployment.name} serves: slipway status ${deployment.name}`,
  )
}

function findNewest(
  { from, step }: Metrics,
  { metric, unit, revision_id, store, values }: Metrics['series'][number],
  numbers: Map<string, number>,
): Value {
  const place = values.findLastIndex(value => value !== null)
  return {
    metric,
    unit,
    revision: revision_id === null ? null : (numbers.get(revision_id) ?? revision_id),
    ...(store !== undefined && { store }),
    at: place === -1 ? null : new Date(Date.parse(from) + place * step * 1000).toISOString(),
    value: values[place] ?? null,
  }
}

function formatValue({ unit, value }: Value): string | null {
  if (value === null) return null
  if (unit === 'bytes') return `${(value / MIB).toFixed(1)} MiB`
  if (unit === 'milliseconds') return `${value} ms`
  return unit === 'cores' ? `${value} cores` : String(value)
}
