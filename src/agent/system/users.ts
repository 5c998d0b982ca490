// The system users that applications and their builds run as, and the folders that such a user may enter or owns.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { listFolder, readJson, writeJson } from './files.ts'

export type User = { uid: number; gid: number }
export type Users = { isPerDeployment: boolean; of(deployment_id: string): User; forget(deployment_id: string): void }
export type UserRange = { first: number; last: number }

export const singleUser = (user: User): Users => ({ isPerDeployment: false, of: () => user, forget: () => {} })

/** A user for each deployment, recorded in a folder. It needs no entry in /etc/passwd. */
export function userPerDeployment(folder: string, { first, last }: UserRange): Users {
  const fileOf = (deployment_id: string) => join(folder, `${deployment_id}.json`)
  return {
    isPerDeployment: true,
    of(deployment_id) {
      const recorded = readJson<User>(fileOf(deployment_id))
      if (recorded) return recorded
      const taken = new Set([...listFolder(folder).map(name => readJson<User>(join(folder, name))?.uid), ...idsInUse()])
      const count = last - first + 1
      const start = createHash('sha256').update(deployment_id).digest().readUInt32BE()
      for (let i = 0; i < count; i++) {
        const uid = first + ((start + i) % count)
        if (taken.has(uid)) continue
        writeJson(fileOf(deployment_id), { uid, gid: uid })
        return { uid, gid: uid }
      }
      throw new Error(`All users of AGENT_RUN_AS ${first}-${last} are in use. Set a larger range.`)
    },
    /** Call it only when no process or file of the deployment is left: another deployment may get the user. */
    forget: deployment_id => fs.rmSync(fileOf(deployment_id), { force: true }),
  }
}

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

/** One system call kills all processes of the user, so none can fork in between. */
export function killUserProcesses({ uid, gid }: User): void {
  try {
    execFileSync('/bin/sh', ['-c', 'kill -9 -1'], { uid, gid, env: {}, stdio: 'ignore' })
  } catch {}
}

export function makePassable(folder: string): void {
  fs.mkdirSync(folder, { recursive: true, mode: 0o711 })
  fs.chmodSync(folder, 0o711)
}

export function makeEnterable(folder: string, user: User | undefined): void {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (!user) return
  fs.chownSync(folder, process.getuid!(), user.gid)
  fs.chmodSync(folder, 0o710)
}

/** Makes a folder owned by this user. Its parent must belong to the agent or the user. Does not follow links. */
export function makeOwned(folder: string, user: User | undefined): void {
  fs.mkdirSync(folder, { recursive: true, mode: 0o700 })
  if (user) fs.lchownSync(folder, user.uid, user.gid)
}

/** Changes folders after their content, so that the user cannot change the tree while it is walked. */
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

/** True if other users can pass through each parent folder. */
export function isReachable(folder: string): boolean {
  for (let at = dirname(folder); ; at = dirname(at)) {
    if (!((fs.statSync(at, { throwIfNoEntry: false })?.mode ?? 0o711) & 0o001)) return false
    if (at === dirname(at)) return true
  }
}
