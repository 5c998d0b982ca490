// A receiver of webhooks: a real HTTP server on the loopback that keeps every request.
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { text } from 'node:stream/consumers'

type Received = {
  id: string
  headers: Record<string, string>
  body: string
  json: ReturnType<typeof JSON.parse>
}
type Answer = (response: ServerResponse, message: Received, request: IncomingMessage) => void

export type Receiver = Awaited<ReturnType<typeof startReceiver>>

/** Answers 204 unless the test sets another `answer`. */
export async function startReceiver() {
  const accept: Answer = response => response.writeHead(204).end()
  const messages: Received[] = []
  const receiver = { url: '', messages, accept, answer: accept, close: () => Promise.resolve() }
  const server = createServer(async (request, response) => {
    const body = await text(request)
    const headers = request.headers as Record<string, string>
    const message = { id: headers['webhook-id']!, headers, body, json: JSON.parse(body) }
    messages.push(message)
    receiver.answer(response, message, request)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  receiver.url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/hook`
  receiver.close = async () => {
    server.closeAllConnections()
    await new Promise(resolve => server.close(resolve))
  }
  return receiver
}
