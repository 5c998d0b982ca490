// Finds the commit of the ref that a request names.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import type { Caller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Commit, Integration } from '../git-hosts/githost.ts'
import { withHost } from '../git-hosts/with-host.ts'
import type { PreviewRow } from './preview-deployment.ts'

/** The commit of the request's ref at the host. Null where the host has none. */
export async function findRequestedCommit(caller: Caller, { parent_id, request }: PreviewRow): Promise<Commit | null> {
  const query = sql<Row>`
    select json_build_object('repo_url', d.source_config ->> 'repo_url', 'integration', to_json(i))::text
    from deployments d
    join integrations i on i.id::text = d.source_config ->> 'integration_id' and i.tenant_id = d.tenant_id
    where d.id = ${parent_id}::uuid`
  const [[row]] = (await runAsSystem(caller.database, query)) as [Row[]]
  if (!row) return null
  const { repo_url, integration } = JSON.parse(row[0] as string) as { repo_url: string; integration: Integration }
  const context = { services: caller, origin: configuredOrigin(caller.config) }
  return withHost(context, integration, host => host.commit(repo_url, request?.repo_commit_sha ?? request!.repo_ref!))
}

/** Stores the commit, unless another request came since. */
export async function storeRequestedCommit({ database }: Caller, preview: PreviewRow, head: Commit): Promise<boolean> {
  const [rows] = (await runAsSystem(
    database,
    sql<Row>`
      update previews
      set head_sha = ${head.sha}, commit = ${JSON.stringify(head)}::json
      where id = ${preview.id}::uuid and changed_at = ${preview.changed_at}::timestamptz
      returning id`,
  )) as [Row[]]
  return rows.length > 0
}
