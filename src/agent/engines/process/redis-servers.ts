// A Redis of its own for each deployment: the Valkey or Redis of the machine as a process on the loopback address, with
// a password and an append-only file. It keeps running while the agent is away.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { connect } from 'node:net'
import { delimiter, join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../../../postgres/free-port.ts'
import { PermanentError } from '../../engine.ts'
import { readJson, removeRecursively, writeJson } from '../../system/files.ts'
import { selectLastLines } from '../../system/last-lines.ts'
import { acceptsConnection } from '../../system/ports.ts'
import { isAlive, sendSignal } from '../../system/processes.ts'
import { endTracked, findTracked, spawnTracked, type TrackedProcess } from '../../system/tracked-process.ts'
import { makeOwned, type User } from '../../system/users.ts'
import { whilePaused } from '../local/stores.ts'
import { archiveFolder, extractArchive } from './folder-archive.ts'

/** The record exists from before the server is started until the deployment is removed. */
export type Redis = {
  password: string
  memory_mb: number
  /** Its address does not change while the port is free. */
  port: number | null
  /** False once no revision asks for it: it is stopped, and its data stay. */
  isWanted: boolean
}

const ARCHIVE = 'redis.tar'
const PROGRAMS = ['valkey-server', 'redis-server']
const READY_MS = 30_000
const STOP_MS = 10_000
const PING_MS = 2_000
const MAX_ANSWER = 100
const LOG_BYTES = 16 * 1024
/** The rest is for buffers and for copies while the file is written anew. */
const DATA_SHARE = 0.8

const REDIS_HINT =
  'Install Valkey or Redis (6 or newer) on the machine of the agent, for example with `apt-get install ' +
  'valkey-server` or `redis-server`, so that it is in its PATH'

export const newRedis = (memory_mb: number): Redis => ({
  password: randomBytes(24).toString('base64url'),
  memory_mb,
  port: null,
  isWanted: true,
})

export const redisUri = ({ password, port }: Redis): string => `redis://default:${password}@127.0.0.1:${port}/0`

/** Undefined if the machine has none. */
export const findRedisProgram = (path: string): string | undefined =>
  path
    .split(delimiter)
    .flatMap(folder => PROGRAMS.map(name => join(folder, name)))
    .find(isExecutable)

function isExecutable(file: string): boolean {
  try {
    fs.accessSync(file, fs.constants.X_OK)
    return fs.statSync(file).isFile()
  } catch {
    return false
  }
}

/** `folder`: of the deployment. */
type Place = { deployment_id: string; folder: string; user: User | undefined }

export class RedisServers {
  readonly #path: string
  readonly #running = new Map<string, TrackedProcess>()

  constructor(path: string) {
    this.#path = path
  }

  get obstacle(): string | null {
    return findRedisProgram(this.#path) === undefined
      ? `This agent has no Redis, which the members \`redis_*\` of the resource_spec ask for. ${REDIS_HINT}, remove ` +
          'them, or use a listener whose agent runs the container or kubernetes engine.'
      : null
  }

  isUp(deployment_id: string): boolean {
    const identity = this.#running.get(deployment_id)?.identity
    return identity !== undefined && isAlive(identity)
  }

  /** Starts it if needed, and returns its record with the port. Its data are in `redis` of the folder. */
  async ensure(place: Place, redis: Redis): Promise<Redis> {
    const { deployment_id, folder } = place
    const adopted = this.#running.get(deployment_id) ?? (await findTracked(runFolder(folder), STOP_MS, () => {}))
    if (adopted) this.#running.set(deployment_id, adopted)
    if (adopted && redis.port !== null && (await answers(redis)) && isApplied(folder, redis)) return redis
    await this.stop(place)
    const isTaken = redis.port === null || (await acceptsConnection('127.0.0.1', redis.port))
    const port = isTaken ? await findFreePort() : redis.port!
    const started = { ...redis, port }
    this.#start(place, started)
    for (const end = Date.now() + READY_MS; Date.now() < end; await delay(50)) {
      if (await answers(started)) return started
      if (!this.isUp(deployment_id)) break
    }
    throw new Error(`Redis does not start.${describeLog(folder)}`)
  }

  hasData({ folder }: Pick<Place, 'folder'>): boolean {
    return fs.existsSync(join(folder, 'redis'))
  }

  /** Its files are of one moment while it is stopped: a change is in them when it is answered, but for a second. */
  async archive({ deployment_id, folder, user }: Place, to: string, signal: AbortSignal): Promise<void> {
    await whilePaused(
      async () => {
        const pid = this.#running.get(deployment_id)?.identity?.pid
        if (pid !== undefined) sendSignal(pid, 'SIGSTOP')
        return async () => void (pid !== undefined && sendSignal(pid, 'SIGCONT'))
      },
      () => archiveFolder(join(folder, 'redis'), join(to, ARCHIVE), user, signal),
    )
  }

  /** Returns a function that puts the data of an archive into the place of the present ones. It is stopped then. */
  async extract(place: Place, from: string, signal: AbortSignal): Promise<() => Promise<void>> {
    const { folder, user } = place
    const [data, made, old] = [join(folder, 'redis'), join(folder, 'redis.new'), replacedFolder(folder)]
    if (!fs.existsSync(join(from, ARCHIVE))) throw new PermanentError('This snapshot is not one of a Redis.')
    await removeRecursively(made)
    makeOwned(made, user)
    await extractArchive(join(from, ARCHIVE), made, user, signal)
    return async () => {
      await this.stop(place)
      await removeRecursively(old)
      if (fs.existsSync(data)) fs.renameSync(data, old)
      fs.renameSync(made, data)
      await removeRecursively(old)
    }
  }

  /** Its data go, too. */
  async remove(place: Pick<Place, 'deployment_id' | 'folder'>): Promise<void> {
    await this.stop(place)
    await removeRecursively(join(place.folder, 'redis'))
    fs.rmSync(settingsFile(place.folder), { force: true })
  }

  /** It saves what it has and ends. Its data stay. */
  async stop({ deployment_id, folder }: Pick<Place, 'deployment_id' | 'folder'>): Promise<void> {
    this.#running.delete(deployment_id)
    await endTracked(runFolder(folder), STOP_MS)
  }

  #start({ deployment_id, folder, user }: Place, redis: Redis): void {
    const program = findRedisProgram(this.#path)
    if (program === undefined) throw new Error(this.obstacle!)
    const data = join(folder, 'redis')
    // The agent before was killed between two renames of a restore.
    const old = replacedFolder(folder)
    if (!fs.existsSync(data) && fs.existsSync(old)) fs.renameSync(old, data)
    makeOwned(data, user)
    // Not among the data: applications run as their owner, who could have a link there that leads elsewhere.
    const settings = settingsFile(folder)
    fs.rmSync(settings, { force: true })
    fs.writeFileSync(settings, configOf(redis, data), { mode: 0o600, flag: 'wx' })
    if (user) fs.lchownSync(settings, user.uid, user.gid)
    const log = fs.openSync(join(folder, 'redis.log'), 'w', 0o600)
    if (user) fs.fchownSync(log, user.uid, user.gid)
    const env = { PATH: this.#path, LANG: 'C.UTF-8', SLIPWAY_REVISION_ID: `redis-${deployment_id}` }
    const options = { cwd: data, env, stdio: ['ignore' as const, log, log] }
    const tracked = spawnTracked(runFolder(folder), [program, settings], options, user)
    fs.closeSync(log)
    tracked.child.unref()
    tracked.child.on('error', () => {})
    writeJson(appliedFile(folder), { memory_mb: redis.memory_mb })
    this.#running.set(deployment_id, tracked)
  }
}

const settingsFile = (folder: string) => join(folder, 'redis.conf')
const replacedFolder = (folder: string) => join(folder, 'redis.old')
const runFolder = (folder: string) => join(folder, 'redis-process')
/** With what settings it was started. */
const appliedFile = (folder: string) => join(folder, 'redis-applied.json')
const isApplied = (folder: string, { memory_mb }: Redis) =>
  readJson<{ memory_mb: number }>(appliedFile(folder))?.memory_mb === memory_mb

/** Its user may not administrate the server: `CONFIG SET dir` would write files anywhere. */
const configOf = ({ password, memory_mb, port }: Redis, data: string) => `bind 127.0.0.1
port ${port}
dir "${data}"
user default on >${password} ~* &* +@all -@admin +config|get
daemonize no
appendonly yes
appendfsync everysec
save ""
maxmemory ${Math.floor(memory_mb * DATA_SHARE)}mb
maxmemory-policy noeviction
`

function describeLog(folder: string): string {
  try {
    const lines = selectLastLines(readEnd(join(folder, 'redis.log')).split('\n'))
    return lines.length > 0 ? ` Its log ends with:\n${lines.join('\n')}` : ''
  } catch {
    return ''
  }
}

/** The application, which is of the same user, may have made it long. */
function readEnd(file: string): string {
  const opened = fs.openSync(file, 'r')
  try {
    const buffer = Buffer.alloc(LOG_BYTES)
    const length = fs.readSync(opened, buffer, 0, LOG_BYTES, Math.max(0, fs.fstatSync(opened).size - LOG_BYTES))
    return buffer.toString('utf8', 0, length)
  } finally {
    fs.closeSync(opened)
  }
}

/** True once it has loaded its data and accepts the password. */
function answers({ password, port }: Redis): Promise<boolean> {
  return new Promise(resolve => {
    const socket = connect({ host: '127.0.0.1', port: port!, timeout: PING_MS })
    let text = ''
    const settle = (isUp: boolean) => {
      socket.destroy()
      resolve(isUp)
    }
    socket.once('error', () => settle(false)).once('timeout', () => settle(false))
    socket.once('close', () => settle(false))
    socket.on('data', chunk => {
      text += chunk
      // Another program may have the port.
      if (text.includes('-') || text.length > MAX_ANSWER) settle(false)
      else if (text.includes('+PONG')) settle(true)
    })
    socket.write(`AUTH ${password}\r\nPING\r\n`)
  })
}
