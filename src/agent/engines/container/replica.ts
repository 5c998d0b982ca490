// A replica made of containers: creates, adopts, watches and removes its init containers, application and sidecars.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { LogLevel } from '../../engine.ts'
import { explainExit, explainStartFailure } from '../../images/container-failures.ts'
import { PART_LABEL, REPLICA_LABEL, ROLE_LABEL, SIDECARS_LABEL, TYPE_LABEL } from '../../images/container-labels.ts'
import { followLog, type InspectedContainer, LOG_START, type LogPosition } from '../../images/container-log.ts'
import { type CreateRequest, type DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { describeError } from '../../redaction/error-messages.ts'
import { readJson, writeJson } from '../../system/files.ts'
import { levelOf } from '../../system/line-level.ts'
import { describeListening, findAnnouncedPort } from '../local/health.ts'
import type { Health, OutputLine, Replica, ReplicaUsage } from '../local/replica.ts'
import { WEB } from '../process-types.ts'
import { probe } from './health.ts'
import type { ReplicaParts } from './replica-spec.ts'

export type ListedContainer = {
  Id: string
  Names: string[]
  State: string
  Labels: Record<string, string>
  Ports?: { PrivatePort: number; PublicPort?: number; IP?: string }[]
  SizeRw?: number
  NetworkSettings?: { Networks?: Record<string, { IPAddress: string }> | null }
}

type ContainerStats = {
  cpu_stats?: { cpu_usage?: { total_usage?: number } }
  memory_stats?: { usage?: number; stats?: Record<string, number> }
}

/** `liveReplicas`: ids whose containers must not be swept. `folder`: the log positions of replicas. */
export type ReplicaHome = { api: DockerApi; liveReplicas: Set<string>; folder: string }

const LAST_LINES = 20
const RETRY_MS = 1_000
const MAX_SIDECAR_CRASHES = 3
const SIDECAR_CALM_MS = 60_000
/** A sidecar that has run this long counts as started. */
const SETTLED_MS = 1_000
const SIDECAR_PAUSE_MS = 1_000
const SIDECAR_STOP_MS = 2_000

export class ContainerReplica implements Replica {
  readonly id: string
  readonly lastLines: string[] = []
  endReason: string | undefined
  isOutOfMemory = false
  hasKillReason = false
  onExit = () => {}
  readonly #api: DockerApi
  readonly #liveReplicas: Set<string>
  readonly #file: string
  readonly #positions: Record<string, LogPosition>
  readonly #released = new AbortController()
  #appId: string | undefined
  /** Its published port, and the one inside the container. */
  #port: number | undefined
  #innerPort: number | undefined
  readonly #sidecars = new Map<string, { since: number; problem: string | null }>()
  #sidecarsSettled = false
  /** The last CPU time of the application and of its sidecars. */
  readonly #cpuMs = new Map<string, number | null>()
  #pendingLines: OutputLine[] = []
  #unsaved = false
  #removal: Promise<void> | undefined

  private constructor({ api, liveReplicas, folder }: ReplicaHome, id: string) {
    this.#api = api
    this.#liveReplicas = liveReplicas
    liveReplicas.add(id)
    this.id = id
    this.#file = join(folder, `${id}.json`)
    this.#positions = readJson<Record<string, LogPosition>>(this.#file) ?? {}
  }

  static launch(home: ReplicaHome, recipe: ReplicaParts, ensureNetwork: () => Promise<void>): ContainerReplica {
    const replica = new ContainerReplica(home, recipe.copy)
    writeJson(replica.#file, {})
    const creation = ensureNetwork().then(() => replica.#create(recipe))
    creation.catch(error => replica.#recordEnd(describeStartError(error)))
    return replica
  }

  /** Adopts a replica of an earlier agent. An incomplete one is removed, and the result is undefined. */
  static async adopt(
    home: ReplicaHome,
    id: string,
    containers: ListedContainer[],
  ): Promise<ContainerReplica | undefined> {
    const replica = new ContainerReplica(home, id)
    const app = containers.find(({ Labels }) => Labels[ROLE_LABEL] === 'app')
    const parts = app?.Labels[SIDECARS_LABEL]?.split(',').filter(Boolean) ?? []
    const sidecars = parts.map(part => containers.find(({ Labels }) => Labels[PART_LABEL] === part))
    const { PublicPort: port, PrivatePort } = app?.Ports?.find(({ PublicPort }) => PublicPort) ?? {}
    const listens = (app?.Labels[TYPE_LABEL] ?? WEB) === WEB
    if (app?.State !== 'running' || (listens && !port) || !sidecars.every(sidecar => sidecar !== undefined)) {
      await replica.end(0)
      replica.forget()
      return undefined
    }
    replica.#port = port
    replica.#innerPort = PrivatePort
    replica.#sidecarsSettled = true
    void replica.#watchApp(app.Id)
    for (const sidecar of sidecars) void replica.#watchSidecar(sidecar.Id, sidecar.Labels[PART_LABEL]!)
    return replica
  }

  /** The first healthy probe requires that its sidecars run too. */
  async probe(path: string | null, timeout: number): Promise<Health> {
    if (!this.#port) return { ok: false, reason: 'it is still starting' }
    const health = await probe(this.#port, path, timeout)
    if (!health.ok && health.about === 'no_listener') return this.#findAnnounced() ?? health
    if (!health.ok || this.#sidecarsSettled) return health
    for (const [name, { since, problem }] of this.#sidecars) {
      const reason = problem ?? (Date.now() - since < SETTLED_MS ? 'has only just started' : null)
      if (reason) return { ok: false, reason: `its sidecar \`${name}\` ${reason}` }
    }
    this.#sidecarsSettled = true
    return health
  }

  /** Healthy if the command ends with 0 in its container. */
  async check(command: string, timeoutMs: number): Promise<Health> {
    if (!this.#appId) return { ok: false, reason: 'it is still starting' }
    const ended = this.#api.exec(this.#appId, ['/bin/sh', '-c', command]).catch(() => null)
    const code = await Promise.race([ended, delay(timeoutMs, 'late' as const, { ref: false })])
    if (code === 0) return { ok: true, target: null }
    const how = typeof code === 'number' ? `ended with code ${code}` : `did not end within ${timeoutMs / 1000} s`
    return { ok: false, reason: `its health command ${how}` }
  }

  /** The ports of a container are not visible from outside, but its log often names one. */
  #findAnnounced(): Health | undefined {
    const announced = findAnnouncedPort(this.lastLines)
    if (announced === undefined || this.#innerPort === undefined || announced === this.#innerPort) return undefined
    return describeListening([announced], this.#innerPort)
  }

  /** The container of the application, for commands beside it. */
  get container(): string | undefined {
    return this.endReason === undefined ? this.#appId : undefined
  }

  /** The port of the application, inside and as published on this machine. */
  get ports(): { inner: number | undefined; published: number | undefined } {
    return { inner: this.#innerPort, published: this.#port }
  }

  async usage(): Promise<ReplicaUsage> {
    let memory_bytes: number | null = null
    for (const id of this.#cpuMs.keys()) {
      if (this.endReason) break
      const stats = await this.#api
        .get<ContainerStats>(`/containers/${id}/stats`, { stream: false, 'one-shot': true })
        .catch(() => undefined)
      const { usage, stats: parts } = stats?.memory_stats ?? {}
      // A container that does not run has no memory, and no CPU time either.
      if (!stats || !usage) continue
      // Subtracts the cache of files, as `docker stats` does: the kernel frees it on demand.
      const cache = parts?.inactive_file ?? parts?.total_inactive_file ?? 0
      memory_bytes = (memory_bytes ?? 0) + Math.max(0, usage - cache)
      const nanoseconds = stats.cpu_stats?.cpu_usage?.total_usage
      if (nanoseconds !== undefined) this.#cpuMs.set(id, nanoseconds / 1e6)
    }
    const known = [...this.#cpuMs.values()].filter(ms => ms !== null)
    return { cpu_ms: known.length > 0 ? known.reduce((sum, ms) => sum + ms, 0) : null, memory_bytes }
  }

  readLines(): OutputLine[] {
    const lines = this.#pendingLines.splice(0)
    if (this.#unsaved && fs.existsSync(this.#file)) writeJson(this.#file, this.#positions)
    this.#unsaved = false
    return lines
  }

  kill(): void {
    if (this.#appId) void this.#killApp(this.#appId)
    else this.#recordEnd('was killed before it had started')
  }

  /** Retries while the engine is unreachable. */
  async #killApp(app: string): Promise<void> {
    const { signal } = this.#released
    while (!this.endReason && !signal.aborted) {
      const isEngineAway = await this.#api.requestIfExists('POST', `/containers/${app}/kill`).then(
        () => false,
        error => error.status === 0,
      )
      if (!isEngineAway) return
      await delay(RETRY_MS, undefined, { signal }).catch(() => {})
    }
  }

  async freeze(): Promise<void> {
    for (const id of this.#cpuMs.keys()) await this.#api.requestIfExists('POST', `/containers/${id}/pause`)
  }

  /** One that runs answers with an error. */
  async thaw(): Promise<void> {
    for (const id of this.#cpuMs.keys())
      await this.#api.requestIfExists('POST', `/containers/${id}/unpause`).catch(() => {})
  }

  /** Once it returns, all containers and volumes of the replica are removed. */
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
    // A failed removal is retried by label later.
    void this.#removeContainers(0).catch(() => {})
  }

  /** Lines that were read but not taken by `readLines` are read again by the next agent. */
  release(): void {
    this.#released.abort()
  }

  async #create(recipe: ReplicaParts): Promise<void> {
    for (const { body } of recipe.volumes) await this.#api.ensureVolume(body)
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
    const inspect = () => this.#api.get<InspectedContainer>(`/containers/${app}/json`)
    const { NetworkSettings } = await inspect()
    const published = recipe.port === null ? undefined : NetworkSettings.Ports[`${recipe.port}/tcp`]?.[0]
    for (const sidecar of recipe.sidecars) {
      // If the app has ended, report its end. Podman would start it again together with the sidecar.
      if (!(await inspect()).State.Running) return watched
      const id = await this.#start(sidecar).catch(async error => {
        if (!(await inspect()).State.Running) await watched
        throw error
      })
      void this.#watchSidecar(id, partName(sidecar))
    }
    this.#innerPort = recipe.port ?? undefined
    // Comes last, so a probe sees all sidecars.
    if (published) this.#port = Number(published.HostPort)
  }

  /** The replica may be ended during each request. */
  async #start({ name, body }: CreateRequest): Promise<string> {
    if (this.endReason) throw new DockerApiError(0, 'the replica was ended')
    const { Id } = await this.#api.post<{ Id: string }>('/containers/create', body, { name })
    if (this.endReason) throw new DockerApiError(0, 'the replica was ended')
    await this.#api.post(`/containers/${Id}/start`)
    return Id
  }

  async #watchApp(app: string): Promise<void> {
    this.#appId = app
    this.#cpuMs.set(app, null)
    const state = await followLog(this.#api, app, this.#position(app), this.#released.signal, this.#lineLogger())
    if (state?.OOMKilled) this.isOutOfMemory = true
    if (state) this.#recordEnd(explainExit(state, state.memory))
    else if (!this.#released.signal.aborted) this.#recordEnd('is gone: its container was removed from outside')
  }

  /** Restarts a sidecar that ends. A crash loop of a sidecar ends the replica. */
  async #watchSidecar(id: string, name: string): Promise<void> {
    const { signal } = this.#released
    this.#cpuMs.set(id, null)
    for (let crashes = 1; ; crashes++) {
      const since = Date.now()
      this.#sidecars.set(name, { since, problem: null })
      const state = await followLog(this.#api, id, this.#position(id), signal, this.#lineLogger(name))
      if (signal.aborted || this.endReason) return
      if (Date.now() - since > SIDECAR_CALM_MS) crashes = 1
      const endReason = state ? explainExit(state, state.memory) : 'is gone'
      if (!state || crashes >= MAX_SIDECAR_CRASHES)
        return this.#recordEnd(`lost its sidecar \`${name}\`, which ${endReason}`)
      this.#sidecars.set(name, { since, problem: endReason })
      const pause = SIDECAR_PAUSE_MS * crashes
      this.#addLine(`Sidecar \`${name}\` ${endReason}; restarting in ${pause / 1000} s.`, 'WARNING')
      await delay(pause, undefined, { signal }).catch(() => {})
      if (signal.aborted || this.endReason) return
      const startError = await this.#api.post(`/containers/${id}/start`).then(() => undefined, describeStartError)
      if (startError) return this.#recordEnd(`lost its sidecar \`${name}\`, which ${startError}`)
    }
  }

  #recordEnd(reason: string): void {
    if (this.endReason) return
    this.endReason = reason
    this.onExit()
  }

  #position(id: string): LogPosition {
    this.#positions[id] ??= { ...LOG_START }
    return this.#positions[id]
  }

  #lineLogger = (part?: string) => (message: string, isError: boolean) => {
    this.#unsaved = true
    this.#addLine(part ? `[${part}] ${message}` : message, levelOf(message, isError), isError)
  }

  #addLine(line: string, level: LogLevel, isError = false): void {
    this.#pendingLines.push({ text: line, level, isError })
    this.lastLines.push(line)
    this.lastLines.splice(0, this.lastLines.length - LAST_LINES)
  }

  #stop(id: string, grace: number): Promise<boolean> {
    return this.#api.stopContainer(id, Math.ceil(grace / 1000))
  }

  /** Finds containers by label, which includes those that were being created when the replica was ended. */
  #removeContainers(grace: number): Promise<void> {
    const stop = grace ? (id: string) => this.#stop(id, SIDECAR_STOP_MS) : undefined
    this.#removal ??= removeReplica(this.#api, this.id, stop)
      .catch(error => {
        // The next call retries.
        this.#removal = undefined
        throw error
      })
      // The sweep of orphans removes the rest.
      .finally(() => this.#liveReplicas.delete(this.id))
    return this.#removal
  }
}

/** Sidecars go before the app, whose network they use. */
export const inRemovalOrder = (containers: ListedContainer[]): ListedContainer[] => {
  const isApp = ({ Labels }: ListedContainer) => Number(Labels[ROLE_LABEL] === 'app')
  return containers.toSorted((a, b) => isApp(a) - isApp(b))
}

const partName = ({ body }: CreateRequest) => (body.Labels as Record<string, string>)[PART_LABEL]!

export async function removeReplica(
  api: DockerApi,
  copy: string,
  stop?: (id: string) => Promise<unknown>,
): Promise<void> {
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
