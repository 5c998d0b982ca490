// One running copy of an application: its container, and those before and beside it, from the first volume to the last line.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { explainExit, explainStartFailure } from '../../images/container-failures.ts'
import { PART_LABEL, REPLICA_LABEL, ROLE_LABEL, SIDECARS_LABEL } from '../../images/container-labels.ts'
import { followLog, type InspectedContainer, LOG_START, type LogPosition } from '../../images/container-log.ts'
import { type CreateRequest, type DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { describeError } from '../../redaction/error-messages.ts'
import { readJson, writeJson } from '../../system/files.ts'
import type { Health, Replica } from '../local/replica-pool.ts'
import { probe } from './health.ts'
import type { ReplicaParts } from './replica-spec.ts'

/** As the engine lists them. */
export type ListedContainer = {
  Id: string
  Names: string[]
  State: string
  Labels: Record<string, string>
  Ports?: { PrivatePort: number; PublicPort?: number; IP?: string }[]
  SizeRw?: number
  NetworkSettings?: { Networks?: Record<string, { IPAddress: string }> | null }
}

/** Where copies live: the engine, those of its containers that are somebody's, and a folder for what is known of them. */
export type ReplicaHome = { api: DockerApi; liveReplicas: Set<string>; folder: string }

const LAST_LINES = 20
const RETRY_MS = 1_000
const MAX_SIDECAR_CRASHES = 3
const SIDECAR_CALM_MS = 60_000
/** A sidecar that lasts so long is there. */
const SETTLED_MS = 1_000
const SIDECAR_PAUSE_MS = 1_000
const SIDECAR_STOP_MS = 2_000

export class ContainerReplica implements Replica {
  readonly id: string
  readonly lastLines: string[] = []
  endReason: string | undefined
  hasKillReason = false
  onExit = () => {}
  readonly #api: DockerApi
  readonly #liveReplicas: Set<string>
  readonly #file: string
  readonly #positions: Record<string, LogPosition>
  readonly #released = new AbortController()
  #appId: string | undefined
  #port: number | undefined
  readonly #sidecars = new Map<string, { since: number; trouble: string | null }>()
  #sidecarsSettled = false
  #pendingLines: string[] = []
  #unsaved = false
  #removal: Promise<void> | undefined

  private constructor({ api, liveReplicas: living, folder }: ReplicaHome, id: string) {
    this.#api = api
    this.#liveReplicas = living
    living.add(id)
    this.id = id
    this.#file = join(folder, `${id}.json`)
    this.#positions = readJson<Record<string, LogPosition>>(this.#file) ?? {}
  }

  /** What it is made of is labelled with its id before it is made, so that whatever comes of it can be found. */
  static launch(home: ReplicaHome, recipe: ReplicaParts, network: () => Promise<void>): ContainerReplica {
    const copy = new ContainerReplica(home, recipe.copy)
    writeJson(copy.#file, {})
    const making = network().then(() => copy.#create(recipe))
    making.catch(error => copy.#recordEnd(describeStartError(error)))
    return copy
  }

  /** What an earlier agent left running of a copy; undefined, and nothing is left of it, where it is not whole. */
  static async adopt(
    home: ReplicaHome,
    id: string,
    containers: ListedContainer[],
  ): Promise<ContainerReplica | undefined> {
    const copy = new ContainerReplica(home, id)
    const app = containers.find(({ Labels }) => Labels[ROLE_LABEL] === 'app')
    const parts = app?.Labels[SIDECARS_LABEL]?.split(',').filter(Boolean) ?? []
    const sidecars = parts.map(part => containers.find(({ Labels }) => Labels[PART_LABEL] === part))
    const port = app?.Ports?.find(({ PublicPort }) => PublicPort)?.PublicPort
    if (app?.State !== 'running' || !port || !sidecars.every(sidecar => sidecar !== undefined)) {
      await copy.end(0)
      copy.forget()
      return undefined
    }
    copy.#port = port
    copy.#sidecarsSettled = true
    void copy.#watchApp(app.Id)
    for (const sidecar of sidecars) void copy.#watchSidecar(sidecar.Id, sidecar.Labels[PART_LABEL]!)
    return copy
  }

  /** Before it is well for the first time, its sidecars have to stay too. */
  async probe(path: string | null, timeout: number): Promise<Health> {
    if (!this.#port) return { ok: false, reason: 'it is still being started' }
    const health = await probe(this.#port, path, timeout)
    if (!health.ok || this.#sidecarsSettled) return health
    for (const [name, { since, trouble }] of this.#sidecars) {
      const wrong = trouble ?? (Date.now() - since < SETTLED_MS ? 'was only just started' : null)
      if (wrong) return { ok: false, reason: `its sidecar \`${name}\` ${wrong}` }
    }
    this.#sidecarsSettled = true
    return health
  }

  readLines(): string[] {
    const lines = this.#pendingLines.splice(0)
    if (this.#unsaved && fs.existsSync(this.#file)) writeJson(this.#file, this.#positions)
    this.#unsaved = false
    return lines
  }

  kill(): void {
    if (this.#appId) void this.#killApp(this.#appId)
    else this.#recordEnd('was killed before it had started')
  }

  /** Also once an engine that is away is there again. */
  async #killApp(app: string): Promise<void> {
    const { signal } = this.#released
    while (!this.endReason && !signal.aborted) {
      const away = await this.#api.requestIfExists('POST', `/containers/${app}/kill`).then(
        () => false,
        error => error.status === 0,
      )
      if (!away) return
      await delay(RETRY_MS, undefined, { signal }).catch(() => {})
    }
  }

  /** Gracefully, as far as the time goes; when it returns, nothing of it is left. */
  async end(grace: number): Promise<void> {
    this.endReason ??= 'was ended'
    this.onExit = () => {}
    if (this.#appId && grace) await this.#stop(this.#appId, grace)
    this.#released.abort()
    await this.#removeContainers(grace)
  }

  forget(): void {
    this.#released.abort()
    fs.rmSync(this.#file, { force: true })
    // What cannot be removed now is found by its label later.
    void this.#removeContainers(0).catch(() => {})
  }

  /** It runs on, for the next agent, who also tells what was read here and not told yet. */
  release(): void {
    this.#released.abort()
  }

  async #create(recipe: ReplicaParts): Promise<void> {
    for (const { body } of recipe.volumes) await this.#api.post('/volumes/create', body)
    for (const init of recipe.inits) {
      const id = await this.#start(init)
      const name = partName(init)
      const state = await followLog(this.#api, id, this.#position(id), this.#released.signal, this.#lineLogger(name))
      if (this.endReason) return
      if (state?.ExitCode !== 0)
        return this.#recordEnd(
          `did not start: its init container \`${name}\` ${state ? explainExit(state, state.memory) : 'is gone'}`,
        )
      await this.#api.removeContainer(id)
    }
    const app = await this.#start(recipe.app)
    const watched = this.#watchApp(app)
    const look = () => this.#api.get<InspectedContainer>(`/containers/${app}/json`)
    const { NetworkSettings } = await look()
    const published = NetworkSettings.Ports[`${recipe.port}/tcp`]?.[0]
    for (const sidecar of recipe.sidecars) {
      // Nothing can be started beside one that has ended, and Podman would start that one again: how it ended is what is told.
      if (!(await look()).State.Running) return watched
      const id = await this.#start(sidecar).catch(async error => {
        if (!(await look()).State.Running) await watched
        throw error
      })
      void this.#watchSidecar(id, partName(sidecar))
    }
    // Not before its sidecars are known.
    if (published) this.#port = Number(published.HostPort)
  }

  /** Each is one that may be stopped before it is there. */
  async #start({ name, body }: CreateRequest): Promise<string> {
    if (this.endReason) throw new DockerApiError(0, 'it was ended')
    const { Id } = await this.#api.post<{ Id: string }>('/containers/create', body, { name })
    if (this.endReason) throw new DockerApiError(0, 'it was ended')
    await this.#api.post(`/containers/${Id}/start`)
    return Id
  }

  async #watchApp(app: string): Promise<void> {
    this.#appId = app
    const state = await followLog(this.#api, app, this.#position(app), this.#released.signal, this.#lineLogger())
    if (state) this.#recordEnd(explainExit(state, state.memory))
    else if (!this.#released.signal.aborted) this.#recordEnd('is gone: somebody removed its container')
  }

  /** A sidecar that ends is started again; one that does so again and again takes its copy with it. */
  async #watchSidecar(id: string, name: string): Promise<void> {
    const { signal } = this.#released
    for (let crashes = 1; ; crashes++) {
      const since = Date.now()
      this.#sidecars.set(name, { since, trouble: null })
      const state = await followLog(this.#api, id, this.#position(id), signal, this.#lineLogger(name))
      if (signal.aborted || this.endReason) return
      if (Date.now() - since > SIDECAR_CALM_MS) crashes = 1
      const how = state ? explainExit(state, state.memory) : 'is gone'
      if (!state || crashes >= MAX_SIDECAR_CRASHES)
        return this.#recordEnd(`has no sidecar \`${name}\` beside it, which ${how}`)
      this.#sidecars.set(name, { since, trouble: how })
      const pause = SIDECAR_PAUSE_MS * crashes
      this.#addLine(`The sidecar \`${name}\` ${how}; it is started again in ${pause / 1000} s.`)
      await delay(pause, undefined, { signal }).catch(() => {})
      if (signal.aborted || this.endReason) return
      const failed = await this.#api.post(`/containers/${id}/start`).then(() => undefined, describeStartError)
      if (failed) return this.#recordEnd(`has no sidecar \`${name}\` beside it, which ${failed}`)
    }
  }

  #recordEnd(how: string): void {
    if (this.endReason) return
    this.endReason = how
    this.onExit()
  }

  #position(id: string): LogPosition {
    this.#positions[id] ??= { ...LOG_START }
    return this.#positions[id]
  }

  #lineLogger = (part?: string) => (message: string) => {
    this.#unsaved = true
    this.#addLine(part ? `[${part}] ${message}` : message)
  }

  #addLine(line: string): void {
    this.#pendingLines.push(line)
    this.lastLines.push(line)
    this.lastLines.splice(0, this.lastLines.length - LAST_LINES)
  }

  #stop(id: string, grace: number): Promise<boolean> {
    const t = Math.ceil(grace / 1000)
    // Before an engine answers, it has waited that long and killed.
    return this.#api.requestIfExists('POST', `/containers/${id}/stop`, { query: { t }, timeoutMs: grace + 30_000 })
  }

  /** All that bears its label: also what was being made when it was ended. */
  #removeContainers(grace: number): Promise<void> {
    const stop = grace ? (id: string) => this.#stop(id, SIDECAR_STOP_MS) : undefined
    this.#removal ??= removeReplica(this.#api, this.id, stop)
      .catch(error => {
        // Whoever asks again has it tried again.
        this.#removal = undefined
        throw error
      })
      // What could not be removed is nobody's from now on, and is swept away.
      .finally(() => this.#liveReplicas.delete(this.id))
    return this.#removal
  }
}

/** Those in the network of another one go before it. */
export const inRemovalOrder = (containers: ListedContainer[]): ListedContainer[] => {
  const isApp = ({ Labels }: ListedContainer) => Number(Labels[ROLE_LABEL] === 'app')
  return containers.toSorted((a, b) => isApp(a) - isApp(b))
}

const partName = ({ body }: CreateRequest) => (body.Labels as Record<string, string>)[PART_LABEL]!

async function removeReplica(api: DockerApi, copy: string, stop?: (id: string) => Promise<unknown>): Promise<void> {
  const filters = { label: [`${REPLICA_LABEL}=${copy}`] }
  const containers = await api.get<ListedContainer[]>('/containers/json', { all: true, filters })
  for (const { Id, State } of inRemovalOrder(containers)) {
    if (State === 'running') await stop?.(Id)
    await api.removeContainer(Id)
  }
  const { Volumes } = await api.get<{ Volumes: { Name: string }[] | null }>('/volumes', { filters })
  for (const { Name } of Volumes ?? [])
    await api.requestIfExists('DELETE', `/volumes/${Name}`, { query: { force: true } })
}

const describeStartError = (error: unknown) =>
  explainStartFailure(error instanceof Error ? describeError(error) : String(error))
