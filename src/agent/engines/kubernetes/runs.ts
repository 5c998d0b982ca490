// Commands that run once as Jobs of the cluster. A Job keeps its outcome until it is forgotten.
import { setTimeout as delay } from 'node:timers/promises'
import type { V1Job, V1Pod } from '@kubernetes/client-node'
import {
  type Artifact,
  type OneOffRun,
  type RevisionSpec,
  type RunEnd,
  TransientError,
  type WriteLog,
} from '../../engine.ts'
import { RUN_VARIABLE } from '../../system/tracked-process.ts'
import { imageCommand } from '../image-command.ts'
import { RUN_ROLE } from '../process-types.ts'
import type { Cluster } from './cluster.ts'
import { LOG_READ, metadataOf, RUN_LABEL, runName } from './names.ts'
import { labelOf } from './observed-status.ts'
import { worstFinding } from './pod-failures.ts'
import type { PodLogs } from './pod-logs.ts'
import { APP_CONTAINER, podTemplateOf, webWorkloadOf } from './pod-template.ts'
import type { KubernetesSettings } from './settings.ts'

/** The cluster removes a Job that no agent forgot. */
const KEPT_SECONDS = 7 * 86_400
const SAVE_MS = 5_000
const GONE: RunEnd = { exit_code: null, reason: 'is gone: its Job was removed from outside' }

export function jobOf(settings: KubernetesSettings, spec: RevisionSpec, artifact: Artifact, run: OneOffRun): V1Job {
  const command = { ...artifact, start_command: imageCommand(artifact, run.command) }
  const template = podTemplateOf(settings, spec, command, { ...webWorkloadOf(spec), component: RUN_ROLE })
  const { topologySpreadConstraints: _, containers, initContainers = [], ...pod } = template.spec!
  const [app, ...sidecars] = containers
  const env = app!.env!.map(one => (one.name === 'SLIPWAY_ROLE' ? { ...one, value: run.role ?? RUN_ROLE } : one))
  const metadata = metadataOf(settings, spec, runName(spec, run.id), { component: RUN_ROLE })
  const labels = { ...metadata.labels, [RUN_LABEL]: run.id }
  return {
    apiVersion: 'batch/v1',
    kind: 'Job',
    metadata: { ...metadata, labels },
    spec: {
      backoffLimit: 0,
      activeDeadlineSeconds: run.timeout_seconds,
      ttlSecondsAfterFinished: KEPT_SECONDS,
      template: {
        metadata: { ...template.metadata, labels },
        spec: {
          ...pod,
          restartPolicy: 'Never',
          // Kubernetes ends these after the command. Sidecars beside it would keep the pod running.
          initContainers: [...sidecars.map(sidecar => ({ ...sidecar, restartPolicy: 'Always' })), ...initContainers],
          containers: [{ ...app!, env: [...env, { name: RUN_VARIABLE, value: run.id }] }],
        },
      },
    },
  }
}

type RunOptions = {
  namespace: string
  spec: RevisionSpec
  run: OneOffRun
  makeJob(): Promise<V1Job>
  log: WriteLog
  signal: AbortSignal
}

export class Runs {
  readonly #cluster: Cluster
  readonly #logs: () => PodLogs
  readonly #pauseMs: number
  readonly #now: () => Date
  readonly #closing = new AbortController()

  constructor({ cluster, logs, pause_ms, now }: RunsOptions) {
    this.#cluster = cluster
    this.#logs = logs
    this.#pauseMs = pause_ms
    this.#now = now
  }

  async run({ namespace, spec, run, makeJob, log, signal }: RunOptions): Promise<RunEnd> {
    const name = runName(spec, run.id)
    const until = AbortSignal.any([signal, this.#closing.signal])
    const found = await this.#cluster.read<V1Job>('Job', namespace, name)
    if (!found && run.wasStarted) return GONE
    if (!found) await this.#cluster.apply(await makeJob(), () => null)
    const read = found?.metadata?.annotations?.[LOG_READ]
    let followed: V1Pod | undefined
    for (let savedAt = this.#now().getTime(); ; await delay(this.#pauseMs)) {
      until.throwIfAborted()
      const look = await this.#look(namespace, name, run.id).catch(ignoreTransient)
      if (!look) continue
      const { job, pod } = look
      if (pod && !followed && hasBegun(pod)) {
        followed = pod
        this.#logs().followRun(pod, read, log)
      }
      const hopeless = this.#findHopeless(pod)
      if (hopeless && job) await this.#cluster.remove(job)
      const end = hopeless ?? describeEnd(job, pod, run)
      const position = followed && this.#logs().readUntil(followed)
      const isDue = this.#now().getTime() - savedAt >= SAVE_MS
      if (job && position && (end || isDue) && job.metadata?.annotations?.[LOG_READ] !== position) {
        savedAt = this.#now().getTime()
        await this.#cluster.annotate(job, { [LOG_READ]: position }).catch(ignoreTransient)
      }
      if (!end) continue
      if (followed) await this.#logs().endRun(followed)
      return end
    }
  }

  async forget(namespace: string, deployment_id: string, id: string): Promise<void> {
    const jobs = await this.#cluster.listOwned<V1Job>('Job', namespace, deployment_id)
    for (const job of jobs) if (labelOf(job, RUN_LABEL) === id) await this.#cluster.remove(job)
  }

  close(): void {
    this.#closing.abort(new TransientError('The agent is shutting down.'))
  }

  async #look(namespace: string, name: string, id: string) {
    const job = await this.#cluster.read<V1Job>('Job', namespace, name)
    const [pod] = await this.#cluster.list<V1Pod>('Pod', namespace, { labels: { [RUN_LABEL]: id } })
    return { job, pod }
  }

  /** The pod cannot be started, and waiting does not help. */
  #findHopeless(pod: V1Pod | undefined): RunEnd | undefined {
    if (!pod || hasBegun(pod)) return undefined
    const finding = worstFinding({ deployments: [], pods: [pod], events: [] })
    if (!finding || finding.hopeless_at > this.#now().getTime()) return undefined
    return { exit_code: null, reason: `could not be started: ${finding.reason}` }
  }
}
type RunsOptions = { cluster: Cluster; logs: () => PodLogs; pause_ms: number; now: () => Date }

const appStateOf = ({ status }: V1Pod) => status?.containerStatuses?.find(({ name }) => name === APP_CONTAINER)?.state
const hasBegun = (pod: V1Pod) => Boolean(appStateOf(pod)?.running ?? appStateOf(pod)?.terminated)

/** Undefined while it runs. */
function describeEnd(job: V1Job | null, pod: V1Pod | undefined, { timeout_seconds }: OneOffRun): RunEnd | undefined {
  if (!job) return GONE
  const ended = job.status?.conditions?.find(({ type, status }) => status === 'True' && ENDS.has(type))
  if (ended?.reason === 'DeadlineExceeded')
    return { exit_code: null, reason: `did not end within ${timeout_seconds} s and was ended` }
  const end = pod && appStateOf(pod)?.terminated
  if (end?.reason === 'OOMKilled')
    return { exit_code: end.exitCode, reason: 'was killed, because it needed more memory than its memory_limit_mb' }
  if (end) return { exit_code: end.exitCode, reason: end.exitCode === 0 ? null : `ended with code ${end.exitCode}` }
  if (!ended) return undefined
  if (ended.type === 'Complete') return { exit_code: 0, reason: null }
  return {
    exit_code: null,
    reason: `was ended by the cluster: ${ended.message ?? ended.reason ?? 'no reason is known'}`,
  }
}
const ENDS = new Set(['Complete', 'Failed'])

function ignoreTransient(error: unknown): undefined {
  if (!(error instanceof TransientError)) throw error
}
