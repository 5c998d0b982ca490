// Decides at the start as whom applications and builds run, and where their folders are.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join, resolve } from 'node:path'
import {
  isReachable,
  makePassable,
  singleUser,
  type User,
  type UserRange,
  type Users,
  userPerDeployment,
} from './users.ts'

export type Isolation = {
  /** Undefined: they run as the agent's own user, for this reason. */
  users: Users | undefined
  reason?: string
  /** Where the folders of applications and builds are. */
  apps: string
  /** The folder of Node's programs, if not that of the Node which runs the agent. */
  bin?: string | undefined
}
type Settings = { home: string; run_as?: string | undefined; apps_home?: string | undefined }

/** No account or container manager gives out these by default (see "Users, Groups, UIDs and GIDs" of systemd). */
const DEFAULT_RANGE: UserRange = { first: 1_900_000_000, last: 1_900_065_535 }
const FALLBACK_FOLDER = '/var/lib/slipway'

export function chooseIsolation({ home, run_as, apps_home }: Settings): Isolation {
  const asGiven = apps_home ? resolve(apps_home) : home
  const isRoot = process.platform === 'linux' && process.getuid?.() === 0
  if (!isRoot && run_as)
    throw new Error('AGENT_RUN_AS needs an agent that runs as root on Linux. Remove it, or run as root.')
  if (!isRoot) return { users: undefined, reason: 'the agent does not run as root on Linux', apps: asGiven }
  const wanted = run_as ? parseRunAs(run_as) : DEFAULT_RANGE
  if ('uid' in wanted && wanted.uid === 0) return { users: undefined, reason: 'AGENT_RUN_AS is root', apps: asGiven }
  const first: User = 'uid' in wanted ? wanted : { uid: wanted.first, gid: wanted.first }

  const apps = apps_home || isReachable(home) ? asGiven : join(FALLBACK_FOLDER, hashOf(home))
  makePassable(apps)
  let bin: string | undefined
  let obstacle = findObstacle(first, apps, process.execPath)
  if (obstacle?.what === 'node') {
    makePassable(join(apps, 'node'))
    bin = shareNodeBinary(join(apps, 'node', process.version))
    obstacle = findObstacle(first, apps, join(bin, 'node'))
  }
  if (obstacle && run_as) throw new Error(`AGENT_RUN_AS ${run_as} cannot be used: ${obstacle.message}.`)
  if (obstacle) return { users: undefined, reason: obstacle.message, apps: asGiven }
  return { users: 'uid' in wanted ? singleUser(wanted) : userPerDeployment(join(home, 'users'), wanted), apps, bin }
}

/** `user`, `user:group` (names or numbers) or `first-last`. */
export function parseRunAs(text: string): User | UserRange {
  const [, first, last] = /^(\d{1,10})-(\d{1,10})$/.exec(text)?.map(Number) ?? []
  if (first && last && first <= last && last < 2 ** 32 - 1) return { first, last }
  const [, name, group] = /^([\w.-]{1,64})(?::([\w.-]{1,64}))?$/.exec(text) ?? []
  const account = name ? findEntry('/etc/passwd', name) : undefined
  const uid = parseId(name, account?.[2])
  const gid = group ? parseId(group, findEntry('/etc/group', group)?.[2]) : parseId(name, account?.[3])
  if (uid !== undefined && gid !== undefined) return { uid, gid }
  throw new Error(`AGENT_RUN_AS ${text} is not a user, user:group or first-last of this machine. Correct it.`)
}

/** A number needs no entry. */
function parseId(name: string | undefined, entry: string | undefined): number | undefined {
  if (entry !== undefined) return Number(entry)
  return name && /^\d{1,10}$/.test(name) ? Number(name) : undefined
}

const findEntry = (file: string, name: string) =>
  fs
    .readFileSync(file, 'utf8')
    .split('\n')
    .map(line => line.split(':'))
    .find(([first]) => first === name)

type Obstacle = { what: 'folder' | 'node' | 'user'; message: string }

/** Tried as such a user: whether the system lets it run, reach its folders and start Node. */
function findObstacle({ uid, gid }: User, apps: string, node: string): Obstacle | undefined {
  const probe = 'cd "$0" || exit 3; [ -x "$1" ] || exit 4'
  try {
    execFileSync('/bin/sh', ['-c', probe, apps, node], {
      ...{ uid, gid, cwd: '/', stdio: 'ignore' },
      // A process of that user could read it.
      env: {},
    })
    return undefined
  } catch (error) {
    const { status, message } = error as { status?: number; message: string }
    if (status === 3)
      return {
        ...{
          what: 'folder',
          message: `user ${uid} cannot enter ${apps}. Set AGENT_APPS_HOME to a folder that others may enter`,
        },
      }
    if (status === 4)
      return { what: 'node', message: `user ${uid} cannot run ${node}. Install Node where every user can run it` }
    return { what: 'user', message: `the agent cannot start a process as user ${uid} (${message})` }
  }
}

/**
 * The Node that runs the agent, with the npm beside it, where every user can run it. Returns its folder of programs.
 */
function shareNodeBinary(folder: string): string {
  const bin = join(folder, 'bin')
  if (fs.existsSync(bin)) return bin
  const work = fs.mkdtempSync(`${folder}.new-`)
  fs.chmodSync(work, 0o755)
  fs.mkdirSync(join(work, 'bin'), { mode: 0o755 })
  const node = join(work, 'bin/node')
  try {
    fs.linkSync(process.execPath, node)
  } catch {
    // It is on another file system.
    fs.copyFileSync(process.execPath, node)
    fs.chmodSync(node, 0o755)
  }
  const npm = join(dirname(process.execPath), '../lib/node_modules/npm')
  if (fs.existsSync(npm)) {
    fs.cpSync(npm, join(work, 'lib/node_modules/npm'), { recursive: true })
    for (const name of ['npm', 'npx'])
      fs.symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, join(work, 'bin', name))
  }
  fs.renameSync(work, folder)
  return bin
}

const hashOf = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16)
