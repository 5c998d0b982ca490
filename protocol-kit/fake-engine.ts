// An engine that runs nothing: what it is given is healthy at once or after a while, so that all around it can be looked at.
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type {
  Artifact,
  BuildTask,
  Engine,
  EngineEvents,
  EngineObservation,
  RevisionHealth,
  RevisionRef,
  RevisionSpec,
  SourceTree,
} from '../src/agent/engine.ts'

export type EngineVerb = Exclude<keyof Engine, 'name'>
/** Milliseconds. */
type Delays = { prepare: number; ready: number; drain: number }
type DeploymentState = { running: Map<string, RevisionHealth['phase']>; routed: string | null; database: boolean }

export class FakeEngine implements Engine {
  readonly name = 'fake'
  /** What a verb says instead of doing anything. */
  readonly failures: { [name in EngineVerb]?: Error } = {}
  readonly #delays: Delays
  readonly #worlds = new Map<string, DeploymentState>()
  #events!: EngineEvents

  constructor(delays: Partial<Delays> = {}) {
    this.#delays = { prepare: 0, ready: 0, drain: 0, ...delays }
  }

  refusalReason(): null {
    return null
  }

  async open(events: EngineEvents): Promise<void> {
    this.#events = events
  }

  async deployments(): Promise<string[]> {
    return [...this.#worlds.keys()]
  }

  async observe(deployment_id: string): Promise<EngineObservation> {
    this.#may('observe')
    const world = this.#worlds.get(deployment_id)
    const running = [...(world?.running ?? [])].map(([revision_id, phase]) => ({ revision_id, phase, reason: null }))
    const database = world?.database ? { ready: true, reason: null } : null
    return { running, routed: world?.routed ?? null, url: null, hasRemains: world !== undefined, database }
  }

  async provide({ deployment_id }: RevisionSpec): Promise<void> {
    this.#may('provide')
    this.#world(deployment_id).database = true
    this.#events.changed(deployment_id)
  }

  /** A build command is not run, but one that sleeps takes its time. */
  async prepare({ image_uri }: RevisionSpec, tree: SourceTree | null, { signal }: BuildTask): Promise<Artifact> {
    const seconds = Number(/^sleep (\d+)$/.exec(tree?.build_command ?? '')?.[1] ?? 0)
    await pause(seconds * 1000 + this.#delays.prepare, signal)
    const { commit = null, health_path = null, env = {} } = tree ?? {}
    return { location: image_uri ?? '/fake', start_command: null, health_path, env, commit }
  }

  /** The line is what the kit's application would say first. */
  async start(spec: RevisionSpec): Promise<void> {
    this.#may('start')
    const { deployment_id, revision_id, secrets } = spec
    const { running } = this.#world(deployment_id)
    if (running.has(revision_id)) return
    running.set(revision_id, 'starting')
    const digest = createHash('sha256')
      .update(secrets.TOKEN ?? '')
      .digest('hex')
    this.#events.log(spec, `kit-secret ${digest}`, 'INFO')
    await this.#follows(spec, 'starting', 'healthy', this.#delays.ready)
  }

  async route({ deployment_id, revision_id }: RevisionSpec): Promise<void> {
    this.#may('route')
    this.#world(deployment_id).routed = revision_id
  }

  async drain(ref: RevisionRef): Promise<void> {
    this.#may('drain')
    const world = this.#world(ref.deployment_id)
    if (world.routed === ref.revision_id) world.routed = null
    world.running.set(ref.revision_id, 'draining')
    await this.#follows(ref, 'draining', 'drained', this.#delays.drain)
  }

  async stop({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    this.#may('stop')
    this.#worlds.get(deployment_id)?.running.delete(revision_id)
  }

  async remove(deployment_id: string): Promise<void> {
    this.#worlds.delete(deployment_id)
  }

  async close(): Promise<void> {}

  /** From outside, as when an application falls ill. */
  setPhase({ deployment_id, revision_id }: RevisionRef, phase: RevisionHealth['phase']): void {
    this.#world(deployment_id).running.set(revision_id, phase)
    this.#events.changed(deployment_id)
  }

  #may(verb: EngineVerb): void {
    if (this.failures[verb]) throw this.failures[verb]
  }

  #world(deployment_id: string): DeploymentState {
    const world = this.#worlds.get(deployment_id) ?? { running: new Map(), routed: null, database: false }
    this.#worlds.set(deployment_id, world)
    return world
  }

  /** In the background where it takes its time; unless something else has become of it by then. */
  async #follows(ref: RevisionRef, from: RevisionHealth['phase'], to: RevisionHealth['phase'], ms: number) {
    const over = () => {
      if (this.#worlds.get(ref.deployment_id)?.running.get(ref.revision_id) === from) this.setPhase(ref, to)
    }
    if (ms === 0) over()
    else setTimeout(over, ms).unref()
  }
}

const pause = (ms: number, signal: AbortSignal) => (ms > 0 ? delay(ms, undefined, { signal }) : Promise.resolve())
