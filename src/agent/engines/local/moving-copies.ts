// The copies of this machine that move by themselves: those of `web` and of other processes by their load, into sleep
// and out of it, and those of a revision beside the routed one by its share.
import type { Artifact, LogLevel, RevisionRef, RevisionSpec } from '../../engine.ts'
import { sleepPathOf } from '../graph-variables.ts'
import { WEB } from '../process-types.ts'
import { type DeploymentRecords, splitOf } from './deployment-records.ts'
import type { Limits } from './limits.ts'
import type { Moving, Room } from './load-window.ts'
import { type MovingProcess, ProcessScaler } from './process-scaler.ts'
import type { ReplicaPool } from './replica-pool.ts'
import type { RestRecords } from './rest-records.ts'
import type { RevisionPools } from './revision-pools.ts'
import type { RouterClient } from './router-client.ts'
import { AS_IT_IS, AWAKE, type Scaled, Scaler, type Scaling } from './scaler.ts'
import { scalingOf } from './scaling-of.ts'
import { copiesOfShare } from './split.ts'

type Host = {
  limits: Limits
  router: RouterClient
  records: DeploymentRecords
  rests: RestRecords
  pools: ReadonlyMap<string, ReadonlyMap<string, RevisionPools>>
  applyRoutes(): Promise<void>
  log(ref: RevisionRef, type: string, message: string, level?: LogLevel): void
}

export class MovingCopies {
  readonly #host: Host
  readonly scaler: Scaler
  readonly #processes: ProcessScaler
  /** The ways in which the copies of revisions move, by their ids. */
  readonly #scalings = new Map<string, Scaling>()
  /** The ways of the processes beside `web`, by their types. */
  readonly #moving = new Map<string, Map<string, Moving>>()
  /** The deployments whose traffic is split. */
  readonly #splits = new Set<string>()
  /** The copies that revisions with a share were last told to have. */
  readonly #besideCopies = new WeakMap<ReplicaPool, number>()

  constructor(host: Host) {
    this.#host = host
    const { limits, router, rests, pools, applyRoutes, log } = host
    this.scaler = new Scaler({
      limits,
      router,
      list: () => [...pools.keys()].flatMap(id => this.findScaled(id) ?? []),
      find: id => this.findScaled(id),
      applyRoutes,
      readRest: ref => rests.read(ref),
      recordRest: (ref, rest) => rests.write(ref, rest),
      log: (ref, message, level) => log(ref, WEB, message, level),
    })
    this.#processes = new ProcessScaler({
      limits,
      list: () => [...pools.keys()].filter(id => this.#listProcesses(id).length > 0),
      find: id => this.#listProcesses(id),
      whileStill: (id, work) => this.scaler.whileStill(id, work),
      log: ({ ref, type }, message, level) => log(ref, type, message, level),
    })
  }

  tick(): void {
    for (const id of this.#splits) this.#scaleBeside(id)
    // In turn: a deployment that is being looked at is left out.
    const looked = this.scaler.tick().catch(() => {})
    void looked.then(() => this.#processes.tick()).catch(() => {})
  }

  /** Called before the copies of the revision start. */
  scalingOf({ revision_id, resources }: RevisionSpec, artifact: Artifact): Scaling | null {
    const hasWeb = !artifact.isWithoutWeb && !artifact.site
    const scaling = hasWeb ? scalingOf(resources, this.#host.limits.copies, sleepPathOf(artifact)) : null
    if (scaling) this.#scalings.set(revision_id, scaling)
    else this.#scalings.delete(revision_id)
    return scaling
  }

  moveOthers({ revision_id }: RevisionRef, moving: Map<string, Moving>): void {
    this.#moving.set(revision_id, moving)
  }

  forget(revision_id: string): void {
    this.#scalings.delete(revision_id)
    this.#moving.delete(revision_id)
  }

  split(deployment_id: string, isSplit: boolean): void {
    if (isSplit) this.#splits.add(deployment_id)
    else this.#splits.delete(deployment_id)
    this.#scaleBeside(deployment_id)
  }

  /** The revision beside the routed one has its share of the copies. */
  #scaleBeside(deployment_id: string): void {
    const saved = this.#host.records.read(deployment_id)
    const split = saved && splitOf(saved)
    const pools = this.#host.pools.get(deployment_id)
    const [routed, beside] = [saved?.routed, split?.revision_id].map(id => (id ? pools?.get(id)?.web : undefined))
    if (!routed || !beside?.isElastic) return
    const copies = copiesOfShare(routed.copies.wanted, split!.share)
    if (this.#besideCopies.get(beside) === copies) return
    this.#besideCopies.set(beside, copies)
    beside.scale(copies)
  }

  /** Undefined while a revision that is not routed is all that runs, or if its copies do not move. */
  findScaled(deployment_id: string): Scaled | undefined {
    const { saved, ref, pools } = this.#routed(deployment_id)
    const pool = pools?.web
    const asleep = pool?.rest && (pool.isStarted ? AWAKE : AS_IT_IS)
    const own = this.#scalings.get(ref?.revision_id ?? '') ?? asleep
    if (!ref || !pool || !own) return undefined
    // Half of a split would sleep while the other one answers.
    const scaling = saved && splitOf(saved) ? { ...own, sleep: null } : own
    const others = pools.othersThatSleep(scaling.sleep?.path != null)
    return { ref, pool, room: this.#roomOf(pools, pool), others, scaling }
  }

  #listProcesses(deployment_id: string): MovingProcess[] {
    const { ref, pools } = this.#routed(deployment_id)
    const moving = ref && this.#moving.get(ref.revision_id)
    if (!moving || moving.size === 0) return []
    const web = pools!.targets()
    return pools!.entries.flatMap(([type, pool]) => {
      const way = moving.get(type)
      return way ? [{ ...way, ref, type, pool, room: this.#roomOf(pools!, pool), web }] : []
    })
  }

  /** The processes of a revision together take no more than what the machine allows. */
  #roomOf(pools: RevisionPools, pool: ReplicaPool): Room {
    const others = () => pools.entries.reduce((sum, [, other]) => sum + (other === pool ? 0 : other.copies.wanted), 0)
    return () => this.#host.limits.copies - others()
  }

  #routed(deployment_id: string) {
    const saved = this.#host.records.read(deployment_id)
    const pools = saved?.routed ? this.#host.pools.get(deployment_id)?.get(saved.routed) : undefined
    return { saved, pools, ref: pools && { deployment_id, revision_id: saved!.routed! } }
  }
}
