// Commands that run once in a container of their own, which keeps its exit code until it is forgotten.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import type { OneOffRun, RunEnd, WriteLog } from '../../engine.ts'
import { explainExit, explainStartFailure } from '../../images/container-failures.ts'
import { REPLICA_LABEL } from '../../images/container-labels.ts'
import { followLog, type InspectedContainer, LOG_START, type LogPosition } from '../../images/container-log.ts'
import { type DockerApi, DockerApiError } from '../../images/docker-api.ts'
import { describeError } from '../../redaction/error-messages.ts'
import { readJson, writeJson } from '../../system/files.ts'
import { levelOf } from '../../system/line-level.ts'
import type { ListedContainer } from './replica.ts'
import type { runParts } from './replica-spec.ts'

type Options = {
  api: DockerApi
  /** The folder of the log positions. */
  folder: string
  run: OneOffRun
  /** Built when the container does not exist yet. */
  makeParts(): Promise<ReturnType<typeof runParts>>
  log: WriteLog
  signal: AbortSignal
}

const SAVE_MS = 1_000
const GONE: RunEnd = { exit_code: null, reason: 'is gone: its container was removed from outside' }

/**
 * The container is found by its label. Its start is the last step: one that was not started is made again. A position
 * without a container is that of one that was started, and removed since.
 */
export async function runContainer({ api, folder, run, makeParts, log, signal }: Options): Promise<RunEnd> {
  const inspect = (id: string) => api.getIfExists<InspectedContainer>(`/containers/${id}/json`)
  const [existing] = await listRunContainers(api, run.id)
  let id = existing?.State === 'created' ? undefined : existing?.Id
  const file = join(folder, `${run.id}.json`)
  if (!existing && fs.existsSync(file)) return GONE
  if (id === undefined) {
    if (existing) {
      fs.rmSync(file, { force: true })
      await api.removeContainer(existing.Id)
    }
    const { volumes, container } = await makeParts()
    for (const { body } of volumes) await api.ensureVolume(body)
    id = (await api.post<{ Id: string }>('/containers/create', container.body, { name: container.name })).Id
    fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
    writeJson(file, { ...LOG_START })
    try {
      await api.post(`/containers/${id}/start`)
    } catch (error) {
      if (error instanceof DockerApiError && error.status === 0) throw error
      return { exit_code: null, reason: explainStartFailure(describeError(error)) }
    }
  }
  const started = await inspect(id)
  if (!started) return GONE
  const over = new AbortController()
  const deadline = new Date(started.State.StartedAt).getTime() + run.timeout_seconds * 1000
  let isLate = false
  const enforceDeadline = async () => {
    await delay(Math.max(0, deadline - Date.now()), undefined, { signal: AbortSignal.any([signal, over.signal]) })
    isLate = true
    await api.requestIfExists('POST', `/containers/${id}/kill`)
  }
  if (started.State.Running) void enforceDeadline().catch(() => {})

  const position = readJson<LogPosition>(file) ?? { ...LOG_START }
  let savedAt = 0
  const savePosition = () => {
    savedAt = Date.now()
    if (fs.existsSync(folder)) writeJson(file, position)
  }
  const state = await followLog(api, id, position, signal, (line, isError) => {
    log(line, levelOf(line, isError))
    if (Date.now() - savedAt > SAVE_MS) savePosition()
  })
  over.abort()
  savePosition()
  signal.throwIfAborted()
  if (!state) return GONE
  if (isLate || (state.ExitCode === 137 && Date.now() >= deadline))
    return { exit_code: null, reason: `did not end within ${run.timeout_seconds} s and was ended` }
  return { exit_code: state.ExitCode, reason: state.ExitCode === 0 ? null : explainExit(state, state.memory) }
}

const listRunContainers = (api: DockerApi, id: string): Promise<ListedContainer[]> =>
  api.get<ListedContainer[]>('/containers/json', { all: true, filters: { label: [`${REPLICA_LABEL}=${id}`] } })
