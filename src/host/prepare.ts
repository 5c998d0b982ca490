// Owns what stands between a Postgres and the Worker of `npm run dev`: schema, gateway, and a key that works.
import { bootstrap } from '../access/bootstrap.ts'
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

/** That of an earlier start, for as long as it works in this database. */
async function keyFor({ app, config }: ReturnType<typeof hosted>, home: Home): Promise<Key> {
  const { api_key = '', organization_id = '', tenant_id = '' } = home.readState() ?? {}
  const { status } = await app.request('/orgs/current/info', { headers: { 'X-Api-Key': api_key } })
  if (status === 200) return { api_key, organization_id, tenant_id }
  if (status !== 401) throw new Error(`The database cannot be used: asked about the key, it answers ${status}.`)
  return bootstrap(app.database, { organization: 'Local', emails: config.instanceAdmins })
}
