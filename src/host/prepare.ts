// Owns what stands between a Postgres and the Worker of `npm run dev`: schema, gateway, and keys that work: one for whoever tries it, one for the agent.
import { bootstrap } from '../access/bootstrap.ts'
import { registerPlatformListener } from '../listeners/platform.ts'
import type { DevListener, DevState, Home } from './home.ts'
import { makeLogins } from './logins.ts'
import { migrate } from './migrate.ts'
import { hosted } from './node.ts'
import { complain } from './terminal.ts'

type Wanted = {
  home: Home
  /** Of the login that owns the tables. */
  ownerUrl: string
  settings: Record<string, string>
  gateway: { port: number; token: string }
}
type Key = Omit<DevState, 'url' | 'pid'>

export async function prepare({ home, ownerUrl, settings, gateway: { port, token } }: Wanted) {
  await migrate(ownerUrl, { log: () => {} })
  const logins = await makeLogins(ownerUrl)
  const addresses = { DATABASE_URL: logins.app, DATABASE_SYSTEM_URL: logins.system }
  const host = hosted({ ...settings, ...addresses }, { log: () => {} }, { token })
  await host.gateway?.listen(port)
  host.config.notices.forEach(complain)
  const key = await keyFor(host, home)
  const listener = await listenerFor(host, home, key.organization_id)
  return { key, listener, addresses, close: host.close }
}

type Host = ReturnType<typeof hosted>
/** How the app answers whoever asks about the organisation with that key. */
const statusOf = async ({ app }: Host, key = '') =>
  (await app.request('/orgs/current/info', { headers: { 'X-Api-Key': key } })).status

/** That of an earlier start, for as long as it works in this database. */
async function keyFor(host: Host, home: Home): Promise<Key> {
  const { api_key = '', organization_id = '', tenant_id = '' } = home.readState() ?? {}
  const status = await statusOf(host, api_key)
  if (status === 200) return { api_key, organization_id, tenant_id }
  if (status !== 401) throw new Error(`The database cannot be used: asked about the key, it answers ${status}.`)
  return bootstrap(host.app.database, { organization: 'Local', emails: host.config.instanceAdmins })
}

/** The same for the agent; its key may not read the organisation, and one that is nobody's is not known. */
async function listenerFor(host: Host, home: Home, organization_id: string): Promise<DevListener> {
  const kept = home.readListener()
  if (kept && (await statusOf(host, kept.listener_key)) === 403) return kept
  const wanted = { organization_id, compute_id: 'local', compute_type: 'local' as const }
  const made = await registerPlatformListener(host.app.database, wanted)
  home.writeListener(made)
  return made
}
