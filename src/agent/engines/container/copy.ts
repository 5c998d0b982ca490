// One running copy of an application: its container, and those before and beside it, from the first volume to the last line.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { faultOf } from '../../faults.ts'
import { readJson, writeJson } from '../../files.ts'
import type { Copy, Health } from '../local/pool.ts'
import { type ContainerApi, EngineFailure } from './api.ts'
import { ending as endingOf, startFailure } from './failures.ts'
import { probe } from './health.ts'
import { BEGINNING, follow, type Inspected, type Position } from './log.ts'
import { COPY, type Create, PART, PARTS, type Recipe, ROLE } from './spec.ts'

/** As the engine lists them. */
export type Listed = {
  Id: string
  Names: string[]
  State: string
  Labels: Record<string, string>
  Ports?: { PrivatePort: number; PublicPort?: number; IP?: string }[]
  SizeRw?: number
  NetworkSettings?: { Networks?: Record<string, { IPAddress: string }> | null }
}

/** Where copies live: the engine, those of its containers that are somebody's, and a folder for what is known of them. */
export type Home = { api: ContainerApi; living: Set<string>; folder: string }

const LAST_LINES = 20
const AGAIN_MS = 1_000
const SIDECAR_CRASHES = 3
const SIDECAR_CALM_MS = 60_000
/** A sidecar that lasts so long is there. */
const SETTLED_MS = 1_000
const SIDECAR_PAUSE_MS = 1_000
const SIDECAR_STOP_MS = 2_000

export class ContainerCopy implements Copy {
  readonly id: string
  readonly last: string[] = []
  ending: string | undefined
  blamed = false
  onExit = () => {}
  readonly #api: ContainerApi
  readonly #living: Set<string>
  readonly #file: string
  readonly #positions: Record<string, Position>
  readonly #letGo = new AbortController()
  #app: string | undefined
  #port: number | undefined
  readonly #sidecars = new Map<string, { since: number; trouble: string | null }>()
  #settled = false
  #lines: string[] = []
  #unsaved = false
  #cleared: Promise<void> | undefined

  private constructor({ api, living, folder }: Home, id: string) {
    this.#api = api
    this.#living = living
    living.add(id)
    this.id = id
    this.#file = join(folder, `${id}.json`)
    this.#positions = readJson<Record<string, Position>>(this.#file) ?? {}
  }

  /** What it is made of is labelled with its id before it is made, so that whatever comes of it can be found. */
  static launch(home: Home, recipe: Recipe, network: () => Promise<void>): ContainerCopy {
    const copy = new ContainerCopy(home, recipe.copy)
    writeJson(copy.#file, {})
    const making = network().then(() => copy.#make(recipe))
    making.catch(error => copy.#ended(trouble(error)))
    return copy
  }

  /** What an earlier agent left running of a copy; undefined, and nothing is left of it, where it is not whole. */
  static async adopt(home: Home, id: string, containers: Listed[]): Promise<ContainerCopy | undefined> {
    const copy = new ContainerCopy(home, id)
    const app = containers.find(({ Labels }) => Labels[ROLE] === 'app')
    const parts = app?.Labels[PARTS]?.split(',').filter(Boolean) ?? []
    const sidecars = parts.map(part => containers.find(({ Labels }) => Labels[PART] === part))
    const port = app?.Ports?.find(({ PublicPort }) => PublicPort)?.PublicPort
    if (app?.State !== 'running' || !port || !sidecars.every(sidecar => sidecar !== undefined)) {
      await copy.end(0)
      copy.forget()
      return undefined
    }
    copy.#port = port
    copy.#settled = true
    void copy.#watch(app.Id)
    for (const sidecar of sidecars) void copy.#attend(sidecar.Id, sidecar.Labels[PART]!)
    return copy
  }

  /** Before it is well for the first time, its sidecars have to stay too. */
  async probe(path: string | null, timeout: number): Promise<Health> {
    if (!this.#port) return { ok: false, reason: 'it is still being started' }
    const health = await probe(this.#port, path, timeout)
    if (!health.ok || this.#settled) return health
    for (const [name, { since, trouble }] of this.#sidecars) {
      const wrong = trouble ?? (Date.now() - since < SETTLED_MS ? 'was only just started' : null)
      if (wrong) return { ok: false, reason: `its sidecar \`${name}\` ${wrong}` }
    }
    this.#settled = true
    return health
  }

  lines(): string[] {
    const lines = this.#lines.splice(0)
    if (this.#unsaved && fs.existsSync(this.#file)) writeJson(this.#file, this.#positions)
    this.#unsaved = false
    return lines
  }

  kill(): void {
    if (this.#app) void this.#kill(this.#app)
    else this.#ended('was killed before it had started')
  }

  /** Also once an engine that is away is there again. */
  async #kill(app: string): Promise<void> {
    const { signal } = this.#letGo
    while (!this.ending && !signal.aborted) {
      const away = await this.#api.quietly('POST', `/containers/${app}/kill`).then(
        () => false,
        error => error.status === 0,
      )
      if (!away) return
      await delay(AGAIN_MS, undefined, { signal }).catch(() => {})
    }
  }

  /** Gracefully, as far as the time goes; when it returns, nothing of it is left. */
  async end(grace: number): Promise<void> {
    this.ending ??= 'was ended'
    this.onExit = () => {}
    if (this.#app && grace) await this.#stop(this.#app, grace)
    this.#letGo.abort()
    await this.#clear(grace)
  }

  forget(): void {
    this.#letGo.abort()
    fs.rmSync(this.#file, { force: true })
    // What cannot be removed now is found by its label later.
    void this.#clear(0).catch(() => {})
  }

  /** It runs on, for the next agent, who also tells what was read here and not told yet. */
  release(): void {
    this.#letGo.abort()
  }

  async #make(recipe: Recipe): Promise<void> {
    for (const { body } of recipe.volumes) await this.#api.post('/volumes/create', body)
    for (const init of recipe.inits) {
      const id = await this.#start(init)
      const name = partOf(init)
      const state = await follow(this.#api, id, this.#position(id), this.#letGo.signal, this.#tell(name))
      if (this.ending) return
      if (state?.ExitCode !== 0)
        return this.#ended(
          `did not start: its init container \`${name}\` ${state ? endingOf(state, state.memory) : 'is gone'}`,
        )
      await this.#api.discard(id)
    }
    const app = await this.#start(recipe.app)
    const watched = this.#watch(app)
    const look = () => this.#api.get<Inspected>(`/containers/${app}/json`)
    const { NetworkSettings } = await look()
    const published = NetworkSettings.Ports[`${recipe.port}/tcp`]?.[0]
    for (const sidecar of recipe.sidecars) {
      // Nothing can be started beside one that has ended, and Podman would start that one again: how it ended is what is told.
      if (!(await look()).State.Running) return watched
      const id = await this.#start(sidecar).catch(async error => {
        if (!(await look()).State.Running) await watched
        throw error
      })
      void this.#attend(id, partOf(sidecar))
    }
    // Not before its sidecars are known.
    if (published) this.#port = Number(published.HostPort)
  }

  /** Each is one that may be stopped before it is there. */
  async #start({ name, body }: Create): Promise<string> {
    if (this.ending) throw new EngineFailure(0, 'it was ended')
    const { Id } = await this.#api.post<{ Id: string }>('/containers/create', body, { name })
    if (this.ending) throw new EngineFailure(0, 'it was ended')
    await this.#api.post(`/containers/${Id}/start`)
    return Id
  }

  async #watch(app: string): Promise<void> {
    this.#app = app
    const state = await follow(this.#api, app, this.#position(app), this.#letGo.signal, this.#tell())
    if (state) this.#ended(endingOf(state, state.memory))
    else if (!this.#letGo.signal.aborted) this.#ended('is gone: somebody removed its container')
  }

  /** A sidecar that ends is started again; one that does so again and again takes its copy with it. */
  async #attend(id: string, name: string): Promise<void> {
    const { signal } = this.#letGo
    for (let crashes = 1; ; crashes++) {
      const since = Date.now()
      this.#sidecars.set(name, { since, trouble: null })
      const state = await follow(this.#api, id, this.#position(id), signal, this.#tell(name))
      if (signal.aborted || this.ending) return
      if (Date.now() - since > SIDECAR_CALM_MS) crashes = 1
      const how = state ? endingOf(state, state.memory) : 'is gone'
      if (!state || crashes >= SIDECAR_CRASHES) return this.#ended(`has no sidecar \`${name}\` beside it, which ${how}`)
      this.#sidecars.set(name, { since, trouble: how })
      const pause = SIDECAR_PAUSE_MS * crashes
      this.#say(`The sidecar \`${name}\` ${how}; it is started again in ${pause / 1000} s.`)
      await delay(pause, undefined, { signal }).catch(() => {})
      if (signal.aborted || this.ending) return
      const failed = await this.#api.post(`/containers/${id}/start`).then(() => undefined, trouble)
      if (failed) return this.#ended(`has no sidecar \`${name}\` beside it, which ${failed}`)
    }
  }

  #ended(how: string): void {
    if (this.ending) return
    this.ending = how
    this.onExit()
  }

  #position(id: string): Position {
    this.#positions[id] ??= { ...BEGINNING }
    return this.#positions[id]
  }

  #tell = (part?: string) => (message: string) => {
    this.#unsaved = true
    this.#say(part ? `[${part}] ${message}` : message)
  }

  #say(line: string): void {
    this.#lines.push(line)
    this.last.push(line)
    this.last.splice(0, this.last.length - LAST_LINES)
  }

  #stop(id: string, grace: number): Promise<boolean> {
    const t = Math.ceil(grace / 1000)
    // Before an engine answers, it has waited that long and killed.
    return this.#api.quietly('POST', `/containers/${id}/stop`, { query: { t }, within: grace + 30_000 })
  }

  /** All that bears its label: also what was being made when it was ended. */
  #clear(grace: number): Promise<void> {
    const stop = grace ? (id: string) => this.#stop(id, SIDECAR_STOP_MS) : undefined
    this.#cleared ??= clear(this.#api, this.id, stop)
      .catch(error => {
        // Whoever asks again has it tried again.
        this.#cleared = undefined
        throw error
      })
      // What could not be removed is nobody's from now on, and is swept away.
      .finally(() => this.#living.delete(this.id))
    return this.#cleared
  }
}

/** Those in the network of another one go before it. */
export const asTheyGo = (containers: Listed[]): Listed[] => {
  const isApp = ({ Labels }: Listed) => Number(Labels[ROLE] === 'app')
  return containers.toSorted((a, b) => isApp(a) - isApp(b))
}

const partOf = ({ body }: Create) => (body.Labels as Record<string, string>)[PART]!

async function clear(api: ContainerApi, copy: string, stop?: (id: string) => Promise<unknown>): Promise<void> {
  const filters = { label: [`${COPY}=${copy}`] }
  const containers = await api.get<Listed[]>('/containers/json', { all: true, filters })
  for (const { Id, State } of asTheyGo(containers)) {
    if (State === 'running') await stop?.(Id)
    await api.discard(Id)
  }
  const { Volumes } = await api.get<{ Volumes: { Name: string }[] | null }>('/volumes', { filters })
  for (const { Name } of Volumes ?? []) await api.quietly('DELETE', `/volumes/${Name}`, { query: { force: true } })
}

const trouble = (error: unknown) => startFailure(error instanceof Error ? faultOf(error) : String(error))
