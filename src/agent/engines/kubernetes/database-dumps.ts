// Snapshots of databases: dumps in a claim of the deployment, made and restored by Jobs, and by a CronJob each day.
import { Duplex, type Readable, Writable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import type { KubernetesObject, V1Job, V1PersistentVolumeClaim } from '@kubernetes/client-node'
import { HeldSnapshot } from '../../../protocol/snapshots.schema.ts'
import { PermanentError, type RevisionSpec, SnapshotUnsupported } from '../../engine.ts'
import { expiryOf } from '../../snapshots/retention.ts'
import { parseMemory } from '../quantities.ts'
import type { Cluster } from './cluster.ts'
import { type DeploymentObjects, noneIfForbidden, withLargerStorage } from './deployment-objects.ts'
import {
  connectionOf,
  DUMP_TASK,
  DUMPS_COMPONENT,
  dumpCronJobOf,
  dumpsClaimOf,
  placeOf,
  type Task,
  taskJobOf,
} from './dump-objects.ts'
import { type DumpPod, endOfId, openDumpPod } from './dump-pods.ts'
import {
  DUMP_SCRIPT,
  DUMPS_FOLDER,
  PRUNE_SCRIPT,
  READ_SCRIPT,
  RECEIVE_SCRIPT,
  RESTORE_SCRIPT,
  readDumpWords,
  SEND_SCRIPT,
} from './dump-scripts.ts'
import {
  BACKUP_OF_LABEL,
  COMPONENT_LABEL,
  DEPLOYMENT_LABEL,
  HELD_PREFIX,
  namespaceOf,
  ownerLabels,
  REMOVED_PREFIX,
  SNAPSHOT_ANNOTATION,
  storeName,
  TASK_LABEL,
} from './names.ts'
import { labelOf } from './observed-status.ts'
import type { KubernetesSettings } from './settings.ts'
import { type NewSnapshot, parseJson, parseSnapshot } from './snapshot-annotations.ts'
import { endOf, TaskFailed, type TaskJobs } from './task-jobs.ts'

/** A dump, and the claim that has it. */
export type HeldDump = { held: HeldSnapshot; claim: V1PersistentVolumeClaim }

type Options = {
  cluster: Cluster
  settings: KubernetesSettings
  objects: DeploymentObjects
  tasks: TaskJobs
  /** A daily dump of a deployment failed. */
  onFailure: (deployment_id: string, message: string) => void
  /** Its health has changed. */
  changed: (deployment_id: string) => void
}
type Apply = (
  object: KubernetesObject,
  adjust?: (existing: KubernetesObject) => KubernetesObject | null,
) => Promise<void>

const [TASK_SECONDS, PRUNE_SECONDS] = [6 * 3600, 600]

export class DatabaseDumps {
  readonly #options: Options
  /** The Jobs whose failure was told. */
  readonly #told = new Set<string>()
  /** The deployments whose last daily dump failed. */
  readonly #problems = new Map<string, string>()

  constructor(options: Options) {
    this.#options = options
  }

  /** For a deployment with a database. */
  async ensure(spec: RevisionSpec, apply: Apply): Promise<void> {
    const { settings } = this.#options
    const claim = dumpsClaimOf(settings, spec)
    await apply(claim, existing => withLargerStorage(claim, existing))
    await apply(dumpCronJobOf(settings, spec))
  }

  async take(snapshot: NewSnapshot, signal: AbortSignal): Promise<void> {
    const { settings, tasks, objects } = this.#options
    const { deployment_id, id } = snapshot
    const namespace = await objects.findNamespace(deployment_id)
    const database = namespace && (await objects.readStoreSecret(namespace, deployment_id, 'database'))
    if (!database) throw new PermanentError('This deployment has no database.')
    const place = placeOf(database)
    const [claim] = await this.#listClaims(namespace, deployment_id)
    if (!claim)
      throw new SnapshotUnsupported(
        'The claim for dumps of this database could not be made: see the log of the deployment.',
      )
    const task: Task = {
      task: DUMP_TASK,
      claim: claim.metadata!.name!,
      script: DUMP_SCRIPT,
      seconds: TASK_SECONDS,
      env: [
        { name: 'SNAPSHOT_ID', value: id },
        { name: 'FOLDER', value: DUMPS_FOLDER },
        { name: 'MAX_KB', value: String(Math.floor(sizeOf(claim) / 1024)) },
        ...connectionOf(database.metadata!.name!),
      ],
    }
    const annotations = { [SNAPSHOT_ANNOTATION]: JSON.stringify(snapshot) }
    const job = taskJobOf(settings, place, `${place.base}-dump-${endOfId(id)}`, task, annotations)
    await this.#reasonOf('The dump of the database failed', () => tasks.run(job, signal), job, claim)
  }

  /** A Job that failed is removed, so that the next attempt makes another. */
  async #reasonOf(
    failure: string,
    run: () => Promise<string>,
    job: V1Job,
    claim?: V1PersistentVolumeClaim,
  ): Promise<void> {
    try {
      await run()
    } catch (error) {
      const isFailed = error instanceof TaskFailed
      if (!isFailed && !(error instanceof PermanentError)) throw error
      const { removed, text } = readDumpWords(error.message)
      if (claim) await this.#forget(claim, removed)
      await this.#options.cluster.remove(job)
      const reason = `${failure}: ${text}`
      throw isFailed ? new Error(reason) : new PermanentError(reason)
    }
  }

  /** Their files are gone. */
  async #forget(claim: V1PersistentVolumeClaim, ids: string[]): Promise<void> {
    const known = ids.map(id => HELD_PREFIX + id).filter(name => name in (claim.metadata?.annotations ?? {}))
    if (known.length > 0) await this.#annotate(claim, Object.fromEntries(known.map(name => [name, null])))
  }

  /** From a claim of its namespace. The target keeps its present data until the others are complete. */
  async restore(spec: RevisionSpec, { held, claim }: HeldDump, signal: AbortSignal): Promise<void> {
    const { cluster, settings, tasks } = this.#options
    const namespace = namespaceOf(settings, spec)
    const database = storeName(spec, 'database')
    const secret = await cluster.read('Secret', namespace, database)
    if (!secret) throw new PermanentError('This deployment has no database.')
    const place = placeOf(secret)
    const job = taskJobOf(
      settings,
      place,
      `${place.base}-restore`,
      {
        task: 'restore',
        claim: claim.metadata!.name!,
        script: RESTORE_SCRIPT,
        seconds: TASK_SECONDS,
        isReadOnly: true,
        // A pod that is killed in the exchange leaves the database closed, and the next one opens it.
        retries: 3,
        env: [{ name: 'SNAPSHOT_ID', value: held.id }, ...connectionOf(database)],
      },
      { [SNAPSHOT_ANNOTATION]: held.id },
    )
    // One of another snapshot was left by an agent that was killed before it could remove it.
    const earlier = await cluster.read('Job', namespace, job.metadata!.name!)
    if (earlier && earlier.metadata?.annotations?.[SNAPSHOT_ANNOTATION] !== held.id) await cluster.remove(earlier)
    await this.#reasonOf('The restore of the database failed', () => tasks.run(job, signal), job)
    await cluster.remove(job)
  }

  /** A tar of the dump, read through a pod that lasts as long as the download. */
  async openTar({ held, claim }: HeldDump): Promise<Duplex> {
    const reading = { script: READ_SCRIPT, env: { SNAPSHOT_ID: held.id }, isReadOnly: true }
    const { output, done, end } = await openDumpPod(this.#options, claim, reading)
    done.catch((error: Error) => output.destroy(error))
    const writable = new Writable({ write: (_, __, done) => done() })
    const both = Duplex.from({ readable: output, writable })
    return both.once('end', () => both.end()).once('close', end)
  }

  /** The file of a dump. */
  openFile({ held, claim }: HeldDump): Promise<DumpPod> {
    return openDumpPod(this.#options, claim, { script: SEND_SCRIPT, env: { SNAPSHOT_ID: held.id }, isReadOnly: true })
  }

  /** Writes the file of a dump into the claim of a deployment. The file goes again with `remove`. */
  async receiveFile(spec: RevisionSpec, held: HeldSnapshot, body: Readable, signal: AbortSignal): Promise<HeldDump> {
    const [claim] = await this.#listClaims(namespaceOf(this.#options.settings, spec), spec.deployment_id)
    if (!claim) throw new PermanentError('This deployment has no database, or no claim for its dumps.')
    const env = { SNAPSHOT_ID: held.id, SIZE: String(held.size_bytes) }
    const pod = await openDumpPod(this.#options, claim, { script: RECEIVE_SCRIPT, env, isReadOnly: false })
    try {
      // The pod has better words for its failure than the pipe that it breaks.
      const sent = pipeline(body, requireBytes(held.size_bytes), pod.input, { signal, end: false })
      await Promise.all([pod.done, sent])
    } finally {
      pod.end()
    }
    return { held, claim }
  }

  /** Copies the file of a dump into the claim of a deployment of another namespace. */
  async carryFile(spec: RevisionSpec, dump: HeldDump, signal: AbortSignal): Promise<HeldDump> {
    const { output, end } = await this.openFile(dump)
    try {
      // It counts the bytes. A sender that fails after all of them would leave the file behind.
      return await this.receiveFile(spec, dump.held, output, signal)
    } finally {
      output.destroy()
      end()
    }
  }

  /** Dumps that are known, after those of the CronJob were noted. `isTaking`: this agent notes it. */
  async list(namespace: string, isTaking: (id: string) => boolean): Promise<HeldDump[]> {
    const claims = await this.#listClaims(namespace)
    const failed = new Map<string, { at: number; text: string }>()
    // One that fails is tried again, and does not hide the others.
    const jobs = (await this.#listJobs(namespace)).toSorted((a, b) => createdAt(a) - createdAt(b))
    for (const job of jobs) {
      const failure = await this.#note(job, claims, isTaking).catch(() => undefined)
      if (failure && failure.at > (failed.get(failure.deployment_id)?.at ?? 0))
        failed.set(failure.deployment_id, failure)
    }
    for (const claim of claims) await this.#prune(claim).catch(() => {})
    for (const claim of claims) this.#noteProblem(claim, failed.get(labelOf(claim, BACKUP_OF_LABEL)!))
    return claims.flatMap(heldIn)
  }

  /** A later dump makes a failure good, also one that a user took. */
  #noteProblem(claim: V1PersistentVolumeClaim, failure: { at: number; text: string } | undefined): void {
    const deployment_id = labelOf(claim, BACKUP_OF_LABEL)!
    const newest = Math.max(0, ...heldIn(claim).map(({ held }) => Date.parse(held.taken_at)))
    const problem =
      failure && failure.at > newest
        ? `The daily backup of its database fails since ${new Date(failure.at).toISOString()}: ${failure.text}`
        : undefined
    if (problem === this.#problems.get(deployment_id)) return
    if (problem === undefined) this.#problems.delete(deployment_id)
    else this.#problems.set(deployment_id, problem)
    this.#options.changed(deployment_id)
  }

  /** For the health of the deployment. */
  problemOf(deployment_id: string): string | null {
    return this.#problems.get(deployment_id) ?? null
  }

  #listClaims(namespace: string, deployment_id?: string): Promise<V1PersistentVolumeClaim[]> {
    const { cluster, settings } = this.#options
    const labels = {
      ...ownerLabels(settings),
      [COMPONENT_LABEL]: DUMPS_COMPONENT,
      ...(deployment_id !== undefined && { [BACKUP_OF_LABEL]: deployment_id }),
    }
    return cluster.list<V1PersistentVolumeClaim>('PersistentVolumeClaim', namespace, { labels })
  }

  #listJobs(namespace: string): Promise<V1Job[]> {
    const { cluster, settings } = this.#options
    const labels = { ...ownerLabels(settings), [COMPONENT_LABEL]: DUMPS_COMPONENT }
    return cluster.list<V1Job>('Job', namespace, { labels }).catch(noneIfForbidden)
  }

  /** Writes a finished dump down on its claim. Its Job is removed, so it is noted once, also if it is deleted later. */
  async #note(job: V1Job, claims: V1PersistentVolumeClaim[], isTaking: (id: string) => boolean) {
    const { cluster, tasks, onFailure } = this.#options
    const made = snapshotOf(job)
    const claim = claims.find(one => labelOf(one, BACKUP_OF_LABEL) === made?.deployment_id)
    if (!made || !claim || isTaking(made.id) || !endOf(job, [])) return
    const end = endOf(job, await tasks.listPods(job))!
    const { removed, size_bytes, text } = readDumpWords(end.message)
    await this.#forget(claim, removed)
    if (!end.isComplete) {
      if (!this.#told.has(job.metadata!.uid!)) onFailure(made.deployment_id, text)
      this.#told.add(job.metadata!.uid!)
      return { deployment_id: made.deployment_id, at: Date.parse(made.taken_at), text }
    }
    const held: HeldSnapshot = { ...made, size_bytes }
    // The pod may be gone before its Job.
    if (!(HELD_PREFIX + made.id in (claim.metadata?.annotations ?? {})))
      await this.#annotate(claim, { [HELD_PREFIX + made.id]: JSON.stringify(held) })
    await cluster.remove(job)
  }

  /** The file goes by a Job that `list` makes. */
  async remove({ held, claim }: HeldDump): Promise<void> {
    await this.#annotate(claim, { [HELD_PREFIX + held.id]: null, [REMOVED_PREFIX + held.id]: '' })
  }

  async #prune(claim: V1PersistentVolumeClaim): Promise<void> {
    const { cluster, settings, tasks } = this.#options
    if (heldIn(claim).length === 0 && !(await this.#hasDatabase(claim))) return cluster.remove(claim)
    const removed = Object.keys(claim.metadata?.annotations ?? {}).filter(name => name.startsWith(REMOVED_PREFIX))
    if (removed.length === 0) return
    const place = placeOf(claim)
    const ids = removed.map(name => name.slice(REMOVED_PREFIX.length))
    const job = taskJobOf(settings, place, `${place.base}-prune`, {
      task: 'prune',
      claim: claim.metadata!.name!,
      script: PRUNE_SCRIPT,
      seconds: PRUNE_SECONDS,
      env: [{ name: 'SNAPSHOT_IDS', value: ids.join(' ') }],
    })
    const existing = await cluster.read<V1Job>('Job', place.namespace, job.metadata!.name!)
    if (existing === null) return void (await cluster.apply(job))
    const end = endOf(existing, await tasks.listPods(existing))
    if (!end) return
    const pruned = existing.spec!.template.spec!.containers[0]!.env?.[0]?.value?.split(' ') ?? []
    if (end.isComplete) await this.#annotate(claim, Object.fromEntries(pruned.map(id => [REMOVED_PREFIX + id, null])))
    await cluster.remove(existing)
  }

  async #hasDatabase(claim: V1PersistentVolumeClaim): Promise<boolean> {
    const deployment_id = labelOf(claim, BACKUP_OF_LABEL)!
    const { objects } = this.#options
    return Boolean(await objects.readStoreSecret(claim.metadata!.namespace!, deployment_id, 'database'))
  }

  /** The deployment is gone. A claim with snapshots stays until they expire. */
  async removeEmptyClaims(namespace: string, deployment_id: string): Promise<void> {
    for (const claim of await this.#listClaims(namespace, deployment_id))
      if (heldIn(claim).length === 0) await this.#options.cluster.remove(claim)
    this.#problems.delete(deployment_id)
  }

  #annotate(claim: V1PersistentVolumeClaim, annotations: Record<string, string | null>): Promise<void> {
    const { metadata } = claim
    const all = Object.entries({ ...metadata!.annotations, ...annotations })
    metadata!.annotations = Object.fromEntries(all.filter((entry): entry is [string, string] => entry[1] !== null))
    return this.#options.cluster.annotate({ ...claim, kind: 'PersistentVolumeClaim' }, annotations)
  }
}

/** Rejects unless so many pass. */
export const requireBytes = (size: number) =>
  async function* (chunks: AsyncIterable<Uint8Array>): AsyncGenerator<Uint8Array> {
    let bytes = 0
    for await (const chunk of chunks) {
      bytes += chunk.length
      if (bytes > size) break
      yield chunk
    }
    if (bytes !== size)
      throw new PermanentError(`There are ${bytes} bytes of a snapshot of ${size} bytes. Use another one.`)
  }

const createdAt = ({ metadata }: V1Job) => new Date(metadata?.creationTimestamp ?? 0).getTime()
const sizeOf = ({ spec }: V1PersistentVolumeClaim) => parseMemory(spec!.resources!.requests!.storage!)

const heldIn = (claim: V1PersistentVolumeClaim): HeldDump[] =>
  Object.entries(claim.metadata?.annotations ?? {})
    .filter(([name]) => name.startsWith(HELD_PREFIX))
    .flatMap(([, value]) => {
      const { data: held } = HeldSnapshot.safeParse(parseJson(value))
      return held ? [{ held, claim }] : []
    })

/** Undefined for a Job that makes none. Those of the CronJob have the id of their Job. */
function snapshotOf(job: V1Job): NewSnapshot | undefined {
  if (labelOf(job, TASK_LABEL) !== DUMP_TASK) return undefined
  const text = job.metadata?.annotations?.[SNAPSHOT_ANNOTATION]
  if (text !== undefined) return parseSnapshot(text)
  const deployment_id = labelOf(job, DEPLOYMENT_LABEL)
  if (deployment_id === undefined) return undefined
  const taken = new Date(job.status?.startTime ?? job.metadata?.creationTimestamp ?? 0)
  return {
    id: job.metadata!.uid!,
    deployment_id,
    store: 'database',
    reason: 'automatic',
    taken_at: taken.toISOString(),
    expires_at: expiryOf('automatic', taken.getTime()),
  }
}
