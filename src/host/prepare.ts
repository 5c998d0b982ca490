// Owns what stands between a Postgres and the Worker of `npm run dev`: schema, gateway, and keys that work: one for whoever tries it, one for the agent.
import { bootstrap } from '../access/bootstrap.ts'
import { registerPlatformListener } from '../listeners/platform.ts'
import type { DevState, Home } from './home.ts'
import { migrate } from './migrate.ts'
import { hosted } from './node.ts'
import { complain } from './terminal.ts'

type Wanted = {
  home: Home
  url: string
  settings: Record<string, string>
  gateway: { port: number; token: string }
}
type Key = Omit<DevState, 'url' | 'pid'>

export async function prepare({ home, url, settings, gateway: { port, token } }: Wanted) {
  await migrate(url, { log: () => {} })
  const host = hosted({ ...settings, DATABASE_URL: url }, { log: () => {} }, { token })
  await host.gateway?.listen(port)
  host.config.deprecations.forEach(complain)
  const key = await keyFor(host, home)
  return { key, close: host.close }
}

/** Those of an earlier start, for as long as they work in this database. */
async function keyFor({ app, config }: ReturnType<typeof hosted>, home: Home): Promise<Key> {
  const kept = home.readState()
  const answers = async (path: string, key = '') => (await app.request(path, { headers: { 'X-Api-Key': key } })).status
  const status = await answers('/orgs/current/info', kept?.api_key)
  if (status !== 200 && status !== 401)
    throw new Error(`The database cannot be used: asked about the key, it answers ${status}.`)
  const key =
    status === 200 ? kept! : await bootstrap(app.database, { organization: 'Local', emails: config.instanceAdmins })
  const { api_key, organization_id, tenant_id } = key
  // A key that is an agent's may not read the organisation; one that is nobody's is not known.
  const served = kept?.listener_key && (await answers('/orgs/current/info', kept.listener_key)) === 403
  const wanted = { organization_id, compute_id: 'local', compute_type: 'local' as const }
  const { listener_id, listener_key } = served ? kept : await registerPlatformListener(app.database, wanted)
  return { api_key, organization_id, tenant_id, listener_id, listener_key }
}
