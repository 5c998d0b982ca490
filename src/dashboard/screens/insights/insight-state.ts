// Jobs of insights, their progress and their clusters, in words (pure).
import { formatCount, plural } from '../../format/amount.ts'
import type { State } from '../../format/state.ts'
import type { Cluster, Job } from './actions.ts'

const STATES: Record<Job['status'], State> = {
  queued: { word: 'Waiting', tone: 'busy', shape: 'arc' },
  running: { word: 'Running', tone: 'busy', shape: 'arc' },
  success: { word: 'Completed', tone: 'ok', shape: 'check' },
  error: { word: 'Failed', tone: 'bad', shape: 'octagon' },
}
export const stateOfJob = ({ status }: Pick<Job, 'status'>): State => STATES[status]

export const isOpen = ({ status }: Pick<Job, 'status'>): boolean => status === 'queued' || status === 'running'

export const isLexical = ({ metadata }: Pick<Job, 'metadata'>): boolean => metadata.method === 'lexical'

export const describeMethod = (job: Pick<Job, 'metadata'>): string =>
  isLexical(job) ? 'Lexical, without a model' : `With the model ${String(job.metadata.model ?? '')}`.trim()

type Progress = { phase: string; done: number; total: number }
const PHASES: Record<string, string> = {
  summaries: 'summaries',
  clusters: 'questions about clusters',
  report: 'report',
}

/** Describes the progress of a job, or its result. */
export function describeProgress(job: Pick<Job, 'status' | 'metadata' | 'shape'>): string {
  const { num_runs, progress } = job.metadata as { num_runs?: number | null; progress?: Progress }
  const runs = num_runs == null ? '' : plural(num_runs, 'trace')
  if (!isOpen(job)) {
    const finest = job.shape?.['0'] ?? 0
    return finest > 0 ? `${runs} in ${plural(finest, 'cluster')}` : runs
  }
  if (!progress) return num_runs == null ? 'Selects traces' : runs
  return `${formatCount(progress.done)} of ${formatCount(progress.total)} ${PHASES[progress.phase] ?? 'steps'}`
}

export type ClusterNode = Cluster & { children: ClusterNode[] }

/** The clusters below each other, as the job has them in order. */
export function toTree(clusters: Cluster[]): ClusterNode[] {
  const nodes = new Map(clusters.map(cluster => [cluster.id, { ...cluster, children: [] as ClusterNode[] }]))
  const tops: ClusterNode[] = []
  for (const node of nodes.values()) {
    const parent = node.parent_id === null ? undefined : nodes.get(node.parent_id)
    if (parent) parent.children.push(node)
    else tops.push(node)
  }
  return tops
}
