// Frames of a tunnel, between a client, the relay and an agent: a channel, the number of a stream, and bytes. Pure.

/** A message of a WebSocket is one frame. */
export const MAX_FRAME_BYTES = 64 * 1024
export const HEAD_BYTES = 3
/** The payload of a frame that needs no credit. */
const MAX_CONTROL_BYTES = 4096
export const MAX_PAYLOAD_BYTES = MAX_FRAME_BYTES - HEAD_BYTES
/** The bytes of a stream that its receiver has not consumed yet, in each direction. It bounds every buffer. */
export const WINDOW_BYTES = 256 * 1024
/** Connections of one forwarding at a time. */
export const MAX_STREAMS = 32
/** Each end answers a ping, so that a dead one is noticed. */
export const PING_MS = 20_000

export const channels = {
  /** Bytes: input of a client, output of an agent. */
  data: 0,
  /** Bytes of standard error. */
  errors: 1,
  /** The sender sends no more bytes of this stream. */
  end: 2,
  /** 32 bits: the number of bytes that the receiver has consumed since the last one. */
  credit: 3,
  /** A client opens a stream of a forwarding. */
  open: 4,
  /** A stream of a forwarding is closed. Text: the reason, or nothing. */
  reset: 5,
  /** JSON: the size of the terminal. */
  resize: 6,
  /** Text: the name of a signal. */
  signal: 7,
  /** The agent has started. JSON: see `Ready`. */
  ready: 8,
  /** The command has ended. JSON: see `Exit`. */
  exit: 9,
  /** JSON: the reason why the tunnel ends. */
  error: 10,
  ping: 11,
  pong: 12,
} as const
export type Channel = (typeof channels)[keyof typeof channels]

export type Frame = { channel: number; stream: number; payload: Uint8Array }
export type Exit = { code: number | null; signal: string | null }
export type TunnelFailure = { code: string; detail: string }
/** `store` has the login of a database or cache, for the program of the client. */
export type Ready = { store?: { user: string | null; password: string | null; database: string | null } }

const fromClient: number[] = [0, 2, 3, 4, 5, 6, 7, 12]
const fromAgent: number[] = [0, 1, 2, 3, 5, 8, 9, 10, 12]
const ALLOWED = { client: new Set(fromClient), agent: new Set(fromAgent) }
export type Side = keyof typeof ALLOWED

const utf8 = new TextEncoder()
const decoder = new TextDecoder()
const EMPTY = new Uint8Array()

export function encodeFrame(channel: Channel, payload: Uint8Array = EMPTY, stream = 0): Uint8Array<ArrayBuffer> {
  const frame = new Uint8Array(HEAD_BYTES + payload.length)
  frame[0] = channel
  frame[1] = stream >> 8
  frame[2] = stream & 255
  frame.set(payload, HEAD_BYTES)
  return frame
}

export const encodeText = (channel: Channel, text: string, stream = 0) =>
  encodeFrame(channel, utf8.encode(text).subarray(0, MAX_CONTROL_BYTES), stream)
export const encodeJson = (channel: Channel, value: object) => encodeText(channel, JSON.stringify(value))

export function encodeCredit(bytes: number, stream: number) {
  const payload = new Uint8Array(4)
  new DataView(payload.buffer).setUint32(0, bytes)
  return encodeFrame(channels.credit, payload, stream)
}

/** Undefined for what no sender of this side may send. */
export function decodeFrame(message: Uint8Array, sender: Side): Frame | undefined {
  if (message.length < HEAD_BYTES || message.length > MAX_FRAME_BYTES) return undefined
  const channel = message[0]!
  const stream = message[1]! * 256 + message[2]!
  if (!ALLOWED[sender].has(channel) || stream > MAX_STREAMS) return undefined
  if (!isData(channel) && message.length > HEAD_BYTES + MAX_CONTROL_BYTES) return undefined
  return { channel, stream, payload: message.subarray(HEAD_BYTES) }
}

/** A frame of the relay or of the other end, which the relay has checked. */
export const readFrame = (message: Uint8Array): Frame => ({
  channel: message[0] ?? channels.ping,
  stream: (message[1] ?? 0) * 256 + (message[2] ?? 0),
  payload: message.subarray(HEAD_BYTES),
})

export const isData = (channel: number): boolean => channel === channels.data || channel === channels.errors
export const readText = (payload: Uint8Array): string => decoder.decode(payload)
export const readCredit = (payload: Uint8Array): number =>
  payload.length === 4 ? new DataView(payload.buffer, payload.byteOffset, 4).getUint32(0) : 0

export function parseJson<T>(payload: Uint8Array): T | undefined {
  try {
    return JSON.parse(readText(payload)) as T
  } catch {
    return undefined
  }
}
