// ClickHouse for the tests of its trace store: the real engine, as the npm package `chdb` has it, behind HTTP. The
// package is 540 MB, so it is not among the dependencies: it is installed here once, when it is first needed.
import { execFile, fork } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { TestProject } from 'vitest/node'
import { migrateClickHouse } from '../../src/tracing/store/clickhouse/migrate.ts'

declare module 'vitest' {
  interface ProvidedContext {
    /** The address of the ClickHouse that stores traces. */
    clickHouse?: string
  }
}

export const CHDB = 'chdb@3.4.0'
const PACKAGES = join(import.meta.dirname, '../../node_modules/.cache/chdb')

export const isChdbInstalled = (): boolean => existsSync(join(PACKAGES, 'node_modules/chdb/package.json'))

/** The folder that has chdb among its packages. */
async function installChdb(): Promise<string> {
  if (isChdbInstalled()) return PACKAGES
  console.log(`Installing ${CHDB}, the engine of ClickHouse: 540 MB, once.`)
  await mkdir(PACKAGES, { recursive: true })
  await writeFile(join(PACKAGES, 'package.json'), '{ "private": true }')
  await promisify(execFile)('npm', ['install', '--no-audit', '--no-fund', '--ignore-scripts', CHDB], { cwd: PACKAGES })
  return PACKAGES
}

/** Returns an address that ends with the name of a migrated database. */
export async function startClickHouse(
  dataFolder: string,
): Promise<{ url: string; pid: number; stop(): Promise<void> }> {
  const packages = await installChdb().catch(error => {
    throw new Error(`${CHDB} cannot be installed here, so ClickHouse cannot be tried: ${error.message}`)
  })
  const server = fork(join(import.meta.dirname, 'clickhouse-server.mjs'), [packages, dataFolder], {
    stdio: ['ignore', 'pipe', 'inherit', 'ipc'],
  })
  const address = await new Promise<string>((resolve, reject) => {
    server.stdout!.once('data', data => resolve(String(data).trim()))
    server.once('exit', code => reject(new Error(`ClickHouse ended with ${code}`)))
  })
  server.on('exit', (code, signal) => console.error(`ClickHouse ended with ${code ?? signal}`))
  const url = `${address}/slipway`
  await migrateClickHouse(url, () => {})
  const stop = async () => {
    server.removeAllListeners('exit')
    const ended = new Promise(resolve => server.once('exit', resolve))
    server.kill()
    await ended
  }
  return { url, pid: server.pid!, stop }
}

export default async function setup(project: TestProject) {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-clickhouse-'))
  const clickHouse = await startClickHouse(join(folder, 'data'))
  project.provide('clickHouse', clickHouse.url)
  return async () => {
    await clickHouse.stop()
    await rm(folder, { recursive: true, force: true, maxRetries: 9 })
  }
}
