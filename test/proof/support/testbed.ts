// A trial, and its testbed: a database of its own with the app and tenants.
import { join } from 'node:path'
import { createApp } from '../../../src/app.ts'
import { readConfig } from '../../../src/env.ts'
import { createLogins, type Logins } from '../../../src/host/database-logins.ts'
import type { DatabasePools, PoolOptions } from '../../../src/host/database-pools.ts'
import { type Postgres, startPostgres } from '../../../src/host/embedded-postgres.ts'
import { createGateway, type Gateway } from '../../../src/host/gateway.ts'
import { createHost, createServerPlatform } from '../../../src/host/host.ts'
import { migrate } from '../../../src/host/migrate.ts'
import { type BootstrapResult, bootstrap } from '../../../src/people/access/bootstrap.ts'
import type { Platform } from '../../../src/platform.ts'
import { REGISTRY_SETTINGS } from '../../support/registry-settings.ts'
import type { Measurement } from './bench-context.ts'
import type { Cleanup } from './processes.ts'
import { makeTempFolder } from './workerd.ts'

export type Trial = {
  id: string
  what: string
  target: string
  /** `share` scales the counts: the tests run a short version. */
  run(context: TrialContext): Promise<Measurement>
}

export type TrialContext = Cleanup & {
  seed: number
  share: number
  /** Creates a database with all migrations, sooner than a server starts. */
  createDatabase?: () => Promise<string>
  /** Creates a migrated data folder, sooner than Postgres and the migrations do. */
  createDataDir?: (dataDir: string) => Promise<void>
  progress(text: string): void
}

export type Fetch = (request: Request) => Response | Promise<Response>

export type Testbed = {
  app: ReturnType<typeof createHost>['app']
  pools: DatabasePools
  gateway: Gateway
  url: string
  logins: Logins
  tenant(): Promise<BootstrapResult>
}

/** With a server of its own. */
export type ServerTestbed = Testbed & {
  /** After a crash the server restarts on the same folder and port. */
  crash(signal: 'SIGQUIT' | 'SIGKILL'): Promise<void>
  restart(): Promise<void>
  pid(): number
}

export const SETTINGS = {
  SEALING_KEYS: `a:${Buffer.alloc(32, 7).toString('base64url')}`,
  RATE_LIMIT_PER_MINUTE: '0',
  PUBLIC_URL: 'http://slipway.test',
  ...REGISTRY_SETTINGS,
}
export const SILENT_LOG = { log: () => {} }

type TestbedOptions = { settings?: Record<string, string>; overrides?: Partial<Platform> } & Omit<
  PoolOptions,
  'databaseUrl'
>

export async function openTestbed(context: TrialContext, options: TestbedOptions = {}): Promise<Testbed> {
  return openApp(context, (await context.createDatabase?.()) ?? (await startServer(context, false)).url, options)
}

export async function openServerTestbed(context: TrialContext, { durable = false } = {}): Promise<ServerTestbed> {
  const server = await startServer(context, durable)
  return { ...server, ...(await openApp(context, server.url, {})) }
}

async function startServer(context: TrialContext, durable: boolean) {
  const dataDir = join(await makeTempFolder(context), 'data')
  let server: Postgres | undefined
  context.defer(() => server?.stop())
  await context.createDataDir?.(dataDir)
  server = await startPostgres({ dataDir, durable })
  const { url, port } = server
  return {
    url,
    async crash(signal: 'SIGQUIT' | 'SIGKILL') {
      process.kill(server!.pid, signal)
      await server!.exited
    },
    async restart() {
      server = await startPostgres({ dataDir, port, durable })
    },
    pid: () => server!.pid,
  }
}

async function openApp(context: TrialContext, url: string, { settings, overrides, ...options }: TestbedOptions) {
  await migrate(url, SILENT_LOG)
  const logins = await createLogins(url)
  const host = createHost(
    { ...SETTINGS, DATABASE_URL: logins.app, DATABASE_SYSTEM_URL: logins.system, ...settings },
    { ...SILENT_LOG, ...overrides },
    options,
  )
  context.defer(() => host.close())
  const pools = host.pools!
  const gateway = createGateway(pools)
  context.defer(() => gateway.close())
  return {
    app: host.app,
    pools,
    gateway,
    url,
    logins,
    tenant: () => bootstrap(host.app.database, { organization: `org-${crypto.randomUUID()}` }),
  }
}

/** An app without connections of its own: its settings or `own` say how it reaches the database. */
export function createQuietApp(settings: Record<string, string>, own: Partial<Platform> = {}) {
  const config = readConfig(settings)
  return createApp(config, { ...createServerPlatform(settings, config), ...SILENT_LOG, ...own })
}

/** At least one. */
export const scaleCount = ({ share }: TrialContext, full: number): number => Math.max(1, Math.ceil(full * share))
