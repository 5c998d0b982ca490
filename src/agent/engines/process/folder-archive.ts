// Copies folders of a deployment into archives and back. The tar runs as its user, who can replace files by links
// meanwhile.
import { type ExecFileOptions, execFile, type StdioOptions, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { promisify } from 'node:util'
import { DEFAULT_PATH } from '../../system/search-path.ts'
import type { User } from '../../system/users.ts'

const MAX_ERRORS = 10
const execFileAsync = promisify(execFile)

export const asUser = (user: User | undefined): ExecFileOptions => ({
  ...(user && { uid: user.uid, gid: user.gid }),
  env: { PATH: DEFAULT_PATH, LANG: 'C.UTF-8' },
})

export async function archiveFolder(
  folder: string,
  archive: string,
  user: User | undefined,
  signal: AbortSignal,
): Promise<void> {
  const file = fs.openSync(archive, 'wx', 0o600)
  try {
    const sparse = (await isGnuTar()) ? ['--sparse'] : []
    await runTar([...sparse, '-C', folder, '-cf', '-', '.'], ['ignore', file, 'pipe'], user, signal)
  } finally {
    fs.closeSync(file)
  }
}

/** The folder exists, and is the user's. */
export async function extractArchive(
  archive: string,
  folder: string,
  user: User | undefined,
  signal: AbortSignal,
): Promise<void> {
  const file = fs.openSync(archive, 'r')
  try {
    await runTar(['-C', folder, '-xf', '-'], [file, 'ignore', 'pipe'], user, signal)
  } finally {
    fs.closeSync(file)
  }
}

async function runTar(args: string[], stdio: StdioOptions, user: User | undefined, signal: AbortSignal): Promise<void> {
  const child = spawn('tar', args, { ...asUser(user), cwd: '/', stdio, signal, killSignal: 'SIGKILL' })
  const errors: Buffer[] = []
  child.stderr!.on('data', (chunk: Buffer) => errors.length < MAX_ERRORS && errors.push(chunk))
  const [code] = (await once(child, 'close')) as [number | null]
  signal.throwIfAborted()
  // 1: a file has changed while it was read.
  if (code === 0 || (code === 1 && args.includes('-cf'))) return
  throw new Error(`tar ended with ${code}: ${Buffer.concat(errors).toString().slice(0, 500)}`)
}

/** It can leave out the holes of files, which the size of a disk does not count. Others lack the option. */
const isGnuTar = () =>
  execFileAsync('tar', ['--version'], asUser(undefined)).then(
    ({ stdout }) => stdout.toString().includes('GNU tar'),
    () => false,
  )
