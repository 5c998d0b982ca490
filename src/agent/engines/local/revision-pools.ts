// The pools of a revision: one for the process that listens, if there is one, and one for each other type. The others
// run only while the revision gets the requests, so that those of two revisions do not work at the same time.
import type { Condition, RevisionHealth } from '../../engine.ts'
import { toProcessHealth, WEB } from '../process-types.ts'
import type { Replica } from './replica.ts'
import type { HealthPolicy, ReplicaPool, ReplicaTemplate, Rest } from './replica-pool.ts'
import type { Target } from './router.ts'

/** The most urgent first. */
const URGENCY: RevisionHealth['phase'][] = ['failing', 'unhealthy', 'starting']
const WORST: Condition['health']['state'][] = ['crash_looping', 'unhealthy', 'degraded', 'sleeping']

export class RevisionPools {
  readonly #makePool: (type: string) => ReplicaPool
  readonly #pools = new Map<string, ReplicaPool>()
  /** The templates of the other types, by name. */
  #others = new Map<string, ReplicaTemplate>()

  constructor(makePool: (type: string) => ReplicaPool) {
    this.#makePool = makePool
  }

  get entries(): [type: string, pool: ReplicaPool][] {
    return [...this.#pools]
  }

  get web(): ReplicaPool | undefined {
    return this.#pools.get(WEB)
  }

  get #besideWeb(): [type: string, pool: ReplicaPool][] {
    return this.entries.filter(([type]) => type !== WEB)
  }

  /** The other types that sleep with `web`, by name. `areTogether`: all of them do. It may have changed meanwhile. */
  othersThatSleep(areTogether: boolean): Map<string, ReplicaPool> {
    return new Map(this.#besideWeb.filter(([, pool]) => (this.web?.rest ? pool.rest !== null : areTogether)))
  }

  adopt(type: string, replicas: Replica[], policy: HealthPolicy | undefined, rest: Rest | null): Promise<void> {
    return this.#ensure(type).adopt(replicas, policy, rest)
  }

  /** `web`: null if nothing listens. */
  start(web: ReplicaTemplate | null, others: Map<string, ReplicaTemplate>): void {
    if (web) this.#ensure(WEB).start(web)
    this.#others = others
  }

  startOthers(): void {
    for (const [type, template] of this.#others) this.#ensure(type).start(template)
  }

  async stopOthers(): Promise<void> {
    const others = this.#besideWeb
    await Promise.all(others.map(([, pool]) => pool.stop()))
    for (const [type] of others) this.#pools.delete(type)
  }

  targets(): Target[] {
    return this.web?.targets() ?? []
  }

  phase(isRouted: boolean): RevisionHealth['phase'] {
    const phases = this.#deciding(isRouted).map(([, pool]) => pool.phase())
    return URGENCY.find(phase => phases.includes(phase)) ?? 'healthy'
  }

  reason(isRouted: boolean): string | null {
    const phase = this.phase(isRouted)
    const [type, pool] = this.#deciding(isRouted).find(([, pool]) => pool.phase() === phase) ?? []
    const reason = pool?.reason() ?? null
    return type === undefined || type === WEB || reason === null ? reason : `Process \`${type}\`: ${reason}`
  }

  /** Without `web`, the whole is unhealthy; without another type, it is degraded. */
  condition(isRouted: boolean): Condition {
    const conditions = this.#deciding(isRouted).map(([type, pool]) => {
      return { type, ...pool.condition(), ...(pool.isElastic && { copies: pool.copies }) }
    })
    const states = conditions.map(({ type, health }) => ({
      state: type === WEB || !this.web ? health.state : healthBesideWeb(health.state),
      reason: type === WEB || health.reason === null ? health.reason : `Process \`${type}\`: ${health.reason}`,
    }))
    const worst = WORST.map(state => states.find(health => health.state === state)).find(Boolean)
    const processes = conditions.map(({ type, health, copies }) => toProcessHealth(type, health, copies))
    return {
      health: {
        ...(worst ?? { state: 'healthy', reason: null }),
        ...(processes.some(({ name, copies }) => name !== WEB || copies) && { processes }),
      },
      incidents: mergeIncidents(
        conditions.flatMap(({ type, incidents }) =>
          incidents.map(incident =>
            type === WEB ? incident : { ...incident, message: `Process \`${type}\`: ${incident.message}` },
          ),
        ),
      ),
    }
  }

  async stop(): Promise<void> {
    await Promise.all(this.entries.map(([, pool]) => pool.stop()))
  }

  release(): void {
    for (const [, pool] of this.#pools) pool.release()
  }

  #deciding(isRouted: boolean): [type: string, pool: ReplicaPool][] {
    return this.entries.filter(([type]) => isRouted || type === WEB)
  }

  #ensure(type: string): ReplicaPool {
    const pool = this.#pools.get(type) ?? this.#makePool(type)
    this.#pools.set(type, pool)
    return pool
  }
}

/** One that sleeps, or begins to wake, does so with `web`. */
const healthBesideWeb = (state: Condition['health']['state']): 'healthy' | 'degraded' =>
  state === 'healthy' || state === 'sleeping' ? 'healthy' : 'degraded'

/** One of each kind: counted together, with the message of the last one. */
function mergeIncidents(all: Condition['incidents']): Condition['incidents'] {
  const merged = new Map<string, Condition['incidents'][number]>()
  for (const incident of all.toSorted((a, b) => a.last_at.localeCompare(b.last_at)))
    merged.set(incident.kind, { ...incident, count: incident.count + (merged.get(incident.kind)?.count ?? 0) })
  return [...merged.values()]
}
