// Chooses free ports on the loopback address, and finds out who listens on one.
import { once } from 'node:events'
import * as fs from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'

const recentPorts = new Set<number>()

/** A port that is free and was not handed out in the last seconds. */
export async function findFreePort(): Promise<number> {
  for (;;) {
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    const { port } = server.address() as AddressInfo
    await new Promise(closed => server.close(closed))
    if (recentPorts.has(port)) continue
    recentPorts.add(port)
    setTimeout(() => recentPorts.delete(port), 10_000).unref()
    return port
  }
}

export function findPortUsers(port: number): number[] {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  return ['/proc/net/tcp', '/proc/net/tcp6'].flatMap(file =>
    readOrEmpty(file)
      .split('\n')
      // Fields: number, local address, remote address, state (0A: listening), queues, timer, retransmits, user, …
      .map(line => line.trim().split(/\s+/, 8))
      .filter(([, address, , state]) => state === '0A' && address?.endsWith(local))
      .map(fields => Number(fields[7])),
  )
}

function readOrEmpty(file: string): string {
  try {
    return fs.readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
