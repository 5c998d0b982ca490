// Finds the users whose processes listen on a port, the ports on which processes listen, and whether one answers.
import * as fs from 'node:fs'
import { connect } from 'node:net'

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

/** The TCP ports on which one of the processes listens. Undefined where /proc does not tell. */
export function listListeningPorts(pids: number[]): number[] | undefined {
  const sockets = new Set<string>()
  try {
    for (const pid of pids)
      for (const name of fs.readdirSync(`/proc/${pid}/fd`)) {
        const socket = /^socket:\[(\d+)\]$/.exec(readLink(`/proc/${pid}/fd/${name}`))?.[1]
        if (socket !== undefined) sockets.add(socket)
      }
  } catch {
    return undefined
  }
  const ports = listListeners().flatMap(({ local, socket }) =>
    sockets.has(socket) ? Number.parseInt(local.slice(1), 16) : [],
  )
  return pids.length === 0 ? undefined : [...new Set(ports)].sort((a, b) => a - b)
}

/** Without `timeout` it waits as long as the system does. */
export function acceptsConnection(host: string, port: number, timeout?: number): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host, port, ...(timeout !== undefined && { timeout }) })
    const settle = (accepted: boolean) => () => {
      socket.destroy()
      resolve(accepted)
    }
    socket.once('connect', settle(true)).once('error', settle(false)).once('timeout', settle(false))
  })
}

function readTables(): void {
  readAt = Date.now()
  listening = new Map()
  for (const { local, user } of listListeners()) listening.set(local, [...(listening.get(local) ?? []), user])
}

function listListeners(): { local: string; user: number; socket: string }[] {
  return TABLES.flatMap(file => readOrEmpty(file).split('\n')).flatMap(line => {
    // Fields: number, local address, remote address, state (0A: listening), queues, timer, retransmits, user, timeout,
    // socket, …
    if (!line.includes(' 0A ')) return []
    const [, address = '', , state, , , , user, , socket = ''] = line.trim().split(/\s+/, 10)
    return state === '0A' ? { local: address.slice(address.lastIndexOf(':')), user: Number(user), socket } : []
  })
}

/** A descriptor may be closed in the meantime. */
function readLink(path: string): string {
  try {
    return fs.readlinkSync(path)
  } catch {
    return ''
  }
}

function readOrEmpty(file: string): string {
  try {
    return fs.readFileSync(file, 'latin1')
  } catch {
    return ''
  }
}
