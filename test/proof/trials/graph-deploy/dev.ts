// `npm run dev` for graphs: a control plane with an agent of this machine, which knows the words of the reference.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, existsSync, mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { CLI, PYTHON } from './clients.ts'

const ROOT = join(import.meta.dirname, '../../../..')

export type Installation = { url: string; api_key: string }

/** A folder that applications can read: they run as other users. */
export function makeWorkFolder(cleanup: AsyncDisposableStack): string {
  const work = mkdtempSync(join(tmpdir(), 'slipway-graphs-'))
  chmodSync(work, 0o755)
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  return work
}

/** The command lines of the reference, unchanged, with the variables that lead them to an installation. */
export function deployCommands({ url, api_key }: Installation, home: string) {
  const env = {
    PATH: process.env.PATH,
    HOME: home,
    LANGGRAPH_HOST_URL: url,
    LANGSMITH_API_KEY: api_key,
    LANGGRAPH_CLI_NO_ANALYTICS: '1',
  }
  const javascript = [process.execPath, CLI, 'deploy', '--host-url', url] as [string, ...string[]]
  const python = [join(PYTHON, '../langgraph'), 'deploy'] as [string, ...string[]]
  return { env, javascript, python }
}

export async function startDev(cleanup: AsyncDisposableStack, home: string): Promise<Installation> {
  const port = String(await findFreePort())
  const dev = spawn(process.execPath, ['-r', './src/host/require-node.cjs', 'src/host/dev.ts', '--port', port], {
    cwd: ROOT,
    env: { ...process.env, SLIPWAY_HOME: home, CONTRACT_WORDS: 'langgraph' },
    stdio: 'ignore',
  })
  cleanup.defer(async () => {
    if (dev.exitCode !== null || !dev.kill('SIGTERM')) return
    await once(dev, 'exit')
  })
  const file = join(home, 'dev.json')
  for (let i = 0; i < 600 && !existsSync(file); i++) await delay(200)
  return JSON.parse(readFileSync(file, 'utf8'))
}

export const read = async ({ url, api_key }: Installation, path: string) => {
  const headers = { 'X-Api-Key': api_key, 'X-Contract-Words': 'contract' }
  return (await fetch(`${url}${path}`, { headers })).json()
}
