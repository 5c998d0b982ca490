// Prepares the database of `npm run dev`: migrates it, starts its gateway, provides keys for the user and the agent.

import { readClickHouseUrl } from '../env.ts'
import { registerPlatformListener } from '../hosting/listeners/platform-listener.ts'
import { bootstrap } from '../people/access/bootstrap.ts'
import { createOperatorLink } from '../people/sign-in/links.ts'
import { migrateClickHouse } from '../tracing/store/clickhouse/migrate.ts'
import { createLogins } from './database-logins.ts'
import { createGateway } from './gateway.ts'
import type { DevListener, DevState, Home } from './home-folder.ts'
import { createHost } from './host.ts'
import { migrate } from './migrate.ts'
import { printError } from './terminal.ts'

type PrepareOptions = {
  home: Home
  /** The address of the login that owns the tables. */
  ownerUrl: string
  sharesDatabase: boolean
  settings: Record<string, string>
  gateway: { port: number; token: string }
}
type DevKey = Omit<DevState, 'url' | 'pid'>

export async function prepareDatabase(options: PrepareOptions) {
  const { home, ownerUrl, sharesDatabase, settings } = options
  const { port, token } = options.gateway
  await migrate(ownerUrl, { sharesDatabase, log: () => {} })
  const clickHouse = readClickHouseUrl(settings)
  if (clickHouse) await migrateClickHouse(clickHouse, () => {})
  const logins = await createLogins(ownerUrl)
  const addresses = { DATABASE_URL: logins.app, DATABASE_SYSTEM_URL: logins.system }
  const host = createHost({ ...settings, ...addresses }, { log: () => {} })
  const gateway = host.pools && createGateway(host.pools, token)
  await gateway?.listen(port)
  host.config.notices.forEach(printError)
  const key = await ensureKey(host, home)
  const listener = await ensureListener(host, home, key.organization_id)
  const [email = ''] = host.config.instanceAdmins
  const linkToken = await createOperatorLink(host.app.database, { organization_id: key.organization_id, email })
  const close = async () => {
    await gateway?.close()
    await host.close()
  }
  return { key, listener, linkToken, addresses, close }
}

type Host = ReturnType<typeof createHost>
/** The status of a request with this key: 200 for a user's, 403 for an agent's, 401 for an unknown one. */
const keyStatus = async ({ app }: Host, key = '') =>
  (await app.request('/orgs/current/info', { headers: { 'X-Api-Key': key } })).status

/** The key of an earlier start, if it still works in this database. */
async function ensureKey(host: Host, home: Home): Promise<DevKey> {
  const { api_key = '', organization_id = '', tenant_id = '' } = home.readState() ?? {}
  const status = await keyStatus(host, api_key)
  if (status === 200) return { api_key, organization_id, tenant_id }
  if (status !== 401)
    throw new Error(`The database cannot be used: a request with the saved key was answered with ${status}.`)
  return bootstrap(host.app.database, {
    organization: 'Local',
    emails: host.config.instanceAdmins,
    keyDescription: 'dev key',
  })
}

/** The same for the agent. Its key may not read the organization, so 403 means that the key exists. */
async function ensureListener(host: Host, home: Home, organization_id: string): Promise<DevListener> {
  const saved = home.readListener()
  if (saved && (await keyStatus(host, saved.listener_key)) === 403) return saved
  const input = { organization_id, compute_id: 'local', compute_type: 'local' as const }
  const listener = await registerPlatformListener(host.app.database, input)
  home.writeListener(listener)
  return listener
}
