// Holds one pseudo-terminal for the agent. Its binary leaves the descriptor open for each program that is started
// later, also for those of other deployments: this process starts one, and no other.
import * as fs from 'node:fs'
import { Socket } from 'node:net'
import { spawn } from '@lydell/node-pty'
import type { Size } from '../../../protocol/tunnels.schema.ts'
import { moveIntoCgroup, ownCgroup } from '../../system/cgroups.ts'

export type ToPty = {
  argv: string[]
  options: { name: string; cols: number; rows: number; cwd: string; env: Record<string, string> }
  user: { uid: number; gid: number } | undefined
  cgroup: string | undefined
}
export type FromPty = { pid: number } | { exitCode: number; signal: number }
/** The bytes of the terminal, in both directions. */
const WIRE = 4

/** A program in the background may keep the terminal open: then its silence is the end. */
const QUIET_MS = 100
const END_OF_INPUT = Buffer.from([4])
const tell = (message: FromPty, done?: () => void) => process.send!(message, undefined, undefined, done)

process.once('message', ({ argv: [file, ...args], options, user, cgroup }: ToPty) => {
  const wire = new Socket({ fd: WIRE, readable: true, writable: true, allowHalfOpen: true })
  wire.on('error', () => process.exit())
  // The command begins in the cgroup of this process, so that it cannot start another program before.
  const own = cgroup === undefined ? undefined : ownCgroup()
  const hasMoved = own !== undefined && moveIntoCgroup(cgroup!, process.pid)
  const pty = spawn(file!, args, { ...options, ...user, encoding: null })
  if (hasMoved) moveIntoCgroup(own, process.pid)
  const { pid } = pty
  const { ptsName, _socket: terminal } = pty as unknown as { ptsName: string; _socket: Socket }
  // Programs open their terminal again by its name, which they cannot lead elsewhere.
  if (user) fs.chownSync(ptsName, user.uid, user.gid)
  tell({ pid })
  let lastReadAt = 0
  pty.onData(data => {
    lastReadAt = performance.now()
    if (!wire.write(data as unknown as Buffer)) pty.pause()
  })
  wire.on('drain', () => {
    lastReadAt = performance.now()
    pty.resume()
  })
  const destroy = terminal.destroy.bind(terminal)
  // The module does it soon after the end of the command, also while output waits for a reader.
  const destroyOnceRead = () => {
    const isRead = !wire.writableNeedDrain && performance.now() - lastReadAt > QUIET_MS
    if (isRead || wire.destroyed) destroy()
    else setTimeout(destroyOnceRead, QUIET_MS)
  }
  terminal.destroy = error => {
    if (error || terminal.readableEnded) return destroy(error)
    destroyOnceRead()
    return terminal
  }
  pty.onExit(({ exitCode, signal = 0 }) => {
    wire.end(() => tell({ exitCode, signal }, () => process.exit()))
  })
  wire.on('data', bytes => {
    // Until the program reads, which `write()` of the module does not tell.
    wire.pause()
    terminal.write(bytes, () => wire.resume())
  })
  // A terminal has no other end.
  wire.on('end', () => terminal.write(END_OF_INPUT))
  process.on('message', ({ columns, rows }: Size) => {
    try {
      pty.resize(columns, rows)
    } catch {
      // The command has ended.
    }
  })
})
// Without the agent, the terminal hangs up.
process.once('disconnect', () => process.exit())
