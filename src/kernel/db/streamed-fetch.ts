// fetch() of bodies that are read slowly, by `node:http`. That of Node 24 ends the process when a server closes the
// connection of a body that waits for its reader (nodejs/undici#5360).
import { once } from 'node:events'
import { type ClientRequest, type IncomingMessage, request as plain } from 'node:http'
import { request as secure } from 'node:https'

const BODILESS_STATUSES = [204, 205, 304]
/** A body that sends nothing for so long while it is read has ended, as in fetch(). */
const STALL_MS = 300_000

/** Follows no redirects, and asks for no compression. Requests with a body go by fetch(): their answers are short. */
export const streamedFetch: typeof fetch = (input, init) => fetchStreamed(input, init, STALL_MS)

export async function fetchStreamed(
  input: string | URL | Request,
  init: RequestInit | undefined,
  stall_ms: number,
): Promise<Response> {
  const request = new Request(input, init)
  const { url, method, headers } = request
  if (method !== 'GET') return fetch(request, { redirect: 'manual' })
  // The signal of the Request aborts nothing any more once the Request is collected as garbage.
  const signal = init?.signal ?? request.signal
  const send = url.startsWith('https:') ? secure : plain
  const outgoing = send(url, { headers: { 'accept-encoding': 'identity', ...Object.fromEntries(headers) }, signal })
  // Once there is a response, its stream reports errors.
  outgoing.on('error', () => {})
  endOnUpgrade(outgoing)
  outgoing.end()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  try {
    return toResponse(incoming, stall_ms)
  } catch (error) {
    incoming.destroy()
    throw error
  }
}

/** Nothing asked for another protocol. Without a listener the request would never end. */
function endOnUpgrade(outgoing: ClientRequest): void {
  outgoing.on('upgrade', (_response, socket) => {
    socket.destroy()
    outgoing.emit('error', new Error('the server changed the protocol'))
  })
}

function toResponse(incoming: IncomingMessage, stall_ms: number): Response {
  const { rawHeaders, statusCode: status = 0 } = incoming
  // Not every Response refuses it.
  if (status < 200 || status > 599) throw new RangeError(`the server answered with the status ${status}`)
  const headers = new Headers()
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i]!, rawHeaders[i + 1]!)
  if (BODILESS_STATUSES.includes(status)) {
    incoming.resume()
    return new Response(null, { status, headers })
  }
  // An error before the first read is found by that read. Without a listener it would end the process.
  incoming.on('error', () => {})
  const parts = incoming[Symbol.asyncIterator]() as AsyncIterator<Buffer<ArrayBuffer>>
  const body = new ReadableStream<Uint8Array<ArrayBuffer>>(
    {
      async pull(controller) {
        const stall = () => incoming.destroy(new Error('the server sent nothing for too long'))
        const timer = setTimeout(stall, stall_ms)
        const { done, value } = await parts.next().finally(() => clearTimeout(timer))
        if (done) controller.close()
        else controller.enqueue(value)
      },
      cancel() {
        incoming.destroy()
      },
    },
    { highWaterMark: 0 },
  )
  return new Response(body, { status, headers })
}
