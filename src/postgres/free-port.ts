// Finds a free TCP port on the loopback address.
import { once } from 'node:events'
import { type AddressInfo, createServer } from 'node:net'

const RESERVED_MS = 10_000
const recentPorts = new Set<number>()

/** A port that no process listens on, and that this process was not given in the last seconds. It is not bound. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await new Promise(closed => server.close(closed))
    if (recentPorts.has(port)) continue
    recentPorts.add(port)
    setTimeout(() => recentPorts.delete(port), RESERVED_MS).unref()
    return port
  }
}
