// Whether a copy is there: its port takes connections, and where a path is given, what is asked there is well.
import * as http from 'node:http'
import { connect } from 'node:net'
import type { Health } from './replica-pool.ts'

/** An application that says "localhost" may listen on one of these only. */
const LOOPBACK = ['127.0.0.1', '::1']

export async function probe(port: number, path: string | null, timeout: number): Promise<Health> {
  for (const host of LOOPBACK) {
    if (!(await acceptsConnection(host, port, timeout))) continue
    const trouble = path && (await findPathProblem(host, port, path, timeout))
    return trouble ? { ok: false, reason: `GET ${path} ${trouble}` } : { ok: true, target: { host, port } }
  }
  return { ok: false, reason: `nothing listens on port ${port}, which the variable PORT names: it has to listen there` }
}

function acceptsConnection(host: string, port: number, timeout: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host, port, timeout })
    const told = (open: boolean) => () => {
      socket.destroy()
      resolve(open)
    }
    socket.once('connect', told(true)).once('error', told(false)).once('timeout', told(false))
  })
}

/** What is wrong with the answer, or undefined. */
function findPathProblem(host: string, port: number, path: string, timeout: number): Promise<string | undefined> {
  return new Promise(resolve => {
    // Also of an answer that never ends: nobody goes on reading it.
    const signal = AbortSignal.timeout(timeout)
    const asked = http.get(
      { host, port, path, agent: false, signal, headers: { 'User-Agent': 'slipway-health' } },
      res => {
        res.resume()
        const { statusCode = 0 } = res
        resolve(statusCode >= 200 && statusCode < 400 ? undefined : `answers ${statusCode}`)
      },
    )
    asked.on('error', error => {
      if (signal.aborted) resolve(`does not answer within ${timeout / 1000} s`)
      else resolve('code' in error ? `breaks off (${error.code})` : error.message)
    })
  })
}
