// Finds the users whose processes listen on a port.
import * as fs from 'node:fs'

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
