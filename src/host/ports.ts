// Owns the choice of ports on the loopback address.
import { once } from 'node:events'
import type { AddressInfo } from 'node:net'
import { createServer } from 'node:net'

const LOOPBACK = '127.0.0.1'

/** A port that nobody has right now; whoever wants to be sure binds it. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, LOOPBACK)
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  await new Promise(closed => server.close(closed))
  return port
}

/** Why the port cannot be bound, or undefined when it can. */
export async function findPortObstacle(port: number): Promise<string | undefined> {
  const server = createServer()
  try {
    await once(server.listen(port, LOOPBACK), 'listening')
    await new Promise(closed => server.close(closed))
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? 'is taken' : 'may not be used by this user'
  }
}
