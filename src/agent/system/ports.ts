// Finds the users whose processes listen on a port.
import * as fs from 'node:fs'

const TABLES = ['/proc/net/tcp', '/proc/net/tcp6']
const MAX_AGE_MS = 1_000
/** The users that listen on each port, as the tables name it: `:1F90`. */
let listening = new Map<string, number[]>()
let readAt = 0

/**
 * True if a process of another user listens on the port. The kernel takes milliseconds to write its tables, so the
 * probes of a second share one reading: while a process listens, no other user can listen on its port.
 */
export function isPortOfOther(port: number, uid: number): boolean {
  const local = `:${port.toString(16).toUpperCase().padStart(4, '0')}`
  if (Date.now() - readAt > MAX_AGE_MS || !listening.get(local)?.every(user => user === uid)) readTables()
  return listening.get(local)?.some(user => user !== uid) === true
}

function readTables(): void {
  readAt = Date.now()
  listening = new Map()
  for (const line of TABLES.flatMap(file => readOrEmpty(file).split('\n'))) {
    // Fields: number, local address, remote address, state (0A: listening), queues, timer, retransmits, user, …
    if (!line.includes(' 0A ')) continue
    const [, address = '', , state, , , , user] = line.trim().split(/\s+/, 8)
    if (state !== '0A') continue
    const local = address.slice(address.lastIndexOf(':'))
    listening.set(local, [...(listening.get(local) ?? []), Number(user)])
  }
}

function readOrEmpty(file: string): string {
  try {
    return fs.readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
