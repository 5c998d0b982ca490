// The state of the live connection.
import { signal } from '@preact/signals'

export type LiveState = {
  /** `polling`: the stream is refused, so the page reads again every few seconds. */
  state: 'connecting' | 'live' | 'reconnecting' | 'offline' | 'polling'
  since: number
}

export const live = signal<LiveState>({ state: 'connecting', since: Date.now() })

export function setLive(state: LiveState['state']): void {
  if (live.value.state !== state) live.value = { state, since: Date.now() }
}
