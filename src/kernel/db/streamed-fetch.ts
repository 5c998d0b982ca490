// fetch() of bodies that are read slowly, by `node:http`. That of Node 24 ends the process when a server closes the
// connection of a body that waits for its reader (nodejs/undici#5360).
import { once } from 'node:events'
import { type IncomingMessage, request as plain } from 'node:http'
import { request as secure } from 'node:https'

const BODILESS_STATUSES = [204, 205, 304]

/** Follows no redirects, and asks for no compression. Requests with a body go by fetch(): their answers are short. */
export const streamedFetch: typeof fetch = async (input, init) => {
  const request = new Request(input, init)
  const { url, method, headers, signal } = request
  if (method !== 'GET') return fetch(request, { redirect: 'manual' })
  const send = url.startsWith('https:') ? secure : plain
  const outgoing = send(url, { headers: { 'accept-encoding': 'identity', ...Object.fromEntries(headers) }, signal })
  outgoing.end()
  const [incoming] = (await once(outgoing, 'response')) as [IncomingMessage]
  // From here on its stream reports errors.
  outgoing.on('error', () => {})
  return toResponse(incoming)
}

function toResponse(incoming: IncomingMessage): Response {
  const { rawHeaders, statusCode: status = 0 } = incoming
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
        const { done, value } = await parts.next()
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
