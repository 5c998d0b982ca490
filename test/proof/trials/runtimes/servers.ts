// The same app on each runtime, started by the command that package.json has for it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { HOSTS } from '../../support/two-hosts.ts'
import { startInstance, waitUntilReady } from '../deploy/instance.ts'
import { type Installation, ROOT } from '../deploy/self-host.ts'

export type Server = { url: string; key: string }
type Start = (cleanup: AsyncDisposableStack, installation: Installation) => Promise<Server>

const READY_MS = 60_000
const { scripts } = JSON.parse(readFileSync(join(ROOT, 'package.json'), 'utf8')) as { scripts: Record<string, string> }

const startByScript =
  (script: string): Start =>
  async (cleanup, { settings, key }) => {
    const port = await findFreePort()
    const url = `http://127.0.0.1:${port}`
    const path = `${join(ROOT, 'node_modules/.bin')}:${process.env.PATH}`
    const instance = startInstance(cleanup, url, {
      command: 'sh',
      args: ['-c', scripts[script]!],
      cwd: ROOT,
      env: { ...settings, PATH: path, PUBLIC_URL: url, PORT: `${port}`, RATE_LIMIT_PER_MINUTE: '0' },
    })
    await waitUntilReady(instance, '/readyz', READY_MS)
    return { url, key }
  }

export const SERVERS: Record<string, Start> = {
  node: startByScript('start'),
  deno: startByScript('start:deno'),
  bun: startByScript('start:bun'),
  // It has a database of its own.
  workerd: cleanup => HOSTS.workerd(cleanup),
}
