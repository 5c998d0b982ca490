// Requests to an application, by HTTP through a port that its agent forwards: the page needs no address of it, and no
// rule for other origins. The key of the application is in this object only, never in an address.
import {
  channels,
  encodeFrame,
  type Frame,
  MAX_STREAMS,
  parseJson,
  readText,
  type TunnelFailure,
} from '../../protocol/tunnel-frames.ts'
import { TunnelLink } from '../../protocol/tunnel-link.ts'
import { ApiError, ConnectionError, getClient } from './client.ts'
import { encodeRequest } from './http-request.ts'
import { ResponseReader } from './http-response.ts'

export type ApplicationRequest = {
  method: 'GET' | 'POST' | 'DELETE'
  /** With its query. */
  path: string
  body?: unknown
  headers?: Record<string, string>
  signal?: AbortSignal | undefined
}
type Exchange = { push(bytes: Uint8Array): void; end(): void; fail(error: Error): void }
type Tunnel = { link: TunnelLink; exchanges: Map<number, Exchange>; isOpen: boolean }

const LOST = 'The connection to the application was lost.'
const KEY = 'GRAPHS_API_KEY'

export class Application {
  readonly #deployment: string
  #tunnel: Promise<Tunnel> | undefined
  #key: Promise<string> | undefined
  #lastStream = 0
  #isClosed = false

  constructor(deployment: string) {
    this.#deployment = deployment
  }

  /** Its errors are `ApiError` and `ConnectionError`, as those of the API. */
  async send(request: ApplicationRequest): Promise<Response> {
    this.#key ??= this.#readKey()
    const key = await this.#key
    const response = await this.#exchange(await this.#connect(), request, key)
    if (response.ok) return response
    const text = await response.text()
    throw new ApiError(response, { title: `The application answered ${response.status}`, detail: readDetail(text) })
  }

  async read<Reply>(request: ApplicationRequest): Promise<Reply> {
    const text = await (await this.send(request)).text()
    return (text === '' ? undefined : JSON.parse(text)) as Reply
  }

  /** Ends its streams, too. */
  close(): void {
    this.#isClosed = true
    void this.#tunnel?.then(({ link }) => link.abandon('closed')).catch(() => {})
  }

  /** The key alone, of all secrets. Each reading is an event of the audit log. */
  async #readKey(): Promise<string> {
    const query = { reveal: true, reveal_only: KEY }
    try {
      const { application_key = '' } = await getClient().call('GET /v2/deployments/{deployment_id}', {
        params: { deployment_id: this.#deployment },
        query,
      } as never)
      return application_key
    } catch (error) {
      this.#key = undefined
      throw error
    }
  }

  /** One tunnel for all requests. The next request opens another one after its end. */
  #connect(): Promise<Tunnel> {
    if (this.#isClosed) return Promise.reject(new ConnectionError(LOST))
    this.#tunnel ??= this.#open().catch(error => {
      this.#tunnel = undefined
      throw error
    })
    return this.#tunnel
  }

  async #open(): Promise<Tunnel> {
    const { url } = await getClient().call('POST /v2/deployments/{deployment_id}/forwards', {
      params: { deployment_id: this.#deployment },
      body: {},
    })
    // The installation may call itself by another origin.
    const { pathname, search } = new URL(url)
    const socket = new WebSocket(location.origin.replace(/^http/, 'ws') + pathname + search)
    const { promise, resolve, reject } = Promise.withResolvers<Tunnel>()
    const exchanges = new Map<number, Exchange>()
    let failure: TunnelFailure | undefined
    const onFrame = ({ channel, stream, payload }: Frame) => {
      if (channel === channels.ready) resolve(tunnel)
      else if (channel === channels.error) failure = parseJson<TunnelFailure>(payload)
      else if (channel === channels.reset) {
        const reason = readText(payload)
        if (reason) exchanges.get(stream)?.fail(new ConnectionError(`The application does not answer. ${reason}`))
        else exchanges.get(stream)?.end()
      }
    }
    const onClose = () => {
      const error = new ConnectionError(failure?.detail ?? LOST)
      tunnel.isOpen = false
      this.#tunnel = undefined
      reject(error)
      for (const exchange of exchanges.values()) exchange.fail(error)
    }
    const tunnel: Tunnel = { link: new TunnelLink(socket, { onFrame, onClose }), exchanges, isOpen: true }
    return promise
  }

  /** A connection for each request. Numbers of closed ones are used again, the oldest first. */
  #nextStream({ exchanges }: Tunnel): number {
    for (let i = 0; i < MAX_STREAMS; i++) {
      this.#lastStream = (this.#lastStream % MAX_STREAMS) + 1
      if (!exchanges.has(this.#lastStream)) return this.#lastStream
    }
    throw new ConnectionError('Too many requests wait for this application. Try again in a moment.')
  }

  #exchange(tunnel: Tunnel, { method, path, body, headers, signal }: ApplicationRequest, key: string) {
    signal?.throwIfAborted()
    const { link, exchanges } = tunnel
    if (!tunnel.isOpen) throw new ConnectionError(LOST)
    const bytes = encodeRequest({ method, path, body, headers: { ...headers, ...(key && { 'X-Api-Key': key }) } })
    const stream = this.#nextStream(tunnel)
    const { promise, resolve, reject } = Promise.withResolvers<Response>()
    const reader = new ResponseReader()
    let content: ReadableStreamDefaultController<Uint8Array> | undefined
    let isOver = false
    const finish = (error?: Error) => {
      if (isOver) return
      isOver = true
      signal?.removeEventListener('abort', abort)
      exchanges.delete(stream)
      link.send(encodeFrame(channels.reset, undefined, stream))
      link.forget(stream)
      if (!error) return content?.close()
      reject(error)
      content?.error(error)
    }
    const abort = () => finish(signal!.reason)
    const answer = ({ status, headers }: NonNullable<ResponseReader['head']>) => {
      const source = {
        start(started: typeof content) {
          content = started
        },
        // A cancelled stream can be closed no more.
        cancel() {
          content = undefined
          finish()
        },
      }
      const hasBody = status !== 204 && status !== 304
      resolve(new Response(hasBody ? new ReadableStream<Uint8Array>(source) : null, { status, headers }))
    }
    const exchange: Exchange = {
      push(bytes) {
        if (isOver) return
        try {
          const isNew = reader.head === undefined
          const parts = reader.push(bytes)
          if (isNew && reader.head) answer(reader.head)
          for (const part of parts) content?.enqueue(part)
          if (reader.isDone) finish()
        } catch (error) {
          finish(new ConnectionError((error as Error).message))
        }
      },
      end: () => finish(reader.end() ? undefined : new ConnectionError(LOST)),
      fail: finish,
    }
    exchanges.set(stream, exchange)
    signal?.addEventListener('abort', abort, { once: true })
    link.open(stream)
    link.readFrom({ on: (_, take) => take(bytes), pause() {}, resume() {} }, stream)
    link.writeTo(
      {
        write(part, taken) {
          exchange.push(part)
          taken()
        },
        end: exchange.end,
      },
      stream,
    )
    return promise
  }
}

function readDetail(text: string): string {
  try {
    const { detail, message } = JSON.parse(text) as { detail?: unknown; message?: unknown }
    return String(detail ?? message ?? text)
  } catch {
    return text.slice(0, 500) || 'It gave no reason.'
  }
}
