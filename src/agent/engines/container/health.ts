// Whether a container is there: its published port is held open from inside, and where a path is given, what is asked there is well.
import { connect } from 'node:net'
import { probe as ask } from '../local/health.ts'
import type { Health } from '../local/replica-pool.ts'

/** An engine's proxy takes any connection, and drops it when nobody listens behind it. */
const HOLD_MS = 100

export async function probe(port: number, path: string | null, timeout: number): Promise<Health> {
  if (!path && !(await staysOpen(port))) return NOTHING_LISTENS
  const health = await ask(port, path, timeout)
  return health.ok || path ? health : NOTHING_LISTENS
}

const NOTHING_LISTENS: Health = { ok: false, reason: 'nothing in the container listens on the port that PORT names' }

function staysOpen(port: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host: '127.0.0.1', port })
    const told = (held: boolean) => {
      socket.destroy()
      resolve(held)
    }
    socket.once('error', () => told(false)).once('close', () => told(false))
    socket.once('connect', () => setTimeout(told, HOLD_MS, true))
  })
}
