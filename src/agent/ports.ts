// Owns the choice of a port for an application on the loopback address.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

const recent = new Set<number>()

/** A port that nobody has right now, and that nobody was given a moment ago. */
export async function freePort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await new Promise(closed => server.close(closed))
    if (recent.has(port)) continue
    recent.add(port)
    setTimeout(() => recent.delete(port), 10_000).unref()
    return port
  }
}
