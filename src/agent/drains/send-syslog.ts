// Sends a batch by syslog over TLS. Syslog has no answer: the batch counts as taken once the receiver, which has read
// to the end of the connection, has closed its side, too.
import { connect as connectPlainly, isIP, type Socket } from 'node:net'
import { connect as connectSecurely } from 'node:tls'
import type { Network } from '../../protocol/address-kind.ts'
import { failed, type Outcome } from './outcome.ts'
import { createCheckedLookup, hostOf, requireAllowedLiteral } from './receiver-address.ts'

const TIMEOUT_MS = 20_000
/** Some receivers never close. Theirs is taken once the system has sent it. */
const CLOSE_MS = 5000
const [MIN_ROUND_TRIPS_MS, MAX_ROUND_TRIPS_MS] = [20, 1000]
const DEFAULT_PORT = 6514

type Options = { url: string; networks: Network[]; signal: AbortSignal; ca?: string | undefined }

export async function sendSyslog(bytes: Buffer, { url: text, networks, signal, ca }: Options): Promise<Outcome> {
  signal.throwIfAborted()
  const url = new URL(text)
  requireAllowedLiteral(url, networks)
  const host = hostOf(url)
  const to = { host, port: Number(url.port || DEFAULT_PORT), lookup: createCheckedLookup(url, networks) }
  const startedAt = performance.now()
  const isSecure = url.protocol === 'tls:'
  const socket: Socket = isSecure
    ? connectSecurely({ ...to, ...(isIP(host) === 0 && { servername: host }), ...(ca && { ca }) })
    : connectPlainly(to)
  const { promise, resolve, reject } = Promise.withResolvers<Outcome>()
  const interrupt = () => socket.destroy(new Error('It was interrupted.'))
  const late = setTimeout(() => socket.destroy(new Error('The receiver does not take the lines.')), TIMEOUT_MS)
  let closing: NodeJS.Timeout | undefined
  signal.addEventListener('abort', interrupt)
  socket.once('error', reject)
  socket.once('close', () => resolve(failed('The receiver closed the connection early.')))
  let hasEnded = false
  socket.once(isSecure ? 'secureConnect' : 'connect', () => {
    const roundTripsMs = performance.now() - startedAt
    socket.resume()
    socket.once('end', () => {
      if (hasEnded && socket.writableFinished) resolve({ kind: 'taken', rejected: 0 })
    })
    socket.write(bytes, () => {
      // A receiver that closes by itself has not read to the end. Its close is on its way for a round trip.
      closing = setTimeout(
        () => {
          hasEnded = true
          socket.end(() => {
            closing = setTimeout(() => resolve({ kind: 'taken', rejected: 0 }), CLOSE_MS)
          })
        },
        Math.min(MAX_ROUND_TRIPS_MS, Math.max(MIN_ROUND_TRIPS_MS, roundTripsMs)),
      )
    })
  })
  try {
    return await promise
  } finally {
    clearTimeout(late)
    clearTimeout(closing)
    signal.removeEventListener('abort', interrupt)
    socket.on('error', () => {})
    socket.destroy()
  }
}
