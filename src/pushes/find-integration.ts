// Which integration a delivery is of.
import { type SQL, sql } from 'drizzle-orm'
import type { Integration } from '../integrations/githost.ts'
import { type Row, runAsSystem } from '../kernel/db.ts'
import type { Services } from '../kernel/routes.ts'

/** One delivery's work. */
export type DeliveryContext = { services: Services; requestId: string; origin: string; attempts: number }

/** The host has not come to rest on where a ref is; it is asked again. */
export class UnsettledRefError extends Error {}

/**
 * An App has one address for all of its installations: which one delivers is said in the payload, and must be of the App whose secret
 * signed it. An integration that is suspended or revoked is nobody's.
 */
export async function findIntegration(
  { config, database }: Services,
  receiver: string,
  installation: string | null,
): Promise<Integration | null> {
  const active = (condition: SQL) => sql<Row>`
    select to_json(i)::text from integrations i where i.state = 'active' and ${condition} limit 1`
  const ofApp = sql`i.host = 'github' and i.base_url = ${config.github?.baseUrl ?? ''} and i.app_id is null
    and i.installation_id = ${installation ?? ''}`
  const ofOwn = sql`exists (select from integrations r where r.id = ${receiver === 'app' ? null : receiver}::uuid and (
    r.host = 'gitea' and i.id = r.id
    or r.host = 'github' and r.app_id is not null and i.host = 'github' and i.base_url = r.base_url and i.app_id = r.app_id
      and i.installation_id = ${installation ?? ''}))`
  const [[row]] = (await runAsSystem(database, active(receiver === 'app' ? ofApp : ofOwn))) as [Row[]]
  return row ? (JSON.parse(row[0] as string) as Integration) : null
}
