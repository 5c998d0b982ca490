// Checks whether a port on the loopback address can be used.
import { once } from 'node:events'
import { createServer } from 'node:net'

/** Returns the reason why the port cannot be bound, or undefined. */
export async function findPortObstacle(port: number): Promise<string | undefined> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
    await new Promise(closed => server.close(closed))
  } catch (error) {
    return (error as NodeJS.ErrnoException).code === 'EADDRINUSE' ? 'is in use' : 'may not be used by this user'
  }
}
