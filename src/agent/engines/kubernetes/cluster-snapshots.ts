// The snapshots that the cluster keeps: dumps of databases in claims, with copies in a bucket, and VolumeSnapshots of
// disks. What is known of them is read once a minute, and after each change of this agent.
import type { Duplex } from 'node:stream'
import type { KubernetesObject } from '@kubernetes/client-node'
import { diskOfStore, type HeldSnapshot } from '../../../protocol/snapshots.schema.ts'
import {
  PermanentError,
  type RestorePoint,
  type RevisionSpec,
  type SnapshotHolder,
  SnapshotUnsupported,
  TransientError,
} from '../../engine.ts'
import type { DatabaseDumps, HeldDump } from './database-dumps.ts'
import type { DeploymentObjects } from './deployment-objects.ts'
import { diskOf } from './disk-objects.ts'
import type { DiskSnapshots, HeldVolume } from './disk-snapshots.ts'
import type { DumpCopies, HeldCopy } from './dump-copies.ts'
import { COMPONENT_LABEL, namespaceOf } from './names.ts'
import { labelOf } from './observed-status.ts'
import type { KubernetesSettings } from './settings.ts'
import type { NewSnapshot } from './snapshot-annotations.ts'

type Found = HeldDump | HeldVolume | HeldCopy
type Options = {
  settings: Pick<KubernetesSettings, 'namespaces' | 'database_backups'>
  objects: DeploymentObjects
  dumps: DatabaseDumps
  disks: DiskSnapshots
  /** Undefined: dumps are in claims only. */
  copies: DumpCopies | undefined
  refresh_ms: number
}

export class ClusterSnapshots implements SnapshotHolder {
  readonly #options: Options
  /** Null until the cluster has answered. */
  #found: Map<string, Found> | null = null
  /** Snapshots that are being taken. */
  readonly #taking = new Map<string, NewSnapshot>()
  #reading: Promise<void> = Promise.resolve()
  /** The read after the present one. */
  #nextRead: Promise<void> | undefined
  #timer: NodeJS.Timeout | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** Does not wait for the cluster. */
  async open(): Promise<void> {
    const refresh = () => void this.refresh().catch(() => {})
    this.#timer = setInterval(refresh, this.#options.refresh_ms).unref()
    refresh()
  }

  close(): void {
    clearInterval(this.#timer)
  }

  /** One read at a time, and one that waits for all who ask meanwhile: a slow cluster must not gather a queue. */
  refresh(): Promise<void> {
    this.#nextRead ??= this.#reading
      .catch(() => {})
      .then(() => {
        this.#nextRead = undefined
        this.#reading = this.#read()
        return this.#reading
      })
    return this.#nextRead
  }

  async #read(): Promise<void> {
    const { settings, dumps, disks, copies } = this.#options
    const inClaims: HeldDump[] = []
    const volumes: HeldVolume[] = []
    for (const namespace of settings.namespaces) {
      inClaims.push(...(await dumps.list(namespace, id => this.#taking.has(id))))
      volumes.push(...(await disks.list(namespace)))
    }
    const all: Found[] = [...((await copies?.list()) ?? []), ...inClaims, ...volumes]
    this.#found = new Map(all.map(one => [one.held.id, one]))
    copies?.carry(inClaims)
  }

  /** Throws while nothing is known: an empty list would have the control plane forget all of them. */
  get #known(): Map<string, Found> {
    if (this.#found) return this.#found
    // The bucket can be read once the control plane has answered.
    if (this.#options.copies) void this.refresh().catch(() => {})
    throw new TransientError('The cluster has not told its snapshots yet.')
  }

  list(): HeldSnapshot[] {
    return [...this.#known.values()].map(({ held }) => held)
  }

  read(id: string): HeldSnapshot | undefined {
    return this.#known.get(id)?.held
  }

  /** The data stay in the cluster: `restore` finds them by the id. */
  async fetch(id: string): Promise<string> {
    return id
  }

  async openTar(id: string, signal: AbortSignal): Promise<Duplex> {
    const found = this.#known.get(id)
    if (!found) throw new PermanentError('The cluster does not have this snapshot any more.')
    if ('volume' in found)
      throw new PermanentError('Snapshots of disks on Kubernetes stay in the cluster. Restore it into a disk instead.')
    return 'copy' in found ? this.#options.copies!.openTar(found, signal) : this.#options.dumps.openTar(found)
  }

  /** Claims and VolumeSnapshots take no space of the agent. */
  freeBytes(): number {
    return Number.POSITIVE_INFINITY
  }

  totalBytes(): number {
    return Number.POSITIVE_INFINITY
  }

  async add(snapshot: NewSnapshot, write: (id: string) => Promise<void>): Promise<HeldSnapshot> {
    const { id } = snapshot
    this.#taking.set(id, snapshot)
    await write(id).finally(() => this.#taking.delete(id))
    await this.refresh()
    const held = this.read(id)
    if (!held) throw new TransientError('The cluster does not have the snapshot that it has just taken.')
    return held
  }

  async remove(id: string): Promise<void> {
    const found = this.#known.get(id)
    if (!found) return
    const { disks, dumps, copies } = this.#options
    if ('volume' in found) await disks.remove(found)
    else await copies?.remove(id)
    if ('claim' in found) await dumps.remove(found)
    this.#known.delete(id)
  }

  // ---- the engine's part

  async listStores(namespace: string, deployment_id: string): Promise<string[]> {
    const { objects, settings, disks } = this.#options
    const hasDisks = !('missing' in (await disks.discover()))
    const claims = await objects.listClaims(namespace, deployment_id)
    return claims.flatMap(claim => {
      const disk = diskOf(claim)
      if (disk !== null) return hasDisks ? [`disk:${disk}`] : []
      return isDatabase(claim) && settings.database_backups ? ['database'] : []
    })
  }

  /** `id`: that of a snapshot which `add` begins. */
  async take(store: string, id: string, signal: AbortSignal): Promise<void> {
    const { dumps, disks, settings } = this.#options
    const snapshot = this.#taking.get(id)!
    const disk = diskOfStore(store)
    if (disk !== null) return disks.take(snapshot, disk, signal)
    if (store === 'database' && settings.database_backups) return dumps.take(snapshot, signal)
    throw new SnapshotUnsupported(`The Kubernetes engine of this agent takes no snapshots of a ${store}.`)
  }

  async restore(spec: RevisionSpec, store: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    const { dumps, disks, copies, settings } = this.#options
    if (!('folder' in from))
      throw new SnapshotUnsupported('On Kubernetes a database has no points in time: restore one of its snapshots.')
    const found = this.#known.get(from.folder)
    if (!found) throw new PermanentError('The cluster does not have this snapshot any more.')
    const disk = diskOfStore(store)
    if (disk === null && 'copy' in found)
      return this.#restoreCarried(spec, await copies!.bring(spec, found, signal), signal)
    if (disk === null && 'claim' in found) {
      if (found.claim.metadata!.namespace === namespaceOf(settings, spec)) return dumps.restore(spec, found, signal)
      return this.#restoreCarried(spec, await dumps.carryFile(spec, found, signal), signal)
    }
    if (disk !== null && 'volume' in found) return disks.restore(spec, disk, found, signal)
    throw new PermanentError(`A snapshot of ${found.held.store} cannot be restored into ${store}.`)
  }

  /** The file was carried into the claim for this alone. */
  async #restoreCarried(spec: RevisionSpec, dump: HeldDump, signal: AbortSignal): Promise<void> {
    const { dumps } = this.#options
    try {
      await dumps.restore(spec, dump, signal)
    } finally {
      await dumps.remove(dump).catch(() => {})
    }
  }
}

const isDatabase = (claim: KubernetesObject) => labelOf(claim, COMPONENT_LABEL) === 'database'
