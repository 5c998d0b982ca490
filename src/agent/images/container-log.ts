// Follows the log of one container line by line, from the position of the last agent, to the container's exit.
import { setTimeout as delay } from 'node:timers/promises'
import type { ExitState } from './container-failures.ts'
import type { DockerApi } from './docker-api.ts'

/** Some engines date lines in whole seconds only: the last second that was read, and the number of its lines. */
export type LogPosition = { second: number; count: number }
export const LOG_START: LogPosition = { second: 0, count: 0 }
export type ContainerState = ExitState & { Running: boolean; StartedAt: string }
export type InspectedContainer = {
  Id: string
  State: ContainerState
  HostConfig: { Memory: number }
  NetworkSettings: { Ports: Record<string, { HostIp: string; HostPort: string }[] | null> }
}

const RETRY_MS = 500
const FIRST_CHECK_MS = 500
const LONGEST_CHECK_MS = 10_000

/** The exit state; undefined if the container is gone or the signal was aborted. */
export async function followLog(
  api: DockerApi,
  id: string,
  position: LogPosition,
  signal: AbortSignal,
  onLine: (message: string, error: boolean) => void,
): Promise<(ContainerState & { memory: number }) | undefined> {
  while (!signal.aborted) {
    const over = new AbortController()
    const open = AbortSignal.any([signal, over.signal])
    waitForExit(api, id, open).then(
      () => over.abort(),
      () => {},
    )
    await readLog(api, id, position, { follow: true, signal: open, onLine })
    over.abort()
    if (signal.aborted) return undefined
    try {
      const container = await api.getIfExists<InspectedContainer>(`/containers/${id}/json`)
      if (!container) return undefined
      if (!container.State.Running) {
        // The stream may have ended before the last lines.
        await readLog(api, id, position, { follow: false, signal, onLine })
        return { ...container.State, memory: container.HostConfig.Memory }
      }
    } catch {
      // The engine is unreachable: retry.
    }
    await delay(RETRY_MS, undefined, { signal }).catch(() => {})
  }
  return undefined
}

/** Polls, because the log stream of a container that exits at once may never end in some engines. */
async function waitForExit(api: DockerApi, id: string, signal: AbortSignal): Promise<void> {
  for (let pause = FIRST_CHECK_MS; ; pause = Math.min(2 * pause, LONGEST_CHECK_MS)) {
    await delay(pause, undefined, { signal })
    const running = await api.getIfExists<InspectedContainer>(`/containers/${id}/json`).then(
      container => container?.State.Running,
      () => true,
    )
    if (!running) return
  }
}

type ReadOptions = { follow: boolean; signal: AbortSignal; onLine: (message: string, error: boolean) => void }

async function readLog(
  api: DockerApi,
  id: string,
  position: LogPosition,
  { onLine, ...options }: ReadOptions,
): Promise<void> {
  const from = { ...position }
  let skipped = 0
  // Starts one second earlier, because engines disagree on whether `since` is inclusive.
  const log = api.streamLog(id, { ...options, since: Math.max(0, from.second - 1) }, line => {
    const second = Math.floor(Date.parse(line.at) / 1000)
    if (second < from.second || (second === from.second && skipped++ < from.count)) return
    if (second > position.second) Object.assign(position, { second, count: 0 })
    if (second === position.second) position.count++
    onLine(line.message, line.error)
  })
  await log.catch(() => {})
}
