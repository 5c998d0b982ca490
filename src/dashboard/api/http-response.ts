// A response of HTTP/1.1 while its bytes arrive (pure): the only one of its connection.

export type Head = { status: number; headers: Headers }

const MAX_HEAD_BYTES = 64 * 1024
const LINE_END = [13, 10]
const decoder = new TextDecoder()

const isMark = (bytes: Uint8Array, at: number) => bytes[at] === LINE_END[0] && bytes[at + 1] === LINE_END[1]
function findLineEnd(bytes: Uint8Array, from = 0): number {
  for (let at = from; at < bytes.length - 1; at++) if (isMark(bytes, at)) return at
  return -1
}
function findHeadEnd(bytes: Uint8Array): number {
  for (let at = findLineEnd(bytes); at !== -1; at = findLineEnd(bytes, at + 2)) if (isMark(bytes, at + 2)) return at
  return -1
}

function join(first: Uint8Array, second: Uint8Array): Uint8Array {
  if (first.length === 0) return second
  const both = new Uint8Array(first.length + second.length)
  both.set(first)
  both.set(second, first.length)
  return both
}

function readHead(text: string): Head {
  const [first = '', ...lines] = text.split('\r\n')
  const status = /^HTTP\/1\.[01] ([1-5]\d\d)(?: |$)/.exec(first)?.[1]
  if (status === undefined) throw new Error('The application did not answer with HTTP.')
  const headers = new Headers()
  for (const line of lines) {
    const colon = line.indexOf(':')
    if (colon < 1) throw new Error('The application sent a header that is none.')
    headers.append(line.slice(0, colon), line.slice(colon + 1).trim())
  }
  return { status: Number(status), headers }
}

type Part = 'head' | 'size' | 'chunk' | 'chunk-end' | 'trailers' | 'length' | 'close' | 'done'

export class ResponseReader {
  head: Head | undefined
  #part: Part = 'head'
  #rest: Uint8Array = new Uint8Array()
  /** The bytes that a chunk, or the body, still has. */
  #left = 0

  get isDone(): boolean {
    return this.#part === 'done'
  }

  /** Returns the parts of the body that have come. */
  push(bytes: Uint8Array): Uint8Array[] {
    this.#rest = join(this.#rest, bytes)
    const body: Uint8Array[] = []
    while (!this.isDone && this.#read(body)) {}
    return body
  }

  /** The connection has ended. Returns whether the response was whole. */
  end(): boolean {
    if (this.#part === 'close') this.#part = 'done'
    return this.isDone
  }

  /** False if it needs more bytes. */
  #read(body: Uint8Array[]): boolean {
    switch (this.#part) {
      case 'head':
        return this.#readHead()
      case 'close':
        return this.#take(body, this.#rest.length)
      case 'length':
      case 'chunk':
        if (!this.#take(body, Math.min(this.#left, this.#rest.length))) return false
        if (this.#left === 0) this.#part = this.#part === 'chunk' ? 'chunk-end' : 'done'
        return true
      default:
        return this.#readLine()
    }
  }

  #readHead(): boolean {
    const end = findHeadEnd(this.#rest)
    if (end > MAX_HEAD_BYTES || (end === -1 && this.#rest.length > MAX_HEAD_BYTES))
      throw new Error('The headers of the application are too long.')
    if (end === -1) return false
    const head = readHead(decoder.decode(this.#rest.subarray(0, end)))
    this.#rest = this.#rest.subarray(end + 4)
    // Others follow a provisional one.
    if (head.status < 200) return true
    this.head = head
    const length = head.headers.get('Content-Length')
    this.#left = Number(length ?? 0)
    if (!Number.isSafeInteger(this.#left) || this.#left < 0) throw new Error('The application sent no valid length.')
    if (head.status === 204 || head.status === 304) this.#part = 'done'
    else if (/\bchunked\s*$/i.test(head.headers.get('Transfer-Encoding') ?? '')) this.#part = 'size'
    else if (length === null) this.#part = 'close'
    else this.#part = this.#left === 0 ? 'done' : 'length'
    return true
  }

  /** A size, the end of a chunk, or a line of the trailers, of which the last is empty. */
  #readLine(): boolean {
    const end = findLineEnd(this.#rest)
    if (end === -1) {
      if (this.#rest.length > MAX_HEAD_BYTES) throw new Error('The application sent a line that is too long.')
      return false
    }
    const line = decoder.decode(this.#rest.subarray(0, end))
    this.#rest = this.#rest.subarray(end + 2)
    if (this.#part === 'trailers') this.#part = line === '' ? 'done' : 'trailers'
    else if (this.#part === 'chunk-end') this.#part = 'size'
    else {
      const size = /^[0-9a-f]{1,8}(?=\s*(?:;|$))/i.exec(line)?.[0]
      if (size === undefined) throw new Error('The application sent a chunk without a size.')
      this.#left = Number.parseInt(size, 16)
      this.#part = this.#left === 0 ? 'trailers' : 'chunk'
    }
    return true
  }

  #take(body: Uint8Array[], count: number): boolean {
    if (count === 0) return false
    body.push(this.#rest.subarray(0, count))
    this.#rest = this.#rest.subarray(count)
    this.#left -= count
    return true
  }
}
