// What an agent clones a repository with, got from its host for that repository alone where the host can narrow it so; and what it pulls and pushes images with.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { Source } from '../deployments/parts.schema.ts'
import { signAccess } from '../deployments/registry-access.ts'
import type { Integration } from '../integrations/githost.ts'
import { asking } from '../integrations/session.ts'
import { type Ctx, verb } from '../kernel/context.ts'
import { run } from '../kernel/db.ts'
import { fail } from '../kernel/errors.ts'
import { agentsMost, systemEvents } from '../kernel/journal.ts'
import { found } from '../kernel/rows.ts'
import type { CredentialWish, GivenCredential, RegistryCredential } from './credentials.schema.ts'
import { sealTo } from './envelope.ts'
import { heldLease } from './lease.ts'

type Wish = z.output<typeof CredentialWish>
type Asked = [
  ...[listener_id: string, key_id: string, tenant_id: string, source: Source],
  ...[image_uri: string | null, repo_url: string, integration: string | null],
]

export const giveCredential = verb(
  'listeners:sync',
  async (ctx, wish: Wish): Promise<z.output<typeof GivenCredential>> => {
    const seal = await sealTo(wish.public_key)
    const asked = found(await run(ctx, looked(ctx, wish), heldLease(wish)), 'revision_not_found')
    const [what, given] =
      wish.for === 'registry' ? ['registry', await forRegistry(ctx, wish, asked)] : ['git', await forGit(ctx, asked)]
    const place = [asked[0], wish.deployment_id, wish.revision_id, what].join('/')
    return { credential: given && (await seal(given, place)) }
  },
)

/** The event stands before anybody is asked: no credential goes out without it. */
const looked = (ctx: Ctx, wish: Wish) => sql<Asked>`with wanted as (
    select r.id, r.deployment_id, r.tenant_id, r.organization_id, r.source, r.source_revision_config ->> 'image_uri' as image_uri,
      r.source_config ->> 'repo_url' as repo_url, to_json(i)::text as integration
    from revisions r join deployments d on d.id = r.deployment_id
    left join integrations i on i.id = (r.source_config ->> 'integration_id')::uuid and i.tenant_id = r.tenant_id
    where r.id = ${wish.revision_id}::uuid and d.id = ${wish.deployment_id}::uuid and d.listener_id = current_listener()
      and d.deleting_at is null),
  ${systemEvents(
    sql`select tenant_id, organization_id, 'revision.credential_revealed'::text as type, id as subject_id,
      json_build_object('deployment_id', deployment_id, 'fence', ${wish.fence}::bigint, 'for', ${wish.for}::text) as data
      from wanted where ${wish.for === 'registry' ? sql`${ctx.config.registry !== undefined}` : sql`integration is not null`}`,
    sql`'listener', current_listener()`,
    sql``,
    agentsMost(ctx),
  )}
  select current_listener(), current_actor(), tenant_id, source, image_uri, repo_url, integration from wanted`

async function forGit(ctx: Ctx, [, , , , , repo_url, row]: Asked) {
  const integration = row && (JSON.parse(row) as Integration)
  if (!integration) throw fail('integration_not_found')
  if (integration.state !== 'active') throw fail(`integration_${integration.state}`)
  const services = { services: ctx, origin: ctx.origin }
  const { username, password } = await asking(services, integration, host => host.credential(repo_url))
  return { username, password }
}

async function forRegistry({ config }: Ctx, { deployment_id }: Wish, asked: Asked): Promise<RegistryCredential | null> {
  const [, key_id, tenant_id, source, image_uri] = asked
  return config.registry
    ? signAccess(config, config.registry, key_id, { tenant_id, deployment_id, source, image_uri })
    : null
}
