// One end of a tunnel, for clients and agents: sends what the receiver has room for, and says what was consumed.
import {
  type Channel,
  channels,
  encodeCredit,
  encodeFrame,
  type Frame,
  HEAD_BYTES,
  isData,
  MAX_FRAME_BYTES,
  MAX_PAYLOAD_BYTES,
  PING_MS,
  readCredit,
  readFrame,
  WINDOW_BYTES,
} from './tunnel-frames.ts'

/** The used part of a WebSocket, as browsers and Node have it. */
type LinkSocket = {
  binaryType: string
  readonly readyState: number
  send(message: Uint8Array<ArrayBuffer>): void
  close(code?: number, reason?: string): void
  addEventListener(type: 'message', listener: (event: { data: unknown }) => void): void
  addEventListener(type: 'close', listener: (event: { code: number; reason: string }) => void): void
}
/** The used part of streams of Node. */
type Source = {
  on(event: 'data', listener: (bytes: Uint8Array) => void): unknown
  pause(): unknown
  resume(): unknown
}
type Sink = {
  write(bytes: Uint8Array, callback: (error?: Error | null) => void): unknown
  end(): unknown
}

type Stream = {
  /** The bytes that the receiver still has room for. */
  room: number
  queue: { channel: Channel; bytes: Uint8Array }[]
  sources: Source[]
  sink: Sink | undefined
  /** Frames for a sink that does not exist yet. Never more than a window. */
  early: Uint8Array[]
  hasEarlyEnd: boolean
  consumed: number
  /** The bytes that have arrived and are not consumed. */
  waiting: number
  onDrained: (() => void)[]
}

const OPEN = 1
/** Fewer frames, while the sender never waits for one. */
const CREDIT_STEP = WINDOW_BYTES / 4

type Handlers = {
  /** Gets every frame but data, credits and pings. */
  onFrame(frame: Frame): void
  onClose(code: number, reason: string): void
}

/** The control plane pings, so silence means that the connection is lost. */
const SILENCE_MS = 3 * PING_MS
/** A peer that is gone answers no close. */
const CLOSE_MS = 5000

export class TunnelLink {
  readonly #socket: LinkSocket
  readonly #streams = new Map<number, Stream>()
  readonly #onClose: Handlers['onClose']
  #isClosed = false
  #silence: ReturnType<typeof setTimeout> | undefined

  constructor(socket: LinkSocket, { onFrame, onClose }: Handlers) {
    this.#socket = socket
    this.#onClose = onClose
    this.#awaitMessage()
    socket.binaryType = 'arraybuffer'
    socket.addEventListener('message', ({ data }) => {
      if (this.#isClosed) return
      this.#awaitMessage()
      if (!(data instanceof ArrayBuffer) || data.byteLength < HEAD_BYTES || data.byteLength > MAX_FRAME_BYTES)
        return this.close('invalid_frame')
      const frame = readFrame(new Uint8Array(data))
      if (!this.#hasRoomFor(frame)) return this.abandon('invalid_frame')
      if (!this.#receive(frame)) onFrame(frame)
    })
    socket.addEventListener('close', ({ code, reason }) => this.#finish(code, reason))
  }

  #awaitMessage(ms = SILENCE_MS): void {
    clearTimeout(this.#silence)
    this.#silence = setTimeout(() => this.abandon(), ms)
  }

  #finish(code: number, reason: string): void {
    clearTimeout(this.#silence)
    if (this.#isClosed) return
    this.#isClosed = true
    this.#onClose(code, reason)
  }

  send(frame: Uint8Array<ArrayBuffer>): void {
    if (this.#socket.readyState === OPEN) this.#socket.send(frame)
  }

  /** Opens a stream of a forwarding, without what came late for an earlier one of the same number. */
  open(stream: number): void {
    this.forget(stream)
    this.send(encodeFrame(channels.open, undefined, stream))
  }

  /** A WebSocket of a client may close with 1000 alone, of the codes of its protocol. */
  close(reason = ''): void {
    if (this.#isClosed) return
    this.#awaitMessage(CLOSE_MS)
    this.#socket.close(1000, reason)
  }

  /** Closes, and does not wait for the peer. */
  abandon(reason = ''): void {
    this.#socket.close(1000, reason)
    this.#finish(1006, reason)
  }

  /** Reads the source as fast as the receiver takes its bytes. */
  readFrom(source: Source, stream = 0, channel: Channel = channels.data): void {
    const state = this.#of(stream)
    state.sources.push(source)
    source.on('data', bytes => {
      state.queue.push({ channel, bytes })
      this.#flush(stream, state)
      if (state.queue.length > 0) source.pause()
    })
  }

  /** The receiver has got all bytes so far. Waits for its room. */
  drained(stream = 0): Promise<void> {
    const state = this.#of(stream)
    if (state.queue.length === 0) return Promise.resolve()
    return new Promise(resolve => state.onDrained.push(resolve))
  }

  /** Sends no more bytes of the stream. */
  end(stream = 0): void {
    void this.drained(stream).then(() => this.send(encodeFrame(channels.end, undefined, stream)))
  }

  /** Writes what arrives. The sender gets room as the sink takes bytes. */
  writeTo(sink: Sink, stream = 0): void {
    const state = this.#of(stream)
    state.sink = sink
    for (const bytes of state.early.splice(0)) this.#write(state, sink, stream, bytes)
    if (state.hasEarlyEnd) sink.end()
  }

  /** For a receiver that has no sink. */
  consume(bytes: number, stream = 0): void {
    const state = this.#streams.get(stream)
    if (state) this.#consume(state, bytes, stream)
  }

  #consume(state: Stream, bytes: number, stream: number): void {
    // Its number may be that of another one by now.
    if (this.#streams.get(stream) !== state) return
    state.consumed += bytes
    state.waiting -= bytes
    if (state.consumed < CREDIT_STEP) return
    this.send(encodeCredit(state.consumed, stream))
    state.consumed = 0
  }

  forget(stream: number): void {
    this.#streams.delete(stream)
  }

  #of(stream: number): Stream {
    const known = this.#streams.get(stream)
    if (known) return known
    const state: Stream = {
      room: WINDOW_BYTES,
      queue: [],
      sources: [],
      sink: undefined,
      early: [],
      hasEarlyEnd: false,
      consumed: 0,
      waiting: 0,
      onDrained: [],
    }
    this.#streams.set(stream, state)
    return state
  }

  /** The relay checks the same, but a sink that is full would fill the memory of this process. */
  #hasRoomFor({ channel, stream, payload }: Frame): boolean {
    if (!isData(channel)) return true
    const state = this.#of(stream)
    state.waiting += payload.length
    return state.waiting <= WINDOW_BYTES
  }

  #receive({ channel, stream, payload }: Frame): boolean {
    if (channel === channels.ping) this.send(encodeFrame(channels.pong))
    else if (channel === channels.credit) {
      const state = this.#streams.get(stream)
      if (!state) return true
      state.room += readCredit(payload)
      this.#flush(stream, state)
    } else if (channel === channels.data || channel === channels.end) {
      const state = this.#of(stream)
      if (!state.sink) {
        if (isData(channel)) state.early.push(payload)
        else state.hasEarlyEnd = true
        return true
      }
      if (isData(channel)) this.#write(state, state.sink, stream, payload)
      else state.sink.end()
    } else return false
    return true
  }

  #write(state: Stream, sink: Sink, stream: number, bytes: Uint8Array): void {
    sink.write(bytes, () => this.#consume(state, bytes.length, stream))
  }

  #flush(stream: number, state: Stream): void {
    for (let first = state.queue[0]; first && state.room > 0; first = state.queue[0]) {
      const length = Math.min(first.bytes.length, state.room, MAX_PAYLOAD_BYTES)
      this.send(encodeFrame(first.channel, first.bytes.subarray(0, length), stream))
      state.room -= length
      if (length === first.bytes.length) state.queue.shift()
      else first.bytes = first.bytes.subarray(length)
    }
    if (state.queue.length > 0) return
    for (const source of state.sources) source.resume()
    for (const resolve of state.onDrained.splice(0)) resolve()
  }
}
