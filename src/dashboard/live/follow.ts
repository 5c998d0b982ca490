// One event stream for all tabs of a browser: the tab that holds the lock reads it and forwards the events. A hidden
// tab releases both, and resumes after its last event when it is shown again.

import type { LiveEvent } from '../api/affected.ts'
import { ApiError, getClient, sessionEnded } from '../api/client.ts'
import { type LiveState, setLive } from './state.ts'

type Message =
  | { type: 'event'; event: LiveEvent }
  | { type: 'state'; state: LiveState['state']; cursor: number | undefined }
  | { type: 'reset' }
  /** A tab that becomes visible asks the reading tab for its state. */
  | { type: 'hello' }

type Callbacks = {
  onEvent: (event: LiveEvent) => void
  /** Events may have been missed: everything may be old. */
  onGap: () => void
}

const HIDDEN_GRACE_MS = 5_000
const POLL_MS = 15_000
const SILENCE_MS = 40_000

/** Browsers offer locks only on https and on this machine. Elsewhere each tab has a stream of its own. */
const withLock = (name: string, signal: AbortSignal, act: () => Promise<void>): Promise<void> =>
  'locks' in navigator ? navigator.locks.request(name, { signal }, act) : act()

export function followEvents(workspace: string, { onEvent, onGap }: Callbacks): () => void {
  const name = `slipway-events-${workspace}`
  const channel = new BroadcastChannel(name)
  let cursor: number | undefined
  let state: LiveState['state'] = 'connecting'
  let isReader = false
  let running: AbortController | undefined
  let hideTimer: ReturnType<typeof setTimeout> | undefined

  const say = (message: Message) => channel.postMessage(message)

  function apply(message: Message): void {
    if (message.type === 'event' && message.event.number > (cursor ?? 0)) {
      cursor = message.event.number
      onEvent(message.event)
    } else if (message.type === 'reset') {
      onGap()
    } else if (message.type === 'state') {
      setLive(message.state)
      const { cursor: theirs } = message
      if (cursor !== undefined && theirs !== undefined && theirs > cursor) onGap()
      cursor = theirs ?? cursor
    }
  }

  function enter(next: LiveState['state']): void {
    state = next
    setLive(next)
    say({ type: 'state', state, cursor })
  }

  async function read(signal: AbortSignal): Promise<void> {
    const after = cursor === undefined ? {} : { query: { after: cursor } }
    const onState = (stream: { state: 'live' | 'reconnecting' }) => {
      // Neither the first reads nor the stream has what happened between them.
      if (stream.state === 'live' && cursor === undefined) onGap()
      enter(stream.state)
    }
    const events = getClient().stream('GET /v2/events/stream', { ...after, signal, onState, silenceMs: SILENCE_MS })
    for await (const item of events) {
      const message: Message =
        item.event === 'message' ? { type: 'event', event: toLiveEvent(item.data) } : { type: 'reset' }
      apply(message)
      say(message)
    }
  }

  async function poll(signal: AbortSignal): Promise<void> {
    enter('polling')
    while (!signal.aborted) {
      await new Promise(resolve => setTimeout(resolve, POLL_MS))
      if (signal.aborted) return
      onGap()
      say({ type: 'reset' })
    }
  }

  function start(): void {
    clearTimeout(hideTimer)
    if (running || document.hidden) return
    if (!navigator.onLine) {
      setLive('offline')
      return
    }
    running = new AbortController()
    const { signal } = running
    say({ type: 'hello' })
    withLock(name, signal, async () => {
      isReader = true
      try {
        await read(signal)
      } catch (error) {
        if (signal.aborted) return
        // The server ends the stream of a session that has ended.
        if (error instanceof ApiError && error.status === 401) sessionEnded.value = true
        else await poll(signal)
      } finally {
        isReader = false
      }
    }).catch(() => {})
  }

  function stop(): void {
    clearTimeout(hideTimer)
    running?.abort()
    running = undefined
  }

  const onVisibility = () => {
    if (document.hidden) hideTimer = setTimeout(stop, HIDDEN_GRACE_MS)
    else start()
  }
  const onOffline = () => {
    stop()
    setLive('offline')
  }
  channel.addEventListener('message', ({ data }: MessageEvent<Message>) => {
    if (data.type !== 'hello') return running && apply(data)
    if (isReader) say({ type: 'state', state, cursor })
  })
  document.addEventListener('visibilitychange', onVisibility)
  addEventListener('offline', onOffline)
  addEventListener('online', start)
  start()

  return () => {
    stop()
    channel.close()
    document.removeEventListener('visibilitychange', onVisibility)
    removeEventListener('offline', onOffline)
    removeEventListener('online', start)
  }
}

const toLiveEvent = ({ number, type, subject, data }: LiveEvent): LiveEvent => ({ number, type, subject, data })
