// Plays the controller of Ingresses: one port of this machine for the hosts of all of them.
import { once } from 'node:events'
import * as http from 'node:http'
import type { AddressInfo } from 'node:net'
import type { Target } from './pod-network.ts'

/** Returns an address at which a URL of the cluster is reached from this machine, with the same `Host`. */
export async function openIngress(
  cleanup: AsyncDisposableStack,
  find: (host: string) => Target | undefined,
): Promise<(url: string) => string> {
  const server = http.createServer((request, response) => {
    const target = find((request.headers.host ?? '').replace(/:\d+$/, ''))
    if (!target) return void response.writeHead(503).end()
    const { method, headers, url: path } = request
    const forwarded = http.request({ ...target, method, headers, path, agent: false }, answer => {
      response.writeHead(answer.statusCode!, answer.headers)
      answer.pipe(response)
      answer.once('error', () => response.destroy())
    })
    forwarded.on('error', () => (response.headersSent ? response.destroy() : response.writeHead(502).end()))
    response.once('close', () => forwarded.destroy())
    request.pipe(forwarded)
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  cleanup.defer(() => {
    server.close()
    server.closeAllConnections()
  })
  const { port } = server.address() as AddressInfo
  return url => {
    const own = new URL(url)
    own.port = String(port)
    return own.href.replace(/\/$/, '')
  }
}
