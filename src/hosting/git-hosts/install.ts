// Installs the operator's GitHub App for a workspace: sends a person to GitHub, and verifies them on the way back.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import { createSigner } from '../../kernel/crypto/crypto.ts'
import { type Row, refuseUnless, runAsSystem } from '../../kernel/db/db.ts'
import { commit, setSystemSettings } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import type { Code } from '../../kernel/http/codes.ts'
import { type Ctx, createKeylessCaller, type OpenRequest, verb } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { proveInstallation } from './ownership.ts'
import { storeIntegration } from './rows.ts'
import type * as schema from './schema.ts'

const STATE_PURPOSE = 'integrations.install'

type InstallInput = z.output<typeof schema.InstallInput>

/** The state contains the id of its row and is signed, so that a forged one is refused without a database trip. */
export const beginInstall = verb(
  'integrations:manage',
  async (ctx, { installation_id }: InstallInput): Promise<schema.Install> => {
    const { github, sealingKeys } = ctx.config
    const change = sql<{ id: string; expires_at: string }>`
      insert into integration_installs (organization_id, tenant_id, actor_id, expires_at)
      select current_organization(), current_tenant(), current_actor(), clock() + interval '1 hour'
      where ${refuseUnless('githost_app_missing', sql`${github !== undefined}`)}
      returning id, expires_at`
    const rows = await commit(ctx, 'integration.install_started', change)
    const { id, expires_at } = requireRow(rows, 'workspace_not_found')
    const { baseUrl, slug, clientId } = github!
    const payload = `${id}.${installation_id ?? ''}`
    const state = `${payload}.${await createSigner(sealingKeys, STATE_PURPOSE).sign(payload)}`
    // For an existing installation, GitHub's install page would offer to change it and drop the state. Its authorize
    // page only identifies the person.
    const isInstalled = installation_id != null
    const url = new URL(
      isInstalled ? `${baseUrl}/login/oauth/authorize` : `${appsUrlOf(baseUrl)}/${slug}/installations/new`,
    )
    if (isInstalled) url.searchParams.set('client_id', clientId)
    url.searchParams.set('state', state)
    return { url: url.href, expires_at: toIsoTime(expires_at) }
  },
)

const appsUrlOf = (base_url: string) =>
  `${base_url}/${base_url === 'https://github.com' || base_url.endsWith('.ghe.com') ? 'apps' : 'github-apps'}`

// ---- the way back

export type SetupParameters = { installation_id?: string; setup_action?: string; state?: string; code?: string }
/** `name` is the account's, once connected. `changed`: the person only changed an existing installation. */
export type SetupResult = { name: string | null; changed?: true; failure: Code | null }

const STATE_PATTERN = /^(([0-9a-f-]{36})\.(\d{0,15}))\.([a-z0-9]+\.[\w-]{43})$/
const INSTALLATION_PATTERN = /^\d{1,15}$/

/** Deletes the row: a state works once. */
const claimInstall = (id: string) => sql<Row>`
  delete from integration_installs
  where id = ${id}::uuid and expires_at > clock()
  returning organization_id, tenant_id`

export async function completeInstall(
  services: Services,
  { requestId, origin, request }: OpenRequest,
  parameters: SetupParameters,
): Promise<SetupResult> {
  const { config, platform, database } = services
  const { setup_action, state, code } = parameters
  // GitHub also sends people here who changed the App's repositories.
  if (setup_action === 'update' && state === undefined) return { name: null, changed: true, failure: null }
  const verified = await verifyState(config, state)
  if (!config.github || !verified) return { name: null, failure: 'state_invalid' }
  if (setup_action === 'request') return { name: null, failure: 'installation_requested' }
  const claim = claimInstall(verified.id)
  const [, [row]] = (await runAsSystem(database, setSystemSettings(platform, requestId, request), claim)) as [
    unknown,
    Row[],
  ]
  if (!row) return { name: null, failure: 'state_invalid' }
  const [organization, tenant] = row as [string, string]
  const actor = { kind: 'session', id: null, organization, tenant } as const
  const ctx: Ctx = {
    ...createKeylessCaller(services, actor, requestId, origin, request),
    permission: beginInstall.permission,
  }
  try {
    const installation_id = chooseInstallation(verified.installation_id, parameters.installation_id)
    if (!installation_id || !code) throw fail('installation_unproven')
    const proven = await proveInstallation(ctx, config.github, installation_id, code)
    return { name: (await storeIntegration(ctx, proven, null)).name, failure: null }
  } catch (error) {
    const failure = error instanceof Failure ? error.code : 'internal'
    await recordFailure(ctx, verified.id, failure)
    if (failure === 'internal') throw error
    return { name: null, failure }
  }
}

async function verifyState({ sealingKeys }: Services['config'], state = '') {
  const [, payload, id, installation_id, signature] = STATE_PATTERN.exec(state) ?? []
  if (payload === undefined) return null
  const isGenuine = await createSigner(sealingKeys, STATE_PURPOSE).verify(signature!, payload)
  return isGenuine ? { id: id!, installation_id: installation_id! } : null
}

/** The state or the query names the installation. Null where they contradict each other or the id is invalid. */
function chooseInstallation(fromState: string, fromQuery = ''): string | null {
  if (fromState && fromQuery && fromState !== fromQuery) return null
  const id = fromState || fromQuery
  return INSTALLATION_PATTERN.test(id) ? id : null
}

const recordFailure = (ctx: Ctx, id: string, failure: Code) =>
  commit(ctx, 'integration.install_failed', sql<{ id: string }>`select ${id}::uuid as id`, { failure })
