// Integrations to test with, as they stand in the database once a host was connected.
import { sql } from 'drizzle-orm'
import { type Credentials, sealCredentials } from '../../src/integrations/credentials.ts'
import type { Integration } from '../../src/integrations/githost.ts'
import { sealer } from '../../src/kernel/crypto.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { type Tenant, theApp } from './app.ts'

export const GITEA = 'https://git.example.com'
type Over = Partial<
  Pick<Integration, 'host' | 'base_url' | 'app_id' | 'installation_id' | 'account_id' | 'name' | 'state'>
>

/** Without credentials it is an installation of the operator's own App. */
export async function newIntegration(
  { organization_id, tenant_id }: Pick<Tenant, 'organization_id' | 'tenant_id'>,
  over: Over = {},
  credentials: Credentials | null = { token: 'hush-token', webhook_secret: 'hush-webhook' },
): Promise<string> {
  const { database, config } = theApp()
  const id = crypto.randomUUID()
  const one = {
    ...{
      host: 'gitea',
      base_url: GITEA,
      app_id: null,
      installation_id: id,
      account_id: id,
      name: 'acme',
      state: 'active',
    },
    ...over,
  } as Over & Pick<Integration, 'host' | 'base_url' | 'account_id'>
  const whose = { ...one, tenant_id }
  const sealed = credentials && (await sealCredentials(sealer(config.sealingKeys), whose, credentials))
  const insert = sql`
    insert into integrations (id, organization_id, tenant_id, host, base_url, app_id, installation_id, account_id, name, state, credentials)
    values (${id}::uuid, ${organization_id}::uuid, ${tenant_id}::uuid, ${one.host}, ${one.base_url}, ${one.app_id},
      ${one.installation_id}, ${one.account_id}, ${one.name}, ${one.state}, ${sealed})`
  await runAsSystem(database, insert)
  return id
}

const made = new WeakMap<Pick<Tenant, 'tenant_id'>, Promise<string>>()
/** A tenant's one integration where it does not matter which. */
export function integrationOf(tenant: Tenant): Promise<string> {
  const known = made.get(tenant) ?? newIntegration(tenant)
  made.set(tenant, known)
  return known
}

/** A repository that a tenant's integration reaches, as a deployment names it. */
export const repositoryOf = async (tenant: Tenant) => ({
  integration_id: await integrationOf(tenant),
  repo_url: `${GITEA}/acme/app`,
  build_on_push: false,
})

/** A deployment from it. */
export const repositoryBody = async (tenant: Tenant, over: Record<string, unknown> = {}) => ({
  name: `app-${crypto.randomUUID()}`,
  source: 'githost',
  source_config: await repositoryOf(tenant),
  source_revision_config: { repo_ref: 'main', platform_config_path: 'platform.json' },
  secrets: [{ name: 'TOKEN', value: 'hush' }],
  ...over,
})
