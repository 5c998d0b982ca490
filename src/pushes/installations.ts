// What a host says of an App's installation reaches the integration that it is.
import { sql } from 'drizzle-orm'
import { noteInstallation } from '../integrations/events.ts'
import { type Row, runAsSystem } from '../kernel/db.ts'
import type { Installation } from './events.ts'
import type { Work } from './whose.ts'

export async function heardOf({ services, requestId }: Work, receiver: string, event: Installation): Promise<void> {
  const app = await appOf(services, receiver)
  if (!app) return
  const { action, installation: installation_id, sender } = event
  await noteInstallation(services, requestId, { ...app, installation_id, action, sender })
}

/** The App whose secret signed it. */
async function appOf({ config, database }: Work['services'], receiver: string) {
  if (receiver === 'app') return config.github ? { base_url: config.github.baseUrl, app_id: null } : null
  const query = sql<Row>`select base_url, app_id from integrations where id = ${receiver}::uuid and host = 'github' and app_id is not null`
  const [[row]] = (await runAsSystem(database, query)) as [Row[]]
  return row ? { base_url: row[0] as string, app_id: row[1] as string } : null
}
