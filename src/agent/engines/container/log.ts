// Follows the log of one container line by line, from where the last agent left off, to the container's end.
import { setTimeout as delay } from 'node:timers/promises'
import type { ContainerApi } from './api.ts'
import type { Ended } from './failures.ts'

/** Engines tell the time of a line in seconds at worst: up to which of them it was read, and how many lines of that one. */
export type Position = { second: number; count: number }
export const BEGINNING: Position = { second: 0, count: 0 }
export type State = Ended & { Running: boolean; StartedAt: string }
export type Inspected = {
  Id: string
  State: State
  HostConfig: { Memory: number }
  NetworkSettings: { Ports: Record<string, { HostIp: string; HostPort: string }[] | null> }
}

const AGAIN_MS = 500
const LOOK_MS = 500
const LOOK_AT_MOST_MS = 10_000

/** How the container ended; undefined when it is gone, or was let go. */
export async function follow(
  api: ContainerApi,
  id: string,
  position: Position,
  signal: AbortSignal,
  told: (message: string, error: boolean) => void,
): Promise<(State & { memory: number }) | undefined> {
  while (!signal.aborted) {
    const over = new AbortController()
    const open = AbortSignal.any([signal, over.signal])
    ended(api, id, open).then(
      () => over.abort(),
      () => {},
    )
    await read(api, id, position, { follow: true, signal: open, told })
    over.abort()
    if (signal.aborted) return undefined
    try {
      const found = await api.find<Inspected>(`/containers/${id}/json`)
      if (!found) return undefined
      if (!found.State.Running) {
        // The engine may have broken off before its last lines.
        await read(api, id, position, { follow: false, signal, told })
        return { ...found.State, memory: found.HostConfig.Memory }
      }
    } catch {
      // The engine itself is away for a while.
    }
    await delay(AGAIN_MS, undefined, { signal }).catch(() => {})
  }
  return undefined
}

/** An engine may miss the end of what ended as it began, and its log then goes on for ever: so it is looked at too, soon at first. */
async function ended(api: ContainerApi, id: string, signal: AbortSignal): Promise<void> {
  for (let pause = LOOK_MS; ; pause = Math.min(2 * pause, LOOK_AT_MOST_MS)) {
    await delay(pause, undefined, { signal })
    const running = await api.find<Inspected>(`/containers/${id}/json`).then(
      found => found?.State.Running,
      () => true,
    )
    if (!running) return
  }
}

type Reading = { follow: boolean; signal: AbortSignal; told: (message: string, error: boolean) => void }

async function read(api: ContainerApi, id: string, position: Position, { told, ...reading }: Reading): Promise<void> {
  const from = { ...position }
  let skipped = 0
  // The second before it too: whether an engine means to include the one that it is asked for is its own affair.
  const log = api.log(id, { ...reading, since: Math.max(0, from.second - 1) }, line => {
    const second = Math.floor(Date.parse(line.at) / 1000)
    if (second < from.second || (second === from.second && skipped++ < from.count)) return
    if (second > position.second) Object.assign(position, { second, count: 0 })
    if (second === position.second) position.count++
    told(line.message, line.error)
  })
  await log.catch(() => {})
}
