// Processes that are never lost: each leaves a mark on disk before it becomes what it is, by which the next agent finds it.
import { type ChildProcess, type SpawnOptions, spawn } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { readJson, writeJson } from './files.ts'
import { endGroup, endLeftOf, type Identity, identityOf, isAlive, processes, signal } from './processes.ts'

const GONE = '.gone'
/**
 * The shell writes down who it is, and then becomes the program: there is no moment in which it runs and nobody could
 * find it. Where the folder is gone, its agent was killed and the next one has already looked: it leaves.
 */
const SHELL = 'echo $$ > "$0/pid" && exec "$@"'

type Marked = { child: ChildProcess; identity: Identity | undefined }

/** In a group of its own. Its environment has to hold `SLIPWAY_REVISION_ID`: a pid alone may be anyone's. */
export function spawnMarked(folder: string, command: string[], options: SpawnOptions): Marked {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  const child = spawn('/bin/sh', ['-c', SHELL, folder, ...command], { ...options, detached: true })
  const identity = child.pid ? identityOf(child.pid) : undefined
  if (identity) writeJson(join(folder, 'identity.json'), identity)
  return { child, identity }
}

type Read = (folder: string) => void

/** The one that still runs; otherwise nothing of it does when this returns, and the folder was read and is gone. */
export async function findMarked(
  folder: string,
  revision: string,
  grace: number,
  read: Read,
): Promise<Identity | undefined> {
  const identity = readJson<Identity>(join(folder, 'identity.json'))
  if (identity && isAlive(identity) && !folder.endsWith(GONE)) return identity
  await endMarked(folder, revision, grace, read)
  return undefined
}

export async function endMarked(folder: string, revision: string, grace: number, read?: Read): Promise<void> {
  if (!fs.existsSync(folder)) return
  // From here on a shell that has not written its number yet cannot: it leaves.
  const gone = folder.endsWith(GONE) ? folder : folder + GONE
  if (gone !== folder) fs.renameSync(folder, gone)
  const identity = readJson<Identity>(join(gone, 'identity.json'))
  if (identity && isAlive(identity)) await endGroup(identity.pid, grace)
  else if (identity) await endLeftOf(identity, grace)
  else {
    const pid = numberIn(join(gone, 'pid'))
    if (pid && runsRevision(pid, revision)) await endGroup(pid, grace)
  }
  read?.(gone)
  fs.rmSync(gone, { recursive: true, force: true })
}

/** What left its group, as daemons do, still carries the revision that it was begun for: to be asked when nothing of that one is to run. */
export function endEscaped(revision: string): void {
  if (process.platform !== 'linux') return
  for (const { pid } of processes()) if (runsRevision(pid, revision)) signal(pid, 'SIGKILL')
}

function numberIn(file: string): number {
  try {
    return Number(fs.readFileSync(file, 'utf8'))
  } catch {
    return 0
  }
}

function runsRevision(pid: number, revision: string): boolean {
  try {
    return fs.readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`SLIPWAY_REVISION_ID=${revision}\0`)
  } catch {
    return process.platform !== 'linux' && identityOf(pid) !== undefined
  }
}
