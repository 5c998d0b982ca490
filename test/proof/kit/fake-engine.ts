// An engine that runs nothing: revisions become healthy at once or after a delay.
import { createHash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import {
  type Artifact,
  type BuildTask,
  type Engine,
  type EngineEvents,
  type EngineObservation,
  type OneOffRun,
  type RevisionHealth,
  type RevisionRef,
  type RevisionSpec,
  type RunEnd,
  type SourceTree,
  type WriteLog,
  waitUnlessAborted,
} from '../../../src/agent/engine.ts'
import type { ListenerPolicy } from '../../../src/protocol/listener-policy.ts'

export type EngineMethod = Exclude<keyof Engine, 'name' | 'policy'>
/** Milliseconds. */
type Delays = { prepare: number; ready: number; drain: number }
type DeploymentState = { running: Map<string, RevisionHealth['phase']>; routed: string | null; database: boolean }

const NEVER = new AbortController().signal

export class FakeEngine implements Engine {
  readonly name = 'fake'
  readonly policy: ListenerPolicy = { privileged: true, service_accounts: [] }
  /** Methods that throw. */
  readonly failures: { [name in EngineMethod]?: Error } = {}
  readonly #delays: Delays
  readonly #states = new Map<string, DeploymentState>()
  /** Revisions that have not logged their token yet. */
  readonly #waiting = new Map<string, RevisionSpec>()
  readonly #runs = new Map<string, Promise<unknown>>()
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
    return [...this.#states.keys()]
  }

  async observe(deployment_id: string): Promise<EngineObservation> {
    this.#throwFailure('observe')
    const state = this.#states.get(deployment_id)
    const running = [...(state?.running ?? [])].map(([revision_id, phase]) => ({ revision_id, phase, reason: null }))
    const database = state?.database ? { ready: true, reason: null } : null
    return { running, routed: state?.routed ?? null, url: null, hasRemains: state !== undefined, database }
  }

  async provide({ deployment_id }: RevisionSpec): Promise<void> {
    this.#throwFailure('provide')
    this.#getState(deployment_id).database = true
    this.#events.changed(deployment_id)
  }

  /** The build command `sleep N` takes N seconds; no other one is run. */
  async prepare({ image_uri }: RevisionSpec, tree: SourceTree | null, { signal }: BuildTask): Promise<Artifact> {
    const seconds = Number(/^sleep (\d+)$/.exec(tree?.build_command ?? '')?.[1] ?? 0)
    await pause(seconds * 1000 + this.#delays.prepare, signal)
    const { commit = null, health_path = null, env = {} } = tree ?? {}
    return { location: image_uri ?? '/fake', start_command: null, health_path, env, commit }
  }

  /** Logs what the kit's application logs first. */
  async start(spec: RevisionSpec): Promise<void> {
    this.#throwFailure('start')
    const { deployment_id, revision_id, secrets, tracing, models_url } = spec
    const { running } = this.#getState(deployment_id)
    if (running.has(revision_id)) return
    running.set(revision_id, 'starting')
    const digest = (text = '') => createHash('sha256').update(text).digest('hex')
    this.#events.log(spec, `kit-secret ${digest(secrets.TOKEN)}`, 'INFO')
    this.#events.log(spec, `kit-tracing ${digest(tracing?.variables.LANGSMITH_API_KEY)}`, 'INFO')
    if (models_url !== null) this.#waiting.set(deployment_id, spec)
    await this.renewModelToken(deployment_id)
    await this.#changePhaseAfter(spec, 'starting', 'healthy', this.#delays.ready)
  }

  /** Logs once what the kit's application logs when it has its token. */
  async renewModelToken(deployment_id: string): Promise<void> {
    const token = this.#events.modelToken(deployment_id)
    const spec = this.#waiting.get(deployment_id)
    if (token === undefined || !spec) return
    this.#waiting.delete(deployment_id)
    const { sub } = JSON.parse(Buffer.from(token.split('.')[1]!, 'base64url').toString())
    this.#events.log(spec, `kit-models ${sub}`, 'INFO')
  }

  async route({ deployment_id, revision_id }: RevisionSpec): Promise<void> {
    this.#throwFailure('route')
    this.#getState(deployment_id).routed = revision_id
  }

  async drain(ref: RevisionRef): Promise<void> {
    this.#throwFailure('drain')
    const state = this.#getState(ref.deployment_id)
    if (state.routed === ref.revision_id) state.routed = null
    state.running.set(ref.revision_id, 'draining')
    await this.#changePhaseAfter(ref, 'draining', 'drained', this.#delays.drain)
  }

  /** The commands `sleep N` and `exit N`; each other one ends with 0 at once. */
  async runOnce(
    _: RevisionSpec,
    __: Artifact,
    { id, command }: OneOffRun,
    log: WriteLog,
    signal: AbortSignal,
  ): Promise<RunEnd> {
    this.#throwFailure('runOnce')
    const [, name, number = '0'] = /^(sleep|exit) (\d+)$/.exec(command) ?? []
    const run = this.#runs.get(id) ?? pause(name === 'sleep' ? Number(number) * 1000 : 0, NEVER)
    if (!this.#runs.has(id)) log(`ran ${command}`)
    this.#runs.set(id, run)
    await waitUnlessAborted(run, signal)
    const exit_code = name === 'exit' ? Number(number) : 0
    return { exit_code, reason: exit_code === 0 ? null : `ended with code ${exit_code}` }
  }

  async forgetRun(_: string, id: string): Promise<void> {
    this.#runs.delete(id)
  }

  async stop({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    this.#throwFailure('stop')
    this.#states.get(deployment_id)?.running.delete(revision_id)
  }

  async remove(deployment_id: string): Promise<void> {
    this.#states.delete(deployment_id)
  }

  async close(): Promise<void> {}

  setPhase({ deployment_id, revision_id }: RevisionRef, phase: RevisionHealth['phase']): void {
    this.#getState(deployment_id).running.set(revision_id, phase)
    this.#events.changed(deployment_id)
  }

  #throwFailure(method: EngineMethod): void {
    if (this.failures[method]) throw this.failures[method]
  }

  #getState(deployment_id: string): DeploymentState {
    const state = this.#states.get(deployment_id) ?? { running: new Map(), routed: null, database: false }
    this.#states.set(deployment_id, state)
    return state
  }

  /** Unless another phase has followed by then. */
  async #changePhaseAfter(ref: RevisionRef, from: RevisionHealth['phase'], to: RevisionHealth['phase'], ms: number) {
    const change = () => {
      if (this.#states.get(ref.deployment_id)?.running.get(ref.revision_id) === from) this.setPhase(ref, to)
    }
    if (ms === 0) change()
    else setTimeout(change, ms).unref()
  }
}

const pause = (ms: number, signal: AbortSignal) => (ms > 0 ? delay(ms, undefined, { signal }) : Promise.resolve())
