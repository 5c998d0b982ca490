// Owns what stands between a Postgres and the Worker of `npm run dev`: schema, gateway, and keys that work: one for whoever tries it, one for the agent.
import { bootstrap } from '../access/bootstrap.ts'
import { registerPlatformListener } from '../listeners/platform-listener.ts'
import { createLogins } from './database-logins.ts'
import type { DevListener, DevState, Home } from './home-folder.ts'
import { migrate } from './migrate.ts'
import { createHost } from './node.ts'
import { printError } from './terminal.ts'

type PrepareOptions = {
  home: Home
  /** Of the login that owns the tables. */
  ownerUrl: string
  settings: Record<string, string>
  gateway: { port: number; token: string }
}
type DevKey = Omit<DevState, 'url' | 'pid'>

export async function prepareDatabase({ home, ownerUrl, settings, gateway: { port, token } }: PrepareOptions) {
  await migrate(ownerUrl, { log: () => {} })
  const logins = await createLogins(ownerUrl)
  const addresses = { DATABASE_URL: logins.app, DATABASE_SYSTEM_URL: logins.system }
  const host = createHost({ ...settings, ...addresses }, { log: () => {} }, { token })
  await host.gateway?.listen(port)
  host.config.notices.forEach(printError)
  const key = await ensureKey(host, home)
  const listener = await ensureListener(host, home, key.organization_id)
  return { key, listener, addresses, close: host.close }
}

type Host = ReturnType<typeof createHost>
/** How the app answers whoever asks about the organisation with that key. */
const keyStatus = async ({ app }: Host, key = '') =>
  (await app.request('/orgs/current/info', { headers: { 'X-Api-Key': key } })).status

/** That of an earlier start, for as long as it works in this database. */
async function ensureKey(host: Host, home: Home): Promise<DevKey> {
  const { api_key = '', organization_id = '', tenant_id = '' } = home.readState() ?? {}
  const status = await keyStatus(host, api_key)
  if (status === 200) return { api_key, organization_id, tenant_id }
  if (status !== 401) throw new Error(`The database cannot be used: asked about the key, it answers ${status}.`)
  return bootstrap(host.app.database, { organization: 'Local', emails: host.config.instanceAdmins })
}

/** The same for the agent; its key may not read the organisation, and one that is nobody's is not known. */
async function ensureListener(host: Host, home: Home, organization_id: string): Promise<DevListener> {
  const kept = home.readListener()
  if (kept && (await keyStatus(host, kept.listener_key)) === 403) return kept
  const wanted = { organization_id, compute_id: 'local', compute_type: 'local' as const }
  const made = await registerPlatformListener(host.app.database, wanted)
  home.writeListener(made)
  return made
}
