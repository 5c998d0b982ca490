// Finds the integration that a webhook delivery belongs to, and the deployments that it is about.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem, textArray } from '../../kernel/db/db.ts'
import { AttemptError } from '../../kernel/db/outbox.ts'
import type { OpenRequest } from '../../kernel/http/context.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { repositoryKey } from '../deployments/tables.ts'
import type { Integration } from '../git-hosts/githost.ts'

/** `request` is that of the delivery. */
export type DeliveryContext = OpenRequest & { services: Services; attempts: number }

/** The host does not yet answer consistently about a ref. Ask again later. */
export class UnsettledRefError extends AttemptError {
  constructor() {
    super('ref_unsettled')
  }
}

/**
 * All installations of an App share one webhook URL. The payload names the installation, which counts only if it
 * belongs to the App whose secret signed the delivery. Suspended and revoked integrations receive nothing.
 */
export async function findIntegration(
  { config, database }: Services,
  receiver: string,
  installation: string | null,
): Promise<Integration | null> {
  const isOperatorsInstallation = sql`
    i.host = 'github'
    and i.base_url = ${config.github?.baseUrl ?? ''}
    and i.app_id is null
    and i.installation_id = ${installation ?? ''}`
  const isReceivers = sql`exists (
    select
    from integrations r
    where r.id = ${receiver === 'app' ? null : receiver}::uuid
      and (r.host <> 'github' and i.id = r.id
        or r.host = 'github'
          and r.app_id is not null
          and i.host = 'github'
          and i.base_url = r.base_url
          and i.app_id = r.app_id
          and i.installation_id = ${installation ?? ''}))`
  const selectActive = (condition: SQL) => sql<Row>`
    select to_json(i)::text
    from integrations i
    where i.state = 'active' and ${condition}
    limit 1`
  const query = selectActive(receiver === 'app' ? isOperatorsInstallation : isReceivers)
  const [[row]] = (await runAsSystem(database, query)) as [Row[]]
  return row ? (JSON.parse(row[0] as string) as Integration) : null
}

/** Selects the deployments `d` of the repository that use the integration, without previews. */
export const usesRepository = ({ id, tenant_id }: Integration, repo_urls: string[]): SQL => sql`
  d.repo_key is not null
    and d.repo_key = any(array(select ${repositoryKey(sql`url`)} from unnest(${textArray(repo_urls)}) url))
    and d.tenant_id = ${tenant_id}::uuid
    and d.source_config ->> 'integration_id' = ${id}
    and d.deleting_at is null
    and d.parent_deployment_id is null`
