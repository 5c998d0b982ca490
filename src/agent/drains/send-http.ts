// Sends a batch by HTTP: one request, compressed, to a checked address. Redirects are not followed.
import { type IncomingMessage, Agent as PlainAgent, request as plain } from 'node:http'
import { Agent as SecureAgent, request as secure } from 'node:https'
import { promisify } from 'node:util'
import { gzip } from 'node:zlib'
import type { Network } from '../../protocol/address-kind.ts'
import { describeRejected, type EncodedBatch, readRejected } from '../../protocol/drain-encoding.ts'
import { parseRetryAfterMs } from '../../protocol/retry-after.ts'
import { failed, type Outcome } from './outcome.ts'
import { createCheckedLookup, requireAllowedLiteral } from './receiver-address.ts'

const compress = promisify(gzip)
const TIMEOUT_MS = 20_000
const MAX_ANSWER_BYTES = 64 * 1024
const MAX_RETRY_AFTER_MS = 300_000
/** The receiver is there and refuses: people must change something, and what waits may still be taken. */
const CONFIGURATION_STATUSES = [401, 403, 404, 405, 407]
const TOO_LARGE = 413

type Options = {
  networks: Network[]
  headers: Record<string, string>
  compression: 'gzip' | 'none'
  signal: AbortSignal
}

/** Connections of one drain, of which it has one at a time. */
export class HttpSender {
  readonly #agents = {
    'http:': new PlainAgent({ keepAlive: true, maxSockets: 1 }),
    'https:': new SecureAgent({ keepAlive: true, maxSockets: 1 }),
  }

  async send({ url: text, contentType, body }: EncodedBatch, options: Options): Promise<Outcome> {
    const { networks, headers, compression, signal } = options
    const url = new URL(text)
    requireAllowedLiteral(url, networks)
    const bytes = compression === 'gzip' ? await compress(body, { level: 1 }) : Buffer.from(body)
    const send = url.protocol === 'https:' ? secure : plain
    const outgoing = send(url, {
      method: 'POST',
      agent: this.#agents[url.protocol as 'https:'],
      lookup: createCheckedLookup(url, networks),
      headers: {
        'User-Agent': 'Slipway',
        ...headers,
        'Content-Type': contentType,
        'Content-Length': bytes.length,
        ...(compression === 'gzip' && { 'Content-Encoding': 'gzip' }),
      },
      signal: AbortSignal.any([signal, AbortSignal.timeout(TIMEOUT_MS)]),
    })
    return new Promise((resolve, reject) => {
      outgoing.once('error', reject)
      outgoing.once('upgrade', (_response, socket) => {
        socket.destroy()
        reject(new Error('the server changed the protocol'))
      })
      outgoing.once('response', response => {
        readStart(response).then(answer => resolve(judge(response, answer)), reject)
      })
      outgoing.end(bytes)
    })
  }

  close(): void {
    for (const agent of Object.values(this.#agents)) agent.destroy()
  }
}

/** The rest of a long answer is not read. */
async function readStart(response: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  let bytes = 0
  for await (const chunk of response as AsyncIterable<Buffer>) {
    bytes += chunk.length
    chunks.push(chunk)
    if (bytes > MAX_ANSWER_BYTES) break
  }
  return Buffer.concat(chunks).toString()
}

function judge({ statusCode: status = 0, headers }: IncomingMessage, answer: string): Outcome {
  if (status >= 200 && status < 300) return judgeAnswer(answer)
  const reason = `The receiver answered ${status}.`
  if (status === TOO_LARGE) return { kind: 'too_large', reason }
  const isOfBatch = status >= 400 && status < 500 && !CONFIGURATION_STATUSES.includes(status) && status !== 429
  if (isOfBatch && status !== 408) return { kind: 'refused', reason }
  if (status >= 300 && status < 400) return failed(`${reason} Redirects are not followed: correct the URL.`)
  return failed(reason, Math.min(MAX_RETRY_AFTER_MS, parseRetryAfterMs(headers['retry-after'], Date.now())))
}

function judgeAnswer(answer: string): Outcome {
  const rejected = readRejected(answer)
  return { kind: 'taken', rejected, ...(rejected > 0 && { reason: describeRejected(rejected) }) }
}
