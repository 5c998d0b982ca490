// Connections to copies on this machine, for forwarded ports.
import { once } from 'node:events'
import { connect, type Socket } from 'node:net'
import type { Replica } from './replica.ts'

const CONNECT_MS = 5000
export async function connectHere(port: number, host = 'localhost'): Promise<Socket> {
  const socket = connect({ port, host })
  const signal = AbortSignal.timeout(CONNECT_MS)
  await once(socket, 'connect', { signal }).catch(error => {
    socket.destroy()
    throw error
  })
  return socket
}

/** The sentence for a copy that runs no command. */
export function describeMissingCopy(copy: Replica | undefined, number: number | null | undefined): string {
  if (copy) return 'This deployment is a static site: it has no process.'
  return number == null ? 'No copy of this revision runs.' : `Copy ${number} does not run.`
}
