// Snapshots of disks: VolumeSnapshots of the cluster, and claims that are made anew of them.
import { setTimeout as delay } from 'node:timers/promises'
import type { KubernetesObject, V1PersistentVolumeClaim, V1Pod } from '@kubernetes/client-node'
import type { HeldSnapshot } from '../../../protocol/snapshots.schema.ts'
import { PermanentError, type RevisionSpec, TransientError } from '../../engine.ts'
import { parseMemory } from '../quantities.ts'
import { API_VERSIONS, type Cluster } from './cluster.ts'
import type { DeploymentObjects } from './deployment-objects.ts'
import { diskClaimsOf, diskOf } from './disk-objects.ts'
import { placeOf } from './dump-objects.ts'
import {
  BACKUP_OF_LABEL,
  DEPLOYMENT_LABEL,
  ownerLabels,
  RESTORES_ANNOTATION,
  RUN_LABEL,
  SNAPSHOT_ANNOTATION,
} from './names.ts'
import { isTerminating, labelOf } from './observed-status.ts'
import type { KubernetesSettings } from './settings.ts'
import { type NewSnapshot, parseSnapshot } from './snapshot-annotations.ts'

type VolumeSnapshot = KubernetesObject & {
  spec?: { volumeSnapshotClassName?: string; source?: { persistentVolumeClaimName?: string } }
  status?: { readyToUse?: boolean; restoreSize?: string; error?: { message?: string } }
}
type SnapshotClass = KubernetesObject
export type HeldVolume = { held: HeldSnapshot; volume: VolumeSnapshot }
/** `class_name`: null for the default of the driver. */
type Support = { class_name: string | null } | { missing: string }

type Options = { cluster: Cluster; settings: KubernetesSettings; objects: DeploymentObjects; pause_ms: number }

const GROUP = { group: 'snapshot.storage.k8s.io', version: 'v1' }
const IS_DEFAULT = 'snapshot.storage.kubernetes.io/is-default-class'
const DISCOVERY_MS = 10_000
const BOUND_MS = 5 * 60_000
/** One that is not ready after this time was left by an agent. */
const UNREADY_MS = 24 * 3600_000

/** A cluster that does not answer in time has nothing of it. */
export const withinDiscovery = (reasonIfMissing: Promise<string | null>): Promise<string | null> =>
  Promise.race([
    reasonIfMissing.catch((error: Error) => error.message),
    delay(DISCOVERY_MS, 'the cluster does not answer', { ref: false }),
  ])

export class DiskSnapshots {
  readonly #options: Options
  #support: Support | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** Asks the cluster once. Throws if it does not answer. */
  async discover(): Promise<Support> {
    this.#support ??= await this.#findSupport()
    return this.#support
  }

  /** Null: there are snapshots. */
  async reasonIfMissing(): Promise<string | null> {
    return withinDiscovery(this.discover().then(support => ('missing' in support ? support.missing : null)))
  }

  async #findSupport(): Promise<Support> {
    const { cluster, settings } = this.#options
    if (!(await cluster.hasKind('VolumeSnapshot'))) return { missing: 'the cluster has no VolumeSnapshots' }
    const listed = cluster.list('VolumeSnapshot', settings.namespaces[0]!, { labels: ownerLabels(settings) })
    if (!(await listed.then(() => true, falseIfForbidden))) return { missing: 'the agent may not list VolumeSnapshots' }
    if (settings.snapshot_class !== null) return { class_name: settings.snapshot_class }
    const classes = await cluster.listClusterWide<SnapshotClass>({ ...GROUP, plural: 'volumesnapshotclasses' })
    if (classes === null)
      return { missing: 'the agent may not list classes of snapshots, and K8S_SNAPSHOT_CLASS is not set' }
    if (classes.some(({ metadata }) => metadata?.annotations?.[IS_DEFAULT] === 'true')) return { class_name: null }
    if (classes.length === 1) return { class_name: classes[0]!.metadata!.name! }
    return { missing: `the cluster has ${classes.length} classes of snapshots and no default: set K8S_SNAPSHOT_CLASS` }
  }

  async #require(): Promise<{ class_name: string | null }> {
    const support = await this.discover()
    if ('missing' in support) throw new PermanentError(`Disks have no snapshots here: ${support.missing}.`)
    return support
  }

  async take(snapshot: NewSnapshot, disk: string, signal: AbortSignal): Promise<void> {
    const { cluster, objects, pause_ms } = this.#options
    const { class_name } = await this.#require()
    const { deployment_id, id } = snapshot
    const namespace = await objects.findNamespace(deployment_id)
    const claim = namespace && (await this.#findClaim(namespace, deployment_id, disk))
    if (!claim) throw new PermanentError(`This deployment has no disk ${disk} that the agent has made.`)
    const place = placeOf(claim)
    const { [DEPLOYMENT_LABEL]: _, ...labels } = place.labels
    const volume: VolumeSnapshot = {
      apiVersion: API_VERSIONS.VolumeSnapshot,
      kind: 'VolumeSnapshot',
      metadata: {
        name: `${place.base}-snapshot-${id.replaceAll('-', '').slice(-12)}`,
        namespace: place.namespace,
        labels: { ...labels, [BACKUP_OF_LABEL]: deployment_id },
        annotations: { [SNAPSHOT_ANNOTATION]: JSON.stringify(snapshot) },
      },
      spec: {
        ...(class_name !== null && { volumeSnapshotClassName: class_name }),
        source: { persistentVolumeClaimName: claim.metadata!.name! },
      },
    }
    const drop = () => cluster.remove(volume)
    await cluster.apply(volume, () => null)
    for (;;) {
      const found = await cluster.read<VolumeSnapshot>('VolumeSnapshot', place.namespace, volume.metadata!.name!)
      if (found?.status?.readyToUse) return
      if (found === null) throw new TransientError('The VolumeSnapshot was removed from outside.')
      if (signal.aborted) await drop()
      signal.throwIfAborted()
      const fault = found.status?.error?.message
      if (fault !== undefined) {
        await drop()
        throw new PermanentError(`The cluster could not take the snapshot: ${fault}`)
      }
      await delay(pause_ms, undefined, { signal }).catch(() => {})
    }
  }

  async list(namespace: string): Promise<HeldVolume[]> {
    const { cluster, settings } = this.#options
    if ('missing' in (await this.discover())) return []
    const volumes = await cluster.list<VolumeSnapshot>('VolumeSnapshot', namespace, { labels: ownerLabels(settings) })
    const ready = volumes.filter(({ status }) => status?.readyToUse)
    for (const volume of volumes)
      if (!ready.includes(volume) && ageOf(volume) > UNREADY_MS) await cluster.remove(volume)
    return ready.flatMap(volume => {
      const made = parseSnapshot(volume.metadata?.annotations?.[SNAPSHOT_ANNOTATION] ?? '')
      if (made === undefined || isTerminating(volume)) return []
      return [{ held: { ...made, size_bytes: parseMemory(volume.status?.restoreSize ?? '0') }, volume }]
    })
  }

  async remove({ volume }: HeldVolume): Promise<void> {
    await this.#options.cluster.remove(volume)
  }

  /** A claim that does not exist, while one is made anew of a snapshot: by this agent, or by one that was killed. */
  async withRestoredData(claim: V1PersistentVolumeClaim): Promise<V1PersistentVolumeClaim> {
    const { cluster } = this.#options
    const { namespace, name } = claim.metadata!
    if ('missing' in (await this.discover())) return claim
    if (await cluster.read('PersistentVolumeClaim', namespace!, name!)) return claim
    const { settings } = this.#options
    const volumes = await cluster.list<VolumeSnapshot>('VolumeSnapshot', namespace!, { labels: ownerLabels(settings) })
    const source = volumes.find(({ metadata }) => metadata?.annotations?.[RESTORES_ANNOTATION] === name)
    return source ? withSource(claim, source) : claim
  }

  /**
   * Deletes the claim and makes it anew. A claim that is deleted stays while there are pods with it, also ended ones,
   * and no pod is scheduled with it, so its pods are removed, and new ones wait for it. From the first step on, each
   * agent that makes the claim makes it of the snapshot.
   */
  async restore(spec: RevisionSpec, disk: string, { volume }: HeldVolume, signal: AbortSignal): Promise<void> {
    const { cluster, settings } = this.#options
    await this.#require()
    const claim = diskClaimsOf(settings, spec).find(one => diskOf(one) === disk)
    if (!claim) throw new PermanentError(`This deployment has no disk ${disk} that the agent makes.`)
    const { namespace, name } = claim.metadata!
    if (volume.metadata!.namespace !== namespace)
      throw new PermanentError(`This snapshot is in the namespace ${volume.metadata!.namespace}. Deploy to it.`)
    const listPods = () => this.#listUsers(spec.deployment_id, namespace!, name!)
    if ((await listPods()).some(pod => labelOf(pod, RUN_LABEL) !== undefined && !hasEnded(pod)))
      throw new PermanentError('A command that runs once uses the disk. Restore it once that has ended.')
    await cluster.annotate(volume, { [RESTORES_ANNOTATION]: name! })
    const before = await cluster.read<V1PersistentVolumeClaim>('PersistentVolumeClaim', namespace!, name!)
    const users = await listPods()
    // Without the permission it ends here, before anything is lost.
    for (const pod of users) await cluster.remove({ ...pod, kind: 'Pod' })
    if (before) await cluster.remove(before)
    await this.#until('its old claim is gone', signal, async () => {
      const left = await cluster.read('PersistentVolumeClaim', namespace!, name!)
      if (left === null || left.metadata?.uid !== before?.metadata?.uid) return true
      for (const pod of await listPods()) if (!isTerminating(pod)) await cluster.remove({ ...pod, kind: 'Pod' })
      return false
    })
    await cluster.apply(withSource(claim, volume), () => null)
    if (users.some(pod => !hasEnded(pod)))
      await this.#until('its new claim is bound', signal, async () => {
        const now = await cluster.read<V1PersistentVolumeClaim>('PersistentVolumeClaim', namespace!, name!)
        return now?.status?.phase === 'Bound'
      })
    await cluster.annotate(volume, { [RESTORES_ANNOTATION]: null })
  }

  /** Pods with a claim, also those that have ended. */
  async #listUsers(deployment_id: string, namespace: string, claim: string): Promise<V1Pod[]> {
    const { cluster, settings } = this.#options
    const pods = await cluster.list<V1Pod>('Pod', namespace, { labels: ownerLabels(settings, deployment_id) })
    return pods.filter(({ spec }) =>
      spec?.volumes?.some(({ persistentVolumeClaim }) => persistentVolumeClaim?.claimName === claim),
    )
  }

  async #until(what: string, signal: AbortSignal, isDone: () => Promise<boolean>): Promise<void> {
    const deadline = Date.now() + BOUND_MS
    while (!(await isDone())) {
      signal.throwIfAborted()
      if (Date.now() > deadline)
        throw new PermanentError(`The disk is not restored yet: the agent waited until ${what}. Look at the cluster.`)
      await delay(this.#options.pause_ms, undefined, { signal }).catch(() => {})
    }
  }

  /** A disk that was cleared begins empty. */
  async forgetRestores(namespace: string, deployment_id: string, disk: string): Promise<void> {
    const claim = await this.#findClaim(namespace, deployment_id, disk)
    for (const { volume } of claim ? await this.list(namespace) : [])
      if (volume.metadata?.annotations?.[RESTORES_ANNOTATION] === claim!.metadata!.name)
        await this.#options.cluster.annotate(volume, { [RESTORES_ANNOTATION]: null })
  }

  async #findClaim(namespace: string, deployment_id: string, disk: string) {
    const claims = await this.#options.objects.listClaims(namespace, deployment_id)
    return claims.find(claim => diskOf(claim) === disk)
  }
}

function falseIfForbidden(error: unknown): false {
  if (error instanceof PermanentError) return false
  throw error
}

const ageOf = ({ metadata }: VolumeSnapshot) => Date.now() - new Date(metadata?.creationTimestamp ?? 0).getTime()

function withSource(claim: V1PersistentVolumeClaim, { metadata, status }: VolumeSnapshot): V1PersistentVolumeClaim {
  const wanted = claim.spec!.resources!.requests!.storage!
  const restored = status?.restoreSize ?? '0'
  const storage = parseMemory(restored) > parseMemory(wanted) ? restored : wanted
  const dataSource = { apiGroup: GROUP.group, kind: 'VolumeSnapshot', name: metadata!.name! }
  return { ...claim, spec: { ...claim.spec, dataSource, resources: { requests: { storage } } } }
}

const hasEnded = ({ status }: V1Pod): boolean => status?.phase === 'Succeeded' || status?.phase === 'Failed'
