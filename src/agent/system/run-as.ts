// Chooses at start-up which users applications and builds run as, and where their folders are.
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { homedir } from 'node:os'
import { dirname, isAbsolute, join, resolve } from 'node:path'
import { listFolder } from './files.ts'
import { allowUserNamespaces, denyUserNamespaces } from './user-namespaces.ts'
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
  /** Undefined: they run as the agent's own user, for the reason in `reason`. */
  users: Users | undefined
  reason?: string
  apps: string
  /** The checkout that `apps` is in, whose packages and repository builds see, and where they would not. */
  exposed?: { checkout: string; elsewhere: string } | undefined
  /** The folder of node and npm, if applications cannot run the agent's own. */
  bin?: string | undefined
  /** The reason why they can create user namespaces, if they can against the settings. */
  userNamespaces?: string | undefined
}
type Settings = {
  home: string
  run_as?: string | undefined
  apps_home?: string | undefined
  /** The user's folder for such things, by the environment. */
  state_home?: string | undefined
  allowsUserNamespaces?: boolean
}

/** Not assigned by default by any account or container manager (systemd: "Users, Groups, UIDs and GIDs"). */
const DEFAULT_RANGE: UserRange = { first: 1_900_000_000, last: 1_900_065_535 }
const FALLBACK_FOLDER = '/var/lib/slipway'

export function chooseIsolation({ run_as, allowsUserNamespaces = false, ...folders }: Settings): Isolation {
  const { home } = folders
  const isRoot = isRootOnLinux()
  const ownFolder = chooseFolder(folders)
  if (!isRoot && run_as)
    throw new Error(
      'AGENT_RUN_AS is set, but the agent does not run as root on Linux. Remove it, or run the agent as root.',
    )
  if (!isRoot) return { users: undefined, reason: 'the agent does not run as root on Linux', ...ownFolder }
  const wanted = run_as ? parseRunAs(run_as) : DEFAULT_RANGE
  if ('uid' in wanted && wanted.uid === 0) return { users: undefined, reason: 'AGENT_RUN_AS is root', ...ownFolder }
  const first: User = 'uid' in wanted ? wanted : { uid: wanted.first, gid: wanted.first }

  const { apps, exposed } = chooseFolder({ ...folders, isForOthers: true })
  makePassable(apps)
  let bin: string | undefined
  let obstacle = findObstacle(first, apps, process.execPath)
  if (obstacle?.what === 'node') {
    makePassable(join(apps, 'node'))
    bin = shareNodeBinary(join(apps, 'node', process.version))
    obstacle = findObstacle(first, apps, join(bin, 'node'))
  }
  if (obstacle && run_as) throw new Error(`AGENT_RUN_AS ${run_as} cannot be used: ${obstacle.message}.`)
  if (obstacle) return { users: undefined, reason: obstacle.message, ...ownFolder }
  const users = 'uid' in wanted ? singleUser(wanted) : userPerDeployment(join(home, 'users'), wanted)
  const userNamespaces = allowsUserNamespaces ? allowUserNamespaces() : denyUserNamespaces(apps, first)
  return { users, apps, exposed, bin, userNamespaces }
}

const isRootOnLinux = () => process.platform === 'linux' && process.getuid?.() === 0

type FolderOptions = Pick<Settings, 'home' | 'apps_home' | 'state_home'> & {
  /** Applications run as other users. */
  isForOthers?: boolean
}

/**
 * Programs look for packages, settings and a repository in the parents of their folder. So applications are not in the
 * agent's home if it is in a checkout, unless they are there already: their builds name their own paths.
 */
function chooseFolder({
  home,
  apps_home,
  state_home,
  isForOthers = false,
}: FolderOptions): Pick<Isolation, 'apps' | 'exposed'> {
  const hasApplications = listFolder(join(home, 'process')).length > 0
  const isUnfit = (isForOthers && !isReachable(home)) || (!hasApplications && findCheckout(home) !== undefined)
  const elsewhere = join(stateFolder(state_home), hashOf(home))
  const apps = apps_home ? resolve(apps_home) : isUnfit ? elsewhere : home
  const checkout = findCheckout(apps)
  return { apps, exposed: checkout === undefined ? undefined : { checkout, elsewhere } }
}

/** No name in it has a space on any platform, because many build tools fail on one. */
function stateFolder(given: string | undefined): string {
  if (isRootOnLinux()) return FALLBACK_FOLDER
  return join(given && isAbsolute(given) ? given : join(homedir(), '.local/state'), 'slipway')
}

function findCheckout(folder: string): string | undefined {
  for (let at = folder; ; at = dirname(at)) {
    if (['.git', 'node_modules'].some(name => fs.existsSync(join(at, name)))) return at
    if (at === dirname(at)) return undefined
  }
}

export function parseRunAs(text: string): User | UserRange {
  const [, first, last] = /^(\d{1,10})-(\d{1,10})$/.exec(text)?.map(Number) ?? []
  if (first && last && first <= last && last < 2 ** 32 - 1) return { first, last }
  const [, name, group] = /^([\w.-]{1,64})(?::([\w.-]{1,64}))?$/.exec(text) ?? []
  const account = name ? findEntry('/etc/passwd', name) : undefined
  const uid = parseId(name, account?.[2])
  const gid = group ? parseId(group, findEntry('/etc/group', group)?.[2]) : parseId(name, account?.[3])
  if (uid !== undefined && gid !== undefined) return { uid, gid }
  throw new Error(`AGENT_RUN_AS ${text} is no user, user:group or range first-last of this machine. Correct it.`)
}

function parseId(name: string | undefined, entry: string | undefined): number | undefined {
  if (entry !== undefined) return Number(entry)
  return name && /^\d{1,10}$/.test(name) ? Number(name) : undefined
}

const findEntry = (file: string, name: string) =>
  fs
    .readFileSync(file, 'utf8')
    .split('\n')
    .map(line => line.split(':'))
    .find(([entryName]) => entryName === name)

type Obstacle = { what: 'folder' | 'node' | 'user'; message: string }

/** Tries as this user to run, to enter its folder and to start Node. */
function findObstacle({ uid, gid }: User, apps: string, node: string): Obstacle | undefined {
  const probe = 'cd "$0" || exit 3; [ -x "$1" ] || exit 4'
  try {
    execFileSync('/bin/sh', ['-c', probe, apps, node], {
      uid,
      gid,
      cwd: '/',
      stdio: 'ignore',
      // Processes of that user could read it.
      env: {},
    })
    return undefined
  } catch (error) {
    const { status, message } = error as { status?: number; message: string }
    if (status === 3)
      return {
        what: 'folder',
        message: `user ${uid} cannot enter ${apps}. Set AGENT_APPS_HOME to a folder that others may enter`,
      }
    if (status === 4)
      return { what: 'node', message: `user ${uid} cannot run ${node}. Install Node where every user can run it` }
    return { what: 'user', message: `the agent cannot start a process as user ${uid} (${message})` }
  }
}

/** Links or copies the agent's node and npm to where every user can run them. Returns the folder of the programs. */
function shareNodeBinary(folder: string): string {
  const bin = join(folder, 'bin')
  if (fs.existsSync(bin)) return bin
  const temporary = fs.mkdtempSync(`${folder}.new-`)
  fs.chmodSync(temporary, 0o755)
  fs.mkdirSync(join(temporary, 'bin'), { mode: 0o755 })
  const node = join(temporary, 'bin/node')
  try {
    fs.linkSync(process.execPath, node)
  } catch {
    fs.copyFileSync(process.execPath, node)
    fs.chmodSync(node, 0o755)
  }
  const npm = join(dirname(process.execPath), '../lib/node_modules/npm')
  if (fs.existsSync(npm)) {
    fs.cpSync(npm, join(temporary, 'lib/node_modules/npm'), { recursive: true })
    for (const name of ['npm', 'npx'])
      fs.symlinkSync(`../lib/node_modules/npm/bin/${name}-cli.js`, join(temporary, 'bin', name))
  }
  fs.renameSync(temporary, folder)
  return bin
}

const hashOf = (text: string) => createHash('sha256').update(text).digest('hex').slice(0, 16)
