// Runs Jobs of the agent's own to their end. The next agent finds them by their names.
import { setTimeout as delay } from 'node:timers/promises'
import type { V1Job, V1Pod } from '@kubernetes/client-node'
import { PermanentError, TransientError } from '../../engine.ts'
import type { Cluster } from './cluster.ts'
import { JOB_NAME_LABEL } from './names.ts'
import { worstFinding } from './pod-failures.ts'

type Options = {
  cluster: Cluster
  pause_ms: number
  now: () => Date
  /** For a pod to start. It may wait for a node, or for its claim. */
  progress_seconds: number
}
type JobEnd = { isComplete: boolean; message: string; isHopeless?: true }

/** Its pod ran, and failed. Another attempt may do it: a database restarts. */
export class TaskFailed extends Error {}

export class TaskJobs {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  /**
   * Creates the Job unless it exists. Returns what its pod said last. Rejects if it failed, with a PermanentError only
   * if its pod could not start. The caller decides when the Job is removed. An aborted signal ends it.
   */
  async run(job: V1Job, signal: AbortSignal): Promise<string> {
    const { cluster, pause_ms } = this.#options
    await cluster.apply(job, () => null)
    for (;;) {
      const { end } = await this.look(job, signal)
      if (end?.isComplete) return end.message
      if (end?.isHopeless) throw new PermanentError(end.message)
      if (end) throw new TaskFailed(end.message)
      await delay(pause_ms, undefined, { signal }).catch(() => {})
    }
  }

  /** Returns the pod of the Job once its container runs. */
  async waitUntilRunning(job: V1Job, signal: AbortSignal): Promise<{ namespace: string; pod: string }> {
    const { cluster, pause_ms } = this.#options
    await cluster.apply(job, () => null)
    for (;;) {
      const { pods, end } = await this.look(job, signal)
      const running = pods.find(({ status }) => status?.phase === 'Running')
      if (running) return { namespace: running.metadata!.namespace!, pod: running.metadata!.name! }
      if (end) throw new PermanentError(end.message)
      await delay(pause_ms, undefined, { signal }).catch(() => {})
    }
  }

  /** One look at a Job, which is removed if the signal is aborted or its pod cannot start. */
  async look({ metadata }: V1Job, signal: AbortSignal): Promise<{ pods: V1Pod[]; end: JobEnd | undefined }> {
    const { cluster, now, progress_seconds } = this.#options
    const { namespace, name } = metadata!
    const job = await cluster.read<V1Job>('Job', namespace!, name!).catch(ignoreTransient)
    if (signal.aborted) {
      if (job) await cluster.remove(job)
      signal.throwIfAborted()
    }
    if (job === undefined) return { pods: [], end: undefined }
    if (job === null) throw new TransientError(`The Job ${name} was removed from outside.`)
    const pods = (await this.listPods(job).catch(ignoreTransient)) ?? []
    const end = endOf(job, pods)
    if (end) return { pods, end }
    const waiting = pods.filter(({ status }) => status?.phase === 'Pending')
    const finding = worstFinding({ deployments: [], pods: waiting, events: [] })
    const age = now().getTime() - new Date(job.metadata?.creationTimestamp ?? now()).getTime()
    const isLate = age > progress_seconds * 1000 && waiting.length === pods.length
    const isHopeless = finding !== null && finding.hopeless_at <= now().getTime()
    if (!isLate && !isHopeless) return { pods, end }
    await cluster.remove(job)
    const reason = finding?.reason ?? 'No reason is known.'
    const problem = isHopeless ? 'could not be started' : `did not start within ${progress_seconds} s`
    return { pods, end: { isComplete: false, isHopeless: true, message: `Its pod ${problem}: ${reason}` } }
  }

  listPods({ metadata }: V1Job): Promise<V1Pod[]> {
    return this.#options.cluster.list<V1Pod>('Pod', metadata!.namespace!, {
      labels: { [JOB_NAME_LABEL]: metadata!.name! },
    })
  }
}

/** Undefined while it runs. */
export function endOf({ status, spec }: V1Job, pods: V1Pod[]): JobEnd | undefined {
  const ended = status?.conditions?.find(
    ({ type, status }) => status === 'True' && (type === 'Complete' || type === 'Failed'),
  )
  if (!ended) return undefined
  const ends = pods.flatMap(({ status }) => status?.containerStatuses?.flatMap(({ state }) => state?.terminated ?? []))
  const last = ends
    .filter(end => end !== undefined)
    .toSorted((a, b) => timeOf(a.finishedAt) - timeOf(b.finishedAt))
    .at(-1)
  const words = last?.message?.trim() ?? ''
  if (ended.type === 'Complete') return { isComplete: true, message: words }
  if (ended.reason === 'DeadlineExceeded')
    return { isComplete: false, message: `It did not end within ${spec?.activeDeadlineSeconds} s.` }
  const message = words.slice(-1000) || (ended.message ?? ended.reason ?? 'No reason is known.')
  return { isComplete: false, message }
}
const timeOf = (date: Date | undefined) => new Date(date ?? 0).getTime()

function ignoreTransient(error: unknown): undefined {
  if (!(error instanceof TransientError)) throw error
}
