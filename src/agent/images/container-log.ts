// Follows the log of one container line by line, from where the last agent left off, to the container's end.
import { setTimeout as delay } from 'node:timers/promises'
import type { ExitState } from './container-failures.ts'
import type { DockerApi } from './docker-api.ts'

/** Engines tell the time of a line in seconds at worst: up to which of them it was read, and how many lines of that one. */
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

/** How the container ended; undefined when it is gone, or was let go. */
export async function followLog(
  api: DockerApi,
  id: string,
  position: LogPosition,
  signal: AbortSignal,
  told: (message: string, error: boolean) => void,
): Promise<(ContainerState & { memory: number }) | undefined> {
  while (!signal.aborted) {
    const over = new AbortController()
    const open = AbortSignal.any([signal, over.signal])
    waitForExit(api, id, open).then(
      () => over.abort(),
      () => {},
    )
    await readLog(api, id, position, { follow: true, signal: open, onLine: told })
    over.abort()
    if (signal.aborted) return undefined
    try {
      const found = await api.getIfExists<InspectedContainer>(`/containers/${id}/json`)
      if (!found) return undefined
      if (!found.State.Running) {
        // The engine may have broken off before its last lines.
        await readLog(api, id, position, { follow: false, signal, onLine: told })
        return { ...found.State, memory: found.HostConfig.Memory }
      }
    } catch {
      // The engine itself is away for a while.
    }
    await delay(RETRY_MS, undefined, { signal }).catch(() => {})
  }
  return undefined
}

/** An engine may miss the end of what ended as it began, and its log then goes on for ever: so it is looked at too, soon at first. */
async function waitForExit(api: DockerApi, id: string, signal: AbortSignal): Promise<void> {
  for (let pause = FIRST_CHECK_MS; ; pause = Math.min(2 * pause, LONGEST_CHECK_MS)) {
    await delay(pause, undefined, { signal })
    const running = await api.getIfExists<InspectedContainer>(`/containers/${id}/json`).then(
      found => found?.State.Running,
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
  { onLine: told, ...reading }: ReadOptions,
): Promise<void> {
  const from = { ...position }
  let skipped = 0
  // The second before it too: whether an engine means to include the one that it is asked for is its own affair.
  const log = api.streamLog(id, { ...reading, since: Math.max(0, from.second - 1) }, line => {
    const second = Math.floor(Date.parse(line.at) / 1000)
    if (second < from.second || (second === from.second && skipped++ < from.count)) return
    if (second > position.second) Object.assign(position, { second, count: 0 })
    if (second === position.second) position.count++
    told(line.message, line.error)
  })
  await log.catch(() => {})
}
