// What an agent clones a repository with: got from its host when it is needed, for that repository alone where the host can narrow it so.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { Integration } from '../integrations/githost.ts'
import { asking } from '../integrations/session.ts'
import { verb } from '../kernel/context.ts'
import { run } from '../kernel/db.ts'
import { fail } from '../kernel/errors.ts'
import { systemEvents } from '../kernel/journal.ts'
import { found } from '../kernel/rows.ts'
import { sealTo } from './envelope.ts'
import { heldLease } from './lease.ts'
import type { CredentialWish, GivenCredential } from './schema.ts'

type Asked = [listener_id: string, repo_url: string, integration: string | null]

/** The event stands before the host is asked: no credential goes out without it. */
export const giveCredential = verb(
  'listeners:sync',
  async (ctx, input: z.output<typeof CredentialWish>): Promise<z.output<typeof GivenCredential>> => {
    const { deployment_id, revision_id, public_key } = input
    const seal = await sealTo(public_key)
    const asked = sql<Asked>`with wanted as (
        select r.id, r.deployment_id, r.tenant_id, r.organization_id, r.source_config ->> 'repo_url' as repo_url, to_json(i)::text as integration
        from revisions r join deployments d on d.id = r.deployment_id
        left join integrations i on i.id = (r.source_config ->> 'integration_id')::uuid and i.tenant_id = r.tenant_id
        where r.id = ${revision_id}::uuid and d.id = ${deployment_id}::uuid and d.listener_id = current_listener()
          and d.deleting_at is null and r.source = 'githost'),
      ${systemEvents(
        sql`select tenant_id, organization_id, 'revision.credential_revealed'::text as type, id as subject_id,
          json_build_object('deployment_id', deployment_id, 'fence', ${input.fence}::bigint) as data from wanted where integration is not null`,
        sql`'listener', current_listener()`,
      )}
      select current_listener(), repo_url, integration from wanted`
    const [listener_id, repo_url, row] = found(await run(ctx, asked, heldLease(input)), 'revision_not_found')
    const integration = row && (JSON.parse(row) as Integration)
    if (!integration) throw fail('integration_not_found')
    if (integration.state !== 'active') throw fail(`integration_${integration.state}`)
    const { username, password } = await asking({ services: ctx, origin: ctx.origin }, integration, host =>
      host.credential(repo_url),
    )
    return {
      credential: await seal({ username, password }, [listener_id, deployment_id, revision_id, 'git'].join('/')),
    }
  },
)
