// Insights jobs and their clusters, in words (pure).
import type { Reply } from '../../api/client.ts'
import { formatCost, formatCount, plural } from '../../format/amount.ts'
import type { State } from '../../format/state.ts'

export type InsightJob = Reply<'GET /sessions/{session_id}/insights/{job_id}'>
export type ListedJob = Reply<'GET /sessions/{session_id}/insights'>['clustering_jobs'][number]
export type Cluster = InsightJob['clusters'][number]

const STATES: Record<ListedJob['status'], State> = {
  queued: { word: 'Queued', tone: 'busy', shape: 'queued' },
  running: { word: 'Running', tone: 'busy', shape: 'arc' },
  success: { word: 'Done', tone: 'ok', shape: 'check' },
  error: { word: 'Failed', tone: 'bad', shape: 'octagon' },
}
export const stateOfJob = ({ status }: Pick<ListedJob, 'status'>): State => STATES[status]
export const isOpen = ({ status }: Pick<ListedJob, 'status'>): boolean => status === 'queued' || status === 'running'

const PHASES: Record<string, string> = {
  summaries: 'Reading traces',
  clusters: 'Sorting them',
  report: 'Writing the report',
}
type Metadata = {
  method?: string
  progress?: { phase: string; done: number; total: number }
  usage?: { calls: number; input_tokens: number; output_tokens: number; cost: number }
}

/** `Reading traces, 340 of 1,000`. */
export function describeProgress(job: Pick<ListedJob, 'status' | 'metadata'>): string {
  const { progress } = job.metadata as Metadata
  if (!isOpen(job) || !progress) return job.status === 'queued' ? 'Waits for its turn' : 'Selecting traces'
  return `${PHASES[progress.phase] ?? 'Working'}, ${formatCount(progress.done)} of ${formatCount(progress.total)}`
}

/** `1,036 calls, 914 k tokens, $0.96`. */
export function describeUsage({ metadata }: Pick<ListedJob, 'metadata'>): string | undefined {
  const { usage } = metadata as Metadata
  if (!usage) return undefined
  const parts = [plural(usage.calls, 'call'), `${formatCount(usage.input_tokens + usage.output_tokens)} tokens`]
  return [...parts, ...(usage.cost > 0 ? [formatCost(usage.cost)] : [])].join(', ')
}

export const isLexical = ({ metadata }: Pick<ListedJob, 'metadata'>): boolean =>
  (metadata as Metadata).method === 'lexical'

export type PlacedCluster = Cluster & { depth: number }

/** Each cluster before those below it, bigger ones first. */
export function inTreeOrder(clusters: Cluster[]): PlacedCluster[] {
  const below = Map.groupBy(clusters, ({ parent_id }) => parent_id)
  const list = (parent: string | null, depth: number): PlacedCluster[] =>
    (below.get(parent) ?? [])
      .toSorted((a, b) => b.num_runs - a.num_runs)
      .flatMap(cluster => [{ ...cluster, depth }, ...list(cluster.id, depth + 1)])
  return list(null, 0)
}

export type ClusterStats = {
  error_rate?: number
  latency_p50?: number | null
  feedback_stats?: Record<string, { n: number; avg: number | null }>
}
export const statsOf = ({ stats }: Cluster): ClusterStats => (stats ?? {}) as ClusterStats
