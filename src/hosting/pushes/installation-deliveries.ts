// Handles deliveries about an App's installation: finds the App, and changes the state of its integrations.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { applyInstallationChange } from '../git-hosts/installation-events.ts'
import type { DeliveryContext } from './find-integration.ts'
import type { InstallationDelivery } from './webhook-payloads.ts'

export async function handleInstallation(
  { services, requestId, request }: DeliveryContext,
  receiver: string,
  event: InstallationDelivery,
): Promise<void> {
  const app = await findApp(services, receiver)
  if (!app) return
  const { action, installation: installation_id, sender } = event
  await applyInstallationChange(services, { requestId, request }, { ...app, installation_id, action, sender })
}

/** The App whose secret signed the delivery. */
async function findApp({ config, database }: DeliveryContext['services'], receiver: string) {
  if (receiver === 'app') return config.github ? { base_url: config.github.baseUrl, app_id: null } : null
  const query = sql<Row>`
    select base_url, app_id
    from integrations
    where id = ${receiver}::uuid and host = 'github' and app_id is not null`
  const [[row]] = (await runAsSystem(database, query)) as [Row[]]
  return row ? { base_url: row[0] as string, app_id: row[1] as string } : null
}
