// The system users that applications and their builds run as, and the folders that such a user may enter or owns.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { listFolder, readJson, writeJson } from './files.ts'

export type User = { uid: number; gid: number }
/** `isPerDeployment`: whether each deployment has a user to itself. */
export type Users = { isPerDeployment: boolean; of(deployment_id: string): User; forget(deployment_id: string): void }
export type UserRange = { first: number; last: number }

export const singleUser = (user: User): Users => ({ isPerDeployment: false, of: () => user, forget: () => {} })

/** A user for each deployment, chosen once and written down in a folder. It needs no entry in /etc/passwd. */
export function userPerDeployment(folder: string, { first, last }: UserRange): Users {
  const fileOf = (deployment_id: string) => join(folder, `${deployment_id}.json`)
  return {
    isPerDeployment: true,
    of(deployment_id) {
      const kept = readJson<User>(fileOf(deployment_id))
      if (kept) return kept
      const taken = new Set([...listFolder(folder).map(name => readJson<User>(join(folder, name))?.uid), ...idsInUse()])
      const count = last - first + 1
      const start = createHash('sha256').update(deployment_id).digest().readUInt32BE()
      for (let i = 0; i < count; i++) {
        const uid = first + ((start + i) % count)
        if (taken.has(uid)) continue
        writeJson(fileOf(deployment_id), { uid, gid: uid })
        return { uid, gid: uid }
      }
      throw new Error(`All users of AGENT_RUN_AS ${first}-${last} are in use. Give a larger range.`)
    },
    /** Nothing of the deployment may run or be on disk any more: another one may get its user. */
    forget: deployment_id => fs.rmSync(fileOf(deployment_id), { force: true }),
  }
}

/** Of the accounts of this machine, and of everything that runs. */
function idsInUse(): number[] {
  const accounts = fs
    .readFileSync('/etc/passwd', 'utf8')
    .split('\n')
    .map(line => Number(line.split(':')[2]))
  const running = listFolder('/proc').flatMap(name =>
    /^\d/.test(name) ? (fs.statSync(`/proc/${name}`, { throwIfNoEntry: false })?.uid ?? []) : [],
  )
  return [...accounts, ...running]
}

/** Ends whatever runs as a user, by one call of the kernel: nothing can fork while it is made. */
export function killUserProcesses({ uid, gid }: User): void {
  try {
    execFileSync('/bin/sh', ['-c', 'kill -9 -1'], { uid, gid, env: {}, stdio: 'ignore' })
  } catch {
    // Nothing ran as that user.
  }
}

/** A folder of the agent's through which users get to what they own, and whose names they cannot list. */
export function makePassable(folder: string): void {
  fs.mkdirSync(folder, { recursive: true, mode: 0o711 })
  fs.chmodSync(folder, 0o711)
}

/** A folder of the agent's that nobody but this user gets through. */
export function makeEnterable(folder: string, user: User | undefined): void {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (!user) return
  fs.chownSync(folder, process.getuid!(), user.gid)
  fs.chmodSync(folder, 0o710)
}

/** A folder of this user's own. The folder it is in has to be the agent's or the user's; a link is not followed. */
export function makeOwned(folder: string, user: User | undefined): void {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (user) fs.lchownSync(folder, user.uid, user.gid)
}

/** Gives away a folder with all that is in it, folders last: until then the user cannot change what is being walked. */
export async function chownRecursively(path: string, user: User): Promise<void> {
  const entries = await fs.promises.readdir(path, { withFileTypes: true })
  for (const entry of entries) {
    const child = join(path, entry.name)
    if (entry.isDirectory()) await chownRecursively(child, user)
    else await fs.promises.lchown(child, user.uid, user.gid)
  }
  await fs.promises.lchown(path, user.uid, user.gid)
}

export const isOwnedBy = (path: string, { uid }: User) => fs.lstatSync(path).uid === uid

/** Whether a user can get to a folder: every folder above it lets others through. */
export function isReachable(folder: string): boolean {
  for (let at = dirname(folder); ; at = dirname(at)) {
    if (!((fs.statSync(at, { throwIfNoEntry: false })?.mode ?? 0o711) & 0o001)) return false
    if (at === dirname(at)) return true
  }
}
