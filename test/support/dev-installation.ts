// One `npm run dev` for those files of `host` that only use it, started when a file first asks for it, and stopped when
// none uses it any more: its agent measures and observes all the time.
import { appendFileSync, chmodSync, existsSync, mkdirSync } from 'node:fs'
import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { inject } from 'vitest'
import type { TestProject } from 'vitest/node'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { type Command, startCommand, stopCommands } from './commands.ts'
import { onFileEnd } from './file-state.ts'
import { copyDataFolder } from './postgres.ts'
import { findTemplateFolder } from './template-folder.ts'

type DevInstallation = {
  /** Its data folder. */
  home: string
  /** Its output so far. */
  printed: string
}

declare module 'vitest' {
  interface ProvidedContext {
    /** A URL that takes the name of a user: GET answers a `DevInstallation`, and DELETE ends the use. */
    devInstallation: string
  }
}

let user: string | undefined
onFileEnd(async () => {
  if (user) await fetch(inject('devInstallation') + user, { method: 'DELETE' })
  user = undefined
})

export async function readDevInstallation(): Promise<DevInstallation> {
  user ??= crypto.randomUUID()
  const response = await fetch(inject('devInstallation') + user)
  if (!response.ok) throw new Error(await response.text())
  return (await response.json()) as DevInstallation
}

/** Returns the API key of a new organization, or of one that exists. */
export async function bootstrapKey(home: string, ...args: string[]): Promise<string> {
  const bootstrapped = startCommand('src/host/bootstrap.ts', args, { SLIPWAY_HOME: home })
  const code = await bootstrapped.exited
  const [, key] = /^API key +(\S+)/m.exec(bootstrapped.output.out) ?? []
  if (code !== 0 || !key) throw new Error(`bootstrap ended with ${code}: ${bootstrapped.output.err}`)
  return key
}

export default async function setup(project: TestProject) {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-installation-'))
  // With root, applications run as other users, who have to reach their folders below it.
  chmodSync(folder, 0o755)
  const home = join(folder, 'home')
  let starting: Promise<Command> | undefined
  let stopping = Promise.resolve()
  const users = new Set<string>()

  async function start(): Promise<Command> {
    await stopping
    const described = join(home, 'dev.json')
    await rm(described, { force: true })
    // Its first start would take initdb and all migrations, as in dev.test.ts.
    const data = join(home, 'postgres')
    if (!existsSync(data)) {
      mkdirSync(data, { recursive: true })
      await copyDataFolder(await findTemplateFolder(), data)
      appendFileSync(join(data, 'postgresql.conf'), 'fsync = off\n')
    }
    const { NODE_COMPILE_CACHE = '' } = project.config.env
    // The first point of metrics would take a minute. A shorter time costs CPU for as long as the agent runs.
    const metrics = { AGENT_METRICS_SECONDS: '4' }
    // The sources do not change, for which the Worker's bundler would look all the time.
    const settings = { SLIPWAY_HOME: home, SLIPWAY_DEV_WATCH: 'off', ...metrics, NODE_COMPILE_CACHE }
    const dev = startCommand('src/host/dev.ts', [`--port=${await findFreePort()}`], settings)
    await dev.until(() => existsSync(described))
    return dev
  }
  const server = createServer(async ({ method, url: user = '' }, response) => {
    response.setHeader('Connection', 'close')
    if (method === 'DELETE') {
      users.delete(user)
      if (users.size === 0) {
        starting = undefined
        stopping = stopCommands()
        await stopping
      }
      response.end()
      return
    }
    users.add(user)
    starting ??= start()
    const answer = await starting.then(
      ({ output }) => JSON.stringify({ home, printed: output.out } satisfies DevInstallation),
      error => {
        response.statusCode = 500
        return String(error)
      },
    )
    response.end(answer)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  project.provide('devInstallation', `http://127.0.0.1:${(server.address() as AddressInfo).port}/`)

  return async () => {
    server.close()
    await stopCommands()
    await rm(folder, { recursive: true, force: true, maxRetries: 9 })
  }
}
