// Takes and restores snapshots, deletes those that have expired, and tells the control plane which there are.
import { createHash } from 'node:crypto'
import type { Duplex } from 'node:stream'
import {
  type HeldSnapshot,
  type JobAction,
  kindOfStore,
  MAX_HELD,
  type SnapshotReason,
} from '../../protocol/snapshots.schema.ts'
import { type ControlPlaneClient, RequestRefused } from '../control-plane/client.ts'
import {
  type Engine,
  type ForwardTarget,
  PermanentError,
  type RestorePoint,
  type RevisionSpec,
  type SnapshotHolder,
  SnapshotUnsupported,
  type WriteLog,
} from '../engine.ts'
import { describeError } from '../redaction/error-messages.ts'
import type { LogEvent } from '../system/log-event.ts'
import { expiryOf, listExpired } from './retention.ts'

type Options = {
  engine: Engine
  folder: SnapshotHolder
  control: Pick<ControlPlaneClient, 'snapshots'>
  currentLease: () => { agent_id: string; fence: number } | undefined
  logEvent: LogEvent
}
type Taking = { deployment_id: string; store: string; reason: SnapshotReason; id?: string }

const MIN_FREE_BYTES = 512 * 1024 * 1024
const NO_SPACE = 'The machine of the agent has less than 512 MiB left. Free some space.'
const WATCH_MS = 1_000
const TELL_EVERY_MS = 5 * 60_000
const RETRY_MS = 10_000
/** A deletion does not wait longer for a last snapshot that fails. */
const LAST_PATIENCE_MS = 10 * 60_000
const MAX_DOWNLOADS = 4
const FETCH_MS = 3600_000
/** The part of the file system that snapshots of one deployment may take. */
const SHARE = 1 / 2
const UNSUPPORTED = 'The engine of this agent takes no snapshots.'

export class Snapshots {
  readonly #options: Options
  /** One at a time for each deployment. */
  readonly #turns = new Map<string, Promise<unknown>>()
  /** Counts the restores and downloads that read each snapshot. */
  readonly #inUse = new Map<string, number>()
  /** Counts those of each deployment that run. */
  readonly #downloads = new Map<string, number>()
  readonly #removingSince = new Map<string, number>()
  #telling: Promise<void> | undefined
  #tellAt = 0
  /** The lease for which this agent knows what is stored: another one may have worked before. */
  #knownFence: number | undefined
  #moving: Promise<void> | undefined
  #moveAt = 0
  #moveFailure: string | undefined

  constructor(options: Options) {
    this.#options = options
  }

  open(): Promise<void> {
    return this.#options.folder.open()
  }

  find(id: string): HeldSnapshot | undefined {
    return this.#options.folder.read(id)
  }

  #use(id: string): () => void {
    this.#inUse.set(id, (this.#inUse.get(id) ?? 0) + 1)
    return () => {
      const left = this.#inUse.get(id)! - 1
      if (left > 0) this.#inUse.set(id, left)
      else this.#inUse.delete(id)
    }
  }

  openDownload(deployment_id: string, id: string): ForwardTarget {
    if (this.find(id)?.deployment_id !== deployment_id)
      throw new PermanentError('The agent does not have this snapshot any more.')
    return { connect: () => this.#download(deployment_id, id) }
  }

  /** Each is a program of its own. */
  async #download(deployment_id: string, id: string): Promise<Duplex> {
    const open = this.#downloads.get(deployment_id) ?? 0
    if (open >= MAX_DOWNLOADS)
      throw new PermanentError(`Of a deployment, ${MAX_DOWNLOADS} downloads run at a time. Wait until one has ended.`)
    this.#downloads.set(deployment_id, open + 1)
    const release = this.#use(id)
    const end = () => {
      release()
      const left = this.#downloads.get(deployment_id)! - 1
      if (left > 0) this.#downloads.set(deployment_id, left)
      else this.#downloads.delete(deployment_id)
    }
    try {
      const { folder } = this.#options
      let tar: Duplex | undefined
      await this.#whileThereIsSpace(AbortSignal.timeout(FETCH_MS), async until => {
        tar = await folder.openTar(id, until)
      })
      return tar!.once('close', end)
    } catch (error) {
      end()
      throw error
    }
  }

  /** With an id that exists it has been taken before. */
  take({ deployment_id, store, reason, id = crypto.randomUUID() }: Taking, signal: AbortSignal): Promise<HeldSnapshot> {
    const { engine, folder } = this.#options
    return this.#inTurn(deployment_id, async () => {
      const known = folder.read(id)
      if (known) return known
      if (!engine.takeSnapshot) throw new SnapshotUnsupported(UNSUPPORTED)
      if (folder.freeBytes() < MIN_FREE_BYTES) throw new PermanentError(NO_SPACE)
      const now = Date.now()
      const snapshot = { id, deployment_id, store, reason, taken_at: new Date(now).toISOString() }
      const expires_at = expiryOf(reason, now)
      const taken = await folder.add({ ...snapshot, expires_at }, data =>
        this.#whileThereIsSpace(signal, until => engine.takeSnapshot!(deployment_id, store, data, until)),
      )
      // A store that does not answer does not hold it up: it is repeated.
      await this.#deleteExpired().catch(() => {})
      this.#markChanged()
      return taken
    })
  }

  /** Neither a snapshot nor what is unpacked of one must fill the disk that applications write to. */
  async #whileThereIsSpace(signal: AbortSignal, work: (until: AbortSignal) => Promise<void>): Promise<void> {
    const full = new AbortController()
    const watching = setInterval(() => {
      if (this.#options.folder.freeBytes() < MIN_FREE_BYTES) full.abort()
    }, WATCH_MS)
    try {
      await work(AbortSignal.any([signal, full.signal]))
    } catch (error) {
      throw full.signal.aborted ? new PermanentError(NO_SPACE) : error
    } finally {
      clearInterval(watching)
    }
  }

  /** Takes one of each store that has data and can be copied. */
  async takeAll(
    deployment_id: string,
    reason: SnapshotReason,
    signal: AbortSignal,
    log: WriteLog,
    except?: string,
  ): Promise<void> {
    for (const store of await this.storesOf(deployment_id))
      try {
        if (store === except) continue
        const { size_bytes } = await this.take({ deployment_id, store, reason }, signal)
        log(`Snapshot of ${store}: ${Math.ceil(size_bytes / 1024)} KiB`)
      } catch (error) {
        if (!(error instanceof SnapshotUnsupported)) throw error
      }
  }

  /** The action of a job. Repeated after a restart of the agent, it continues. */
  async perform(
    {
      id,
      deployment_id,
      action,
      reason,
    }: { id: string; deployment_id: string; action: JobAction; reason: SnapshotReason },
    findSpec: (deployment_id: string) => RevisionSpec | null,
    log: WriteLog,
    signal: AbortSignal,
  ): Promise<void> {
    const { store } = action
    if (action.type === 'snapshot') {
      const { size_bytes } = await this.take({ id, deployment_id, store, reason }, signal)
      // A user who waits for the job finds its snapshot.
      await this.tell().catch(() => {})
      return log(`Snapshot ${id} of ${store}: ${size_bytes} bytes.`)
    }
    const spec = findSpec(deployment_id)
    if (!spec) throw new PermanentError('The deployment has no revision on this agent.')
    const from =
      'snapshot_id' in action
        ? { snapshot_id: action.snapshot_id }
        : { deployment_id: action.from_deployment_id, at: new Date(action.at) }
    await this.restore(spec, store, from, signal, async () => {
      if (!(await this.storesOf(deployment_id)).includes(store)) return
      const before = idAfter(id)
      await this.take({ id: before, deployment_id, store, reason: 'before_restore' }, signal)
      log(`The data before are kept as snapshot ${before}.`)
    })
    log(`Restored ${store}.`)
  }

  /** Replaces the data of a store, after `prepare`. */
  async restore(
    spec: RevisionSpec,
    store: string,
    from: { snapshot_id: string } | Extract<RestorePoint, { at: Date }>,
    signal: AbortSignal,
    prepare: () => Promise<void> = async () => {},
  ): Promise<void> {
    const { engine, folder } = this.#options
    if (!engine.restoreSnapshot) throw new SnapshotUnsupported(UNSUPPORTED)
    if ('snapshot_id' in from) this.#requireSnapshot(from.snapshot_id, store)
    const release = 'snapshot_id' in from ? this.#use(from.snapshot_id) : () => {}
    const replace = async (until: AbortSignal) => {
      const point = 'snapshot_id' in from ? { folder: await folder.fetch(from.snapshot_id, until) } : from
      await engine.restoreSnapshot!(spec, store, point, until)
    }
    try {
      await prepare()
      await this.#inTurn(spec.deployment_id, () => this.#whileThereIsSpace(signal, replace))
    } finally {
      release()
    }
  }

  /** Throws while it is not known which there are. */
  listHeld(deployment_id: string, store: string): HeldSnapshot[] {
    return this.#options.folder.list().filter(one => one.deployment_id === deployment_id && one.store === store)
  }

  /** Rejects unless the machine has room for so many bytes, and some more. */
  requireSpace(bytes: number, what: string): void {
    const free = this.#options.folder.freeBytes()
    if (free - bytes >= MIN_FREE_BYTES) return
    const mib = (amount: number) => Math.ceil(amount / 1024 / 1024)
    throw new PermanentError(
      `${what} takes up to ${mib(bytes)} MiB, and the machine of the agent has ${mib(free)} MiB left, of which 512 ` +
        'stay free. Free some space.',
    )
  }

  #requireSnapshot(snapshot_id: string, store: string): void {
    const snapshot = this.find(snapshot_id)
    if (!snapshot) throw new PermanentError('The agent does not have this snapshot any more.')
    if (kindOfStore(snapshot.store) !== kindOfStore(store))
      throw new PermanentError(`A snapshot of ${snapshot.store} cannot be restored into ${store}.`)
  }

  /** Before the data of a store, or of the whole deployment, are removed. Throws to have it repeated. */
  async keepLast(deployment_id: string, { only, except }: { only?: string; except?: string } = {}): Promise<void> {
    const { logEvent, folder } = this.#options
    const all = await this.storesOf(deployment_id)
    const stores = all.filter(store => (only === undefined || store === only) && store !== except)
    if (stores.length === 0) return
    const key = `${deployment_id} ${only ?? ''}`
    const since = this.#removingSince.get(key) ?? Date.now()
    this.#removingSince.set(key, since)
    for (const store of stores) {
      const isKept = (held: HeldSnapshot) =>
        held.deployment_id === deployment_id &&
        held.store === store &&
        held.reason === 'last' &&
        Date.parse(held.taken_at) >= since
      if (folder.list().some(isKept)) continue
      try {
        await this.take({ deployment_id, store, reason: 'last' }, AbortSignal.timeout(3600_000))
      } catch (error) {
        const isHopeless = error instanceof PermanentError || Date.now() - since > LAST_PATIENCE_MS
        logEvent('last snapshot failed', { deployment: deployment_id, store, error: describeError(error as Error) })
        if (!isHopeless) throw error
      }
    }
    // Once the deployment is gone, the control plane cannot place it any more.
    await this.tell()
    this.#removingSince.delete(key)
  }

  async storesOf(deployment_id: string): Promise<string[]> {
    return (await this.#options.engine.listStores?.(deployment_id)) ?? []
  }

  async remove(ids: string[]): Promise<void> {
    for (const id of ids) if (!this.#inUse.has(id)) await this.#options.folder.remove(id)
    if (ids.length > 0) this.#markChanged()
  }

  async #deleteExpired(): Promise<void> {
    const { engine, folder } = this.#options
    const living = new Set(await engine.deployments())
    const expired = listExpired(folder.list(), Date.now(), id => living.has(id), folder.totalBytes() * SHARE)
    await this.remove(expired.map(({ id }) => id))
  }

  #inTurn<Result>(deployment_id: string, work: () => Promise<Result>): Promise<Result> {
    const before = this.#turns.get(deployment_id) ?? Promise.resolve()
    const turn = before.catch(() => {}).then(work)
    this.#turns.set(deployment_id, turn)
    const done = () => this.#turns.get(deployment_id) === turn && this.#turns.delete(deployment_id)
    turn.then(done, done)
    return turn
  }

  // ---- told

  #markChanged(): void {
    this.#tellAt = 0
    this.#moveAt = 0
  }

  /** A store that fails holds up nothing: the files stay here until it takes them. */
  #moveToStore(): void {
    if (this.#moving || performance.now() < this.#moveAt) return
    this.#moveAt = performance.now() + RETRY_MS
    const { folder, logEvent } = this.#options
    this.#moving = folder
      .moveToStore?.(id => this.#inUse.has(id))
      .then(
        () => {
          this.#moveFailure = undefined
        },
        error => {
          const reason = describeError(error)
          if (reason !== this.#moveFailure) logEvent('snapshots not stored', { error: reason })
          this.#moveFailure = reason
        },
      )
      .finally(() => {
        this.#moving = undefined
      })
  }

  /** Called again and again. Sends what has changed, and all of it once in a while. */
  async flush(): Promise<void> {
    const now = performance.now()
    const { engine, currentLease } = this.#options
    if (engine.takeSnapshot && currentLease()) this.#moveToStore()
    if (!engine.takeSnapshot || this.#telling || now < this.#tellAt || !currentLease()) return
    this.#tellAt = now + TELL_EVERY_MS
    // A store that does not answer must not keep new ones unknown.
    const deleting = this.#deleteExpired().catch(() => {})
    const work = deleting.then(() => this.tell())
    await work.catch(() => {
      this.#tellAt = performance.now() + RETRY_MS
    })
  }

  /** Resolves once the control plane knows all snapshots. */
  async tell(): Promise<void> {
    while (this.#telling) await this.#telling.catch(() => {})
    this.#telling = this.#tellAll()
    await this.#telling.finally(() => {
      this.#telling = undefined
    })
  }

  async #tellAll(): Promise<void> {
    const { control, currentLease, folder } = this.#options
    const fence = currentLease()?.fence
    // The control plane forgets what it is not told of.
    if (fence !== this.#knownFence) await folder.learn?.()
    this.#knownFence = fence
    for (let isDone = false; !isDone; ) {
      const all = folder.list().sort((a, b) => (a.id < b.id ? -1 : 1))
      isDone = true
      for (let at = 0; at === 0 || at < all.length; at += MAX_HELD) {
        const lease = currentLease()
        if (!lease) throw new Error('The lease was lost.')
        const page = all.slice(at, at + MAX_HELD)
        const after = at === 0 ? null : all[at - 1]!.id
        const until = at + MAX_HELD >= all.length ? null : page.at(-1)!.id
        const { forget } = await control.snapshots({ ...lease, held: page, after, until }).catch(ignoreUnknownPath)
        const removed = forget.filter(id => !this.#inUse.has(id) && folder.read(id))
        await this.remove(removed)
        // The next pages say that they are gone.
        isDone &&= removed.length === 0
      }
    }
  }
}

/** A control plane of an earlier release does not know of snapshots. */
function ignoreUnknownPath(error: unknown): { forget: string[] } {
  if (error instanceof RequestRefused && error.status === 404) return { forget: [] }
  throw error
}

/** The same for the same id: a repeated restore finds the snapshot that it took first. */
function idAfter(id: string): string {
  const hex = createHash('sha256').update(`before ${id}`).digest('hex')
  return [hex.slice(0, 8), hex.slice(8, 12), `4${hex.slice(13, 16)}`, `8${hex.slice(17, 20)}`, hex.slice(20, 32)].join(
    '-',
  )
}
