// Asks the git host whether a new deployment's repository exists, and which commit its ref has. A host that does not
// answer at once does not keep anybody waiting: the first comparison tells what is wrong.

import { sql } from 'drizzle-orm'
import type { Row } from '../../kernel/db/db.ts'
import { prepareWrite } from '../../kernel/db/journal.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import type { Fault } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { type Integration, parseRepositoryUrl } from '../git-hosts/githost.ts'
import { withHost } from '../git-hosts/with-host.ts'
import type { NewDeployment } from './schema.ts'

const PATIENCE_MS = 3000

/** Returns the commit, so that the first revision and a push of the same commit are one. Null where it is not known. */
export async function findRepositoryHead(
  ctx: Ctx,
  { source_config, source_revision_config }: NewDeployment,
): Promise<string | null> {
  const { integration_id, repo_url } = source_config
  const { repo_ref } = source_revision_config
  if (integration_id == null || repo_url == null || repo_ref == null) return null
  const query = sql<Row>`
    select to_json(i)::text
    from integrations i
    where i.id = ${integration_id}::uuid and i.tenant_id = current_tenant() and i.state = 'active'`
  const { current } = await prepareWrite<Row, unknown>(ctx, query)
  const row = current?.[0]
  if (!row) return null
  const integration = JSON.parse(row[0] as string) as Integration
  if (!parseRepositoryUrl(integration, repo_url))
    throw repositoryFault(`is not the URL of a repository at ${integration.base_url}, the host of the integration`)
  const question = withHost({ services: ctx, origin: ctx.origin }, integration, host =>
    Promise.all([host.repository(repo_url, null), host.commit(repo_url, repo_ref)]),
  ).catch(() => null)
  let timer: ReturnType<typeof setTimeout> | undefined
  const timeout = new Promise<null>(resolve => {
    timer = setTimeout(() => resolve(null), PATIENCE_MS)
  })
  const answer = await Promise.race([question, timeout]).finally(() => clearTimeout(timer))
  if (answer === null) return null
  const [repository, head] = answer
  if (repository === null)
    throw repositoryFault('names no repository that the integration can read; create it, or give the account access')
  return head?.sha ?? null
}

const repositoryFault = (msg: string) => {
  const fault: Fault = { type: 'repository_invalid', loc: ['body', 'source_config', 'repo_url'], msg }
  return invalidRequest([fault])
}
