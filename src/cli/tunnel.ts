// The client's end of a terminal or of a forwarded port.
import {
  channels,
  type Exit,
  type Frame,
  isData,
  parseJson,
  type Ready,
  readText,
  type TunnelFailure,
} from '../protocol/tunnel-frames.ts'
import { TunnelLink } from '../protocol/tunnel-link.ts'
import { CommandFailure, EXIT } from './failure.ts'

const LOST = 'The connection to the control plane was lost.'

type Handlers = {
  onErrors?: (bytes: Uint8Array) => void
  onReset?: (stream: number, reason: string) => void
}
export type OpenTunnel = {
  link: TunnelLink
  ready: Ready
  /** Null if the client has closed it. Rejects with the reason if the server or the agent ended it. */
  ended: Promise<Exit | null>
}

/** Resolves once the agent has started what was asked for. */
export async function openTunnel(url: string, { onErrors, onReset }: Handlers = {}): Promise<OpenTunnel> {
  const socket = await openSocket(url)
  const started = makePromise<Ready>()
  const ended = makePromise<Exit | null>()
  let exit: Exit | undefined
  let failure: TunnelFailure | undefined
  const onFrame = ({ channel, stream, payload }: Frame) => {
    if (channel === channels.ready) started.resolve(parseJson<Ready>(payload) ?? {})
    else if (channel === channels.exit) exit = parseJson<Exit>(payload)
    else if (channel === channels.error) failure = parseJson<TunnelFailure>(payload)
    else if (channel === channels.reset) onReset?.(stream, readText(payload))
    else if (isData(channel)) {
      onErrors?.(payload)
      link.consume(payload.length, stream)
    }
  }
  const finish = (code: number) => {
    const reason = new CommandFailure(EXIT.failed, failure?.code ?? 'connection_lost', failure?.detail ?? LOST)
    if (exit) ended.resolve(exit)
    else if (code === 1000 && !failure) ended.resolve(null)
    else ended.reject(reason)
    started.reject(reason)
  }
  const link = new TunnelLink(socket, { onFrame, onClose: finish })
  // A rejection reaches those who wait for either.
  started.promise.catch(() => {})
  ended.promise.catch(() => {})
  return { link, ready: await started.promise, ended: ended.promise }
}

/** Node 20 has neither a WebSocket nor `Promise.withResolvers`. */
async function openSocket(url: string): Promise<WebSocket> {
  if (typeof WebSocket === 'function') return new WebSocket(url)
  const { WebSocket: OlderSocket } = await import('ws')
  const socket = new OlderSocket(url, { perMessageDeflate: false })
  // Its close follows, which says the same.
  socket.on('error', () => {})
  return socket as unknown as WebSocket
}

function makePromise<Value>() {
  let resolve!: (value: Value) => void
  let reject!: (reason: unknown) => void
  const promise = new Promise<Value>((...both) => {
    ;[resolve, reject] = both
  })
  return { promise, resolve, reject }
}

/** The words after `--`, which Commander puts at the end of all others. */
export function splitProgram(args: (string | undefined)[], words = process.argv): [(string | undefined)[], string[]] {
  const at = words.indexOf('--')
  const count = at < 0 ? 0 : words.length - at - 1
  const own = args.slice(0, args.length - count)
  return [own, count === 0 ? [] : (args.slice(-count) as string[])]
}
