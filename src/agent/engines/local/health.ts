// Probes a replica: its port accepts connections and its health path, if any, answers with a status below 400.
import * as http from 'node:http'
import { stripControlCharacters } from '../../system/last-lines.ts'
import { acceptsConnection } from '../../system/ports.ts'
import type { Health, Unhealthy } from './replica.ts'

/** An application that listens on "localhost" may use only one of these. */
const LOOPBACK = ['127.0.0.1', '::1']

export async function probe(port: number, path: string | null, timeout: number): Promise<Health> {
  for (const host of LOOPBACK) {
    if (!(await acceptsConnection(host, port, timeout))) continue
    const problem = path && (await findPathProblem(host, port, path, timeout))
    return problem ? { ok: false, reason: `GET ${path} ${problem}` } : { ok: true, target: { host, port } }
  }
  const reason = `nothing listens on port ${port}, the value of PORT: listen on that port`
  return { ok: false, reason, about: 'no_listener' }
}

/** `ports`: those on which it listens. `port`: the value of PORT. */
export function describeListening(ports: number[], port: number): Unhealthy {
  if (ports.length === 0)
    return {
      ok: false,
      reason: `it listens on no port: it must listen on PORT ${port}, also if it only works in the background`,
      about: 'no_listener',
    }
  const reason = ports.includes(port)
    ? `it listens on PORT ${port}, but cannot be reached there: make it listen at all addresses (0.0.0.0)`
    : `it listens on ${ports.join(' and ')}, not on PORT ${port}: make it listen on the port in PORT`
  return { ok: false, reason, about: 'other_port' }
}

const ANNOUNCING = /listen|serving|running|start|ready|local:/i
const SEPARATORS = /[\s/,;()"'<>]+/
const IS_PORT = /^\d{2,5}$/

/** The port that the log names as the one on which it listens. */
export function findAnnouncedPort(lines: string[]): number | undefined {
  const announcing = lines.map(stripControlCharacters).filter(line => ANNOUNCING.test(line))
  return announcing.flatMap(line => line.split(SEPARATORS).flatMap(portOf)).at(-1)
}

/** Reads `localhost:3000`, `0.0.0.0:3000`, `[::]:3000`, `:3000`, `port:3000`, and a number after `port`. */
function portOf(word: string, i: number, words: string[]): number | [] {
  const [host, port] = [word.slice(0, word.lastIndexOf(':')), word.slice(word.lastIndexOf(':') + 1)]
  const isAddress = word.includes(':') && (/^(localhost|port|\*|)$/i.test(host) || /[.\]]/.test(host))
  const isNamed = port === word && /^port:?$/i.test(words[i - 1] ?? '')
  return IS_PORT.test(port) && (isAddress || isNamed) ? Number(port) : []
}

/** Undefined if the answer is healthy. */
function findPathProblem(host: string, port: number, path: string, timeout: number): Promise<string | undefined> {
  return new Promise(resolve => {
    // It also ends an answer that never ends.
    const signal = AbortSignal.timeout(timeout)
    const request = http.get(
      { host, port, path, agent: false, signal, headers: { 'User-Agent': 'slipway-health' } },
      res => {
        res.resume()
        const { statusCode = 0 } = res
        resolve(statusCode >= 200 && statusCode < 400 ? undefined : `answers ${statusCode}`)
      },
    )
    request.on('error', error => {
      if (signal.aborted) resolve(`does not answer within ${timeout / 1000} s`)
      else resolve('code' in error ? `broke the connection (${error.code})` : error.message)
    })
    // Without a listener, such an answer would settle nothing.
    request.on('upgrade', (_, socket) => {
      socket.destroy()
      resolve('changes the protocol')
    })
  })
}
