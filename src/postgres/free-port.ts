// Finds a free TCP port on the loopback address.
import { randomInt } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:net'

/**
 * Systems give none of these to a connection, or to a server that asks for any port: Linux does from 32768, others from
 * 49152 on. So a port that is kept stays free while its server starts, or is down.
 */
const [FIRST, LAST] = [20_000, 29_999]
const MAX_TRIES = 1_000
const RESERVED_MS = 10_000
const recentPorts = new Set<number>()

/** A port that no process listens on, and that this process was not given in the last seconds. It is not bound. */
export async function findFreePort(): Promise<number> {
  for (let tries = 0; tries < MAX_TRIES; tries++) {
    const port = randomInt(FIRST, LAST + 1)
    if (recentPorts.has(port) || !(await isFree(port)) || recentPorts.has(port)) continue
    recentPorts.add(port)
    setTimeout(() => recentPorts.delete(port), RESERVED_MS).unref()
    return port
  }
  throw new Error(`No port from ${FIRST} to ${LAST} is free on 127.0.0.1. End a program that listens there.`)
}

async function isFree(port: number): Promise<boolean> {
  const server = createServer()
  try {
    await once(server.listen(port, '127.0.0.1'), 'listening')
  } catch {
    return false
  }
  await new Promise(closed => server.close(closed))
  return true
}
