// Probes a container: its published port stays open and its health path, if any, answers with a status below 400.
import { connect } from 'node:net'
import { probe as probePort } from '../local/health.ts'
import type { Health } from '../local/replica.ts'

/** The engine's proxy accepts any connection, and closes it soon if nothing listens in the container. */
const HOLD_MS = 100

export async function probe(port: number, path: string | null, timeout: number): Promise<Health> {
  if (!path && !(await staysOpen(port))) return NOTHING_LISTENS
  const health = await probePort(port, path, timeout)
  return health.ok || path ? health : NOTHING_LISTENS
}

const NOTHING_LISTENS: Health = {
  ok: false,
  about: 'no_listener',
  reason: 'nothing in the container listens on the port in PORT: listen on that port, on all addresses',
}

function staysOpen(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host: '127.0.0.1', port })
    const settle = (isOpen: boolean) => {
      socket.destroy()
      resolve(isOpen)
    }
    socket.once('error', () => settle(false)).once('close', () => settle(false))
    socket.once('connect', () => setTimeout(settle, HOLD_MS, true))
  })
}
