// What a trial is, and the scene it plays on: a Postgres of its own, the app over it, tenants, and the end of all that was started.
import { join } from 'node:path'
import type { Measured } from '../../bench/support/lab.ts'
import type { Ending } from '../../bench/support/processes.ts'
import { temporary } from '../../bench/support/workerd.ts'
import { type Bootstrapped, bootstrap } from '../../src/access/bootstrap.ts'
import type { GatewayOptions } from '../../src/host/gateway.ts'
import { makeLogins } from '../../src/host/logins.ts'
import { migrate } from '../../src/host/migrate.ts'
import { hosted } from '../../src/host/node.ts'
import { type Postgres, startPostgres } from '../../src/host/postgres.ts'
import { REGISTRY } from '../../test/support/registry.ts'

export type Trial = {
  id: string
  what: string
  target: string
  /** With less than the whole for a quick look: `share` of the counts, which the tests take. */
  run(lab: Lab): Promise<Measured>
}

export type Lab = Ending & {
  seed: number
  share: number
  progress(text: string): void
}

export type Fetch = (request: Request) => Response | Promise<Response>

export type Scene = {
  app: ReturnType<typeof hosted>['app']
  gateway: NonNullable<ReturnType<typeof hosted>['gateway']>
  url: string
  tenant(): Promise<Bootstrapped>
  /** Ends the server as a crash would; it may be started again on the same folder and port. */
  crash(signal: 'SIGQUIT' | 'SIGKILL'): Promise<void>
  restart(): Promise<void>
  pid(): number
}

export const SETTINGS = {
  ...{ SEALING_KEYS: `a:${Buffer.alloc(32, 7).toString('base64url')}`, RATE_LIMIT_PER_MINUTE: '0' },
  PUBLIC_URL: 'http://slipway.test',
  ...REGISTRY,
}
export const QUIET = { log: () => {} }

export async function openScene(
  lab: Lab,
  { durable = false, ...options }: { durable?: boolean } & Omit<GatewayOptions, 'databaseUrl'> = {},
): Promise<Scene> {
  const dataDir = join(await temporary(lab), 'data')
  let server: Postgres | undefined
  lab.defer(() => server?.stop())
  server = await startPostgres({ dataDir, durable })
  const { url, port } = server
  await migrate(url, QUIET)
  const { app, system } = await makeLogins(url)
  const host = hosted({ ...SETTINGS, DATABASE_URL: app, DATABASE_SYSTEM_URL: system }, QUIET, options)
  lab.defer(() => host.close())
  return {
    app: host.app,
    gateway: host.gateway!,
    url,
    tenant: () => bootstrap(host.app.database, { organization: `org-${crypto.randomUUID()}` }),
    async crash(signal) {
      process.kill(server!.pid, signal)
      await server!.exited
    },
    async restart() {
      server = await startPostgres({ dataDir, port, durable })
    },
    pid: () => server!.pid,
  }
}

/** As many of a trial's full count as this run takes, but never none. */
export const counted = ({ share }: Lab, full: number): number => Math.max(1, Math.ceil(full * share))
