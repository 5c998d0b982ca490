// A proxy that adds the key: the suite has no option for one. Everything else passes as it is.
import { once } from 'node:events'
import { createServer, request as sendRequest } from 'node:http'
import type { AddressInfo } from 'node:net'

export async function startKeyedProxy(cleanup: AsyncDisposableStack, { url, key }: { url: string; key: string }) {
  const { hostname, port, host } = new URL(url)
  const server = createServer((request, response) => {
    // The suite checks what a server makes of other hosts and origins, so only our own address is replaced.
    const replace = (value: string) => value.replace(`127.0.0.1:${request.socket.localPort}`, host)
    const { host: asked = '', origin } = request.headers
    const headers = { ...request.headers, host: replace(asked), ...(origin && { origin: replace(origin) }) }
    const { method, url: path } = request
    const forwarded = sendRequest(
      { hostname, port, method, path, headers: { ...headers, 'x-api-key': key } },
      answer => {
        response.writeHead(answer.statusCode!, answer.headers)
        answer.pipe(response)
      },
    )
    forwarded.on('error', () => response.destroy())
    response.on('close', () => forwarded.destroy())
    request.pipe(forwarded)
  })
  cleanup.defer(() => {
    server.close()
    server.closeAllConnections()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}`
}
