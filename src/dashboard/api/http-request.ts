// A request of HTTP/1.1 as its bytes (pure): the only one of its connection.

type Request = { method: string; path: string; body?: unknown; headers?: Record<string, string> }

const utf8 = new TextEncoder()
/** A path with a space or a line would be the end of this request, and the begin of another one with its key. */
const PATH = /^\/[\x21-\x7e]*$/

export function encodeRequest({ method, path, body, headers }: Request): Uint8Array {
  if (!PATH.test(path)) throw new Error('The path of a request has characters that no path has.')
  const content = body === undefined ? new Uint8Array() : utf8.encode(JSON.stringify(body))
  const lines = Object.entries({
    Host: '127.0.0.1',
    Connection: 'close',
    Accept: 'application/json, text/event-stream',
    'Content-Type': 'application/json',
    'Content-Length': content.length,
    ...headers,
  })
  // A line in a value would be a header of its own.
  if (lines.some(([, value]) => /[\r\n]/.test(String(value)))) throw new Error('A header has more than a line.')
  const head = utf8.encode(
    `${method} ${path} HTTP/1.1\r\n${lines.map(([name, value]) => `${name}: ${value}\r\n`).join('')}\r\n`,
  )
  const whole = new Uint8Array(head.length + content.length)
  whole.set(head)
  whole.set(content, head.length)
  return whole
}
