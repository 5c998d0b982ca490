// Integrations to test with, as rows of the database.
import { sql } from 'drizzle-orm'
import { type Credentials, sealCredentials } from '../../src/hosting/git-hosts/credentials.ts'
import type { Integration } from '../../src/hosting/git-hosts/githost.ts'
import { createSealer } from '../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { getApp, type Tenant } from './app.ts'

export const GITEA_URL = 'https://git.example.com'
type IntegrationOverrides = Partial<
  Pick<Integration, 'host' | 'base_url' | 'app_id' | 'installation_id' | 'account_id' | 'name' | 'state'>
>

/** Without credentials it is an installation of the operator's own App. */
export async function newIntegration(
  { organization_id, tenant_id }: Pick<Tenant, 'organization_id' | 'tenant_id'>,
  over: IntegrationOverrides = {},
  credentials: Credentials | null = { token: 'hush-token', webhook_secret: 'hush-webhook' },
): Promise<string> {
  const { database, config } = getApp()
  const id = crypto.randomUUID()
  const one = {
    host: 'gitea',
    base_url: GITEA_URL,
    app_id: null,
    installation_id: id,
    account_id: id,
    name: 'acme',
    state: 'active',
    ...over,
  } as IntegrationOverrides & Pick<Integration, 'host' | 'base_url' | 'account_id'>
  const owner = { ...one, tenant_id }
  const sealed = credentials && (await sealCredentials(createSealer(config.sealingKeys), owner, credentials))
  const insert = sql`
    insert into integrations (id, organization_id, tenant_id, host, base_url, app_id,
      installation_id, account_id, name, state, credentials)
    values (${id}::uuid, ${organization_id}::uuid, ${tenant_id}::uuid, ${one.host}, ${one.base_url}, ${one.app_id},
      ${one.installation_id}, ${one.account_id}, ${one.name}, ${one.state}, ${sealed})`
  await runAsSystem(database, insert)
  return id
}

const sharedIntegrations = new WeakMap<Pick<Tenant, 'tenant_id'>, Promise<string>>()
/** One integration per tenant, for tests that need any. */
export function getIntegration(tenant: Tenant): Promise<string> {
  const integration = sharedIntegrations.get(tenant) ?? newIntegration(tenant)
  sharedIntegrations.set(tenant, integration)
  return integration
}

/** The source of a deployment: a repository of the tenant's integration. */
export const makeRepositoryConfig = async (tenant: Tenant) => ({
  integration_id: await getIntegration(tenant),
  repo_url: `${GITEA_URL}/acme/app`,
  build_on_push: false,
})

export const makeRepositoryBody = async (tenant: Tenant, over: Record<string, unknown> = {}) => ({
  name: `app-${crypto.randomUUID()}`,
  source: 'githost',
  source_config: await makeRepositoryConfig(tenant),
  source_revision_config: { repo_ref: 'main', platform_config_path: 'platform.json' },
  secrets: [{ name: 'TOKEN', value: 'hush' }],
  ...over,
})
