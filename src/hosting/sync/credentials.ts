// Issues credentials to agents: of a git host to clone a repository, or of the registry to pull and push images.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { run } from '../../kernel/db/db.ts'
import { agentEventLimit, journalTenantEvents } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { CredentialWish, GivenCredential, RegistryCredential } from '../../protocol/credentials.schema.ts'
import type { Source } from '../../protocol/parts.schema.ts'
import type { Integration } from '../git-hosts/githost.ts'
import { withHost } from '../git-hosts/with-host.ts'
import { issueRegistryCredential } from '../registry/registry-credentials.ts'
import { createSeal } from './envelope.ts'
import { lockLease } from './lease.ts'

type CredentialInput = z.output<typeof CredentialWish>
type CredentialSubject = [
  listener_id: string,
  key_id: string,
  tenant_id: string,
  source: Source,
  image_uri: string | null,
  repo_url: string,
  integration: string | null,
]

export const issueCredential = verb(
  'listeners:sync',
  async (ctx, wish: CredentialInput): Promise<z.output<typeof GivenCredential>> => {
    const seal = await createSeal(wish.public_key)
    const rows = await run(ctx, selectCredentialSubject(ctx, wish), lockLease(wish))
    const subject = requireRow(rows, 'revision_not_found')
    const [kind, credential] =
      wish.for === 'registry'
        ? ['registry', await getRegistryCredential(ctx, wish, subject)]
        : ['git', await getGitCredential(ctx, subject)]
    const place = [subject[0], wish.deployment_id, wish.revision_id, kind].join('/')
    return { credential: credential && (await seal(credential, place)) }
  },
)

/** Writes the event before the git host is asked: no credential is issued without an event. */
function selectCredentialSubject(ctx: Ctx, wish: CredentialInput) {
  const isAvailable = wish.for === 'registry' ? sql`${ctx.config.registry !== undefined}` : sql`integration is not null`
  const events = sql`
    select tenant_id, organization_id, 'revision.credential_revealed' as type, id as subject_id,
      json_build_object(
        'deployment_id', deployment_id,
        'fence', ${wish.fence}::bigint,
        'for', ${wish.for}::text) as data,
      null as changes
    from wanted
    where ${isAvailable}`
  return sql<CredentialSubject>`
  with wanted as (
    select r.id, r.deployment_id, r.tenant_id, r.organization_id, r.source,
      r.source_revision_config ->> 'image_uri' as image_uri,
      r.source_config ->> 'repo_url' as repo_url,
      to_json(i)::text as integration
    from revisions r
    join deployments d on d.id = r.deployment_id
    left join integrations i on i.id = (r.source_config ->> 'integration_id')::uuid and i.tenant_id = r.tenant_id
    where r.id = ${wish.revision_id}::uuid
      and d.id = ${wish.deployment_id}::uuid
      and d.listener_id = current_listener()
      and d.deleting_at is null)
  select current_listener(), current_actor(), tenant_id, source, image_uri, repo_url, integration,
    ${journalTenantEvents(events, { dailyLimit: agentEventLimit(ctx) })}
  from wanted`
}

async function getGitCredential(ctx: Ctx, [, , , , , repo_url, row]: CredentialSubject) {
  const integration = row && (JSON.parse(row) as Integration)
  if (!integration) throw fail('integration_not_found')
  if (integration.state !== 'active') throw fail(`integration_${integration.state}`)
  const services = { services: ctx, origin: ctx.origin }
  const login = await withHost(services, integration, host => host.credential(repo_url))
  if (!login || !('ssh' in login)) return login && { username: login.username, password: login.password }
  // No build trusts a host before an agent has looked at the repository, which pins its key.
  const looks = login.ssh.host_keys.length === 0 && ctx.compareRepositories?.(integration.id)
  if (looks) ctx.waitUntil?.(looks)
  return login
}

async function getRegistryCredential(
  ctx: Ctx,
  { deployment_id }: CredentialInput,
  [, key_id, tenant_id, source, image_uri]: CredentialSubject,
): Promise<RegistryCredential | null> {
  const { registry } = ctx.config
  return registry
    ? issueRegistryCredential(ctx, registry, key_id, { tenant_id, deployment_id, source, image_uri })
    : null
}
