// The client's end of a terminal or of a forwarded port.
import type { ClientRequest, IncomingMessage } from 'node:http'
import { text } from 'node:stream/consumers'
import { WebSocket as NodeSocket } from 'ws'
import { ApiError, ConnectionError, isProblem } from '../client/errors.ts'
import { DEFAULT_RETRY, pause, retryDelay } from '../client/retry.ts'
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

export const CONNECTION_LOST = 'connection_lost'
const LOST = 'The connection to the control plane was lost.'

type Handlers = {
  signal: AbortSignal
  /** The agent may be asked twice to start it. */
  isRepeatable?: boolean
  onErrors?: (bytes: Uint8Array) => void
  onReset?: (stream: number, reason: string) => void
}
export type OpenTunnel = {
  link: TunnelLink
  ready: Ready
  /** Null if the client has closed it. Rejects with the reason if the server or the agent ended it. */
  ended: Promise<Exit | null>
}

/**
 * Resolves once the agent has started what was asked for. What fails for a moment is repeated as other requests are,
 * with another URL, because each works once.
 */
export async function openTunnel(ask: () => Promise<string>, handlers: Handlers): Promise<OpenTunnel> {
  for (let attempt = 1; ; attempt++) {
    const { started, ...tunnel } = connect(await ask(), handlers)
    try {
      return { ...tunnel, ready: await started }
    } catch (error) {
      const delayMs = retryDelay(error, attempt, DEFAULT_RETRY)
      if (delayMs === undefined) throw error
      await pause(delayMs, handlers.signal)
    }
  }
}

function connect(url: string, { isRepeatable, onErrors, onReset }: Handlers) {
  const started = makePromise<Ready>()
  const ended = makePromise<Exit | null>()
  let isStarted = false
  let exit: Exit | undefined
  let failure: TunnelFailure | undefined
  let refusal: ApiError | undefined
  const onFrame = ({ channel, stream, payload }: Frame) => {
    if (channel === channels.ready) {
      isStarted = true
      started.resolve(parseJson<Ready>(payload) ?? {})
    } else if (channel === channels.exit) exit = parseJson<Exit>(payload)
    else if (channel === channels.error) failure = parseJson<TunnelFailure>(payload)
    else if (channel === channels.reset) onReset?.(stream, readText(payload))
    else if (isData(channel)) {
      onErrors?.(payload)
      link.consume(payload.length, stream)
    }
  }
  const describeEnd = () => {
    if (refusal) return refusal
    if (!failure && isRepeatable && !isStarted) return new ConnectionError(LOST)
    return new CommandFailure(EXIT.failed, failure?.code ?? CONNECTION_LOST, failure?.detail ?? LOST)
  }
  const finish = (code: number) => {
    const reason = describeEnd()
    if (exit) ended.resolve(exit)
    else if (code === 1000 && !failure) ended.resolve(null)
    else ended.reject(reason)
    started.reject(reason)
  }
  const socket = openSocket(url, answer => {
    refusal = answer
  })
  const link = new TunnelLink(socket, { onFrame, onClose: finish })
  // A rejection reaches those who wait for either.
  started.promise.catch(() => {})
  ended.promise.catch(() => {})
  return { link, started: started.promise, ended: ended.promise }
}

/** The WebSocket of Node does not tell why a server refuses it. */
function openSocket(url: string, onRefused: (refusal: ApiError) => void): WebSocket {
  const socket = new NodeSocket(url, { perMessageDeflate: false })
  // Its close follows, which says the same.
  socket.on('error', () => {})
  socket.on('unexpected-response', async (request: ClientRequest, answer: IncomingMessage) => {
    const body = await text(answer)
      .then(JSON.parse)
      .catch(() => null)
    const status = answer.statusCode!
    const headers = new Headers(answer.headers as Record<string, string>)
    onRefused(new ApiError({ status, headers }, isProblem(body) ? body : { detail: `The server answered ${status}.` }))
    request.destroy()
    socket.terminate()
  })
  return socket as unknown as WebSocket
}

/** Node 20 has no `Promise.withResolvers`. */
function makePromise<Value>() {
  let resolve!: (value: Value) => void
  let reject!: (reason: unknown) => void
  const promise = new Promise<Value>((...both) => {
    ;[resolve, reject] = both
  })
  return { promise, resolve, reject }
}
