// The operator's App installed by a person: the way there, and back with a proof.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { Code } from '../kernel/codes.ts'
import { type Ctx, createKeylessCaller, verb } from '../kernel/context.ts'
import { createSigner } from '../kernel/crypto.ts'
import { type Row, refuseUnless, runAsSystem } from '../kernel/db.ts'
import { Failure, fail } from '../kernel/errors.ts'
import { commit, setClock, setSystemSettings } from '../kernel/journal.ts'
import type { Services } from '../kernel/routes.ts'
import { requireRow, toIsoTime } from '../kernel/rows.ts'
import { proveInstallation } from './ownership.ts'
import { storeIntegration } from './rows.ts'
import type * as schema from './schema.ts'

const STATE_PURPOSE = 'integrations.install'

type InstallInput = z.output<typeof schema.InstallWish>

/** The state names its row and is signed, so that one that was made up costs no trip. */
export const beginInstall = verb(
  'integrations:manage',
  async (ctx, { installation_id }: InstallInput): Promise<schema.Install> => {
    const { github, sealingKeys } = ctx.config
    const change = sql<{ id: string; expires_at: string }>`
    insert into integration_installs (organization_id, tenant_id, actor_id, expires_at)
    select current_organization(), current_tenant(), current_actor(), clock() + interval '1 hour'
    where ${refuseUnless('githost_app_missing', sql`${github !== undefined}`)} returning id, expires_at`
    const { id, expires_at } = requireRow(
      await commit(ctx, 'integration.install_started', change),
      'workspace_not_found',
    )
    const { baseUrl, slug, clientId } = github!
    const named = `${id}.${installation_id ?? ''}`
    const state = `${named}.${await createSigner(sealingKeys, STATE_PURPOSE).sign(named)}`
    // Where it is installed already, GitHub would offer to change it and forget the state: there it only says who the person is.
    const asks =
      installation_id == null ? `${appsUrlOf(baseUrl)}/${slug}/installations/new` : `${baseUrl}/login/oauth/authorize`
    const url = new URL(asks)
    if (installation_id != null) url.searchParams.set('client_id', clientId)
    url.searchParams.set('state', state)
    return { url: url.href, expires_at: toIsoTime(expires_at) }
  },
)

/** An Enterprise Server has them elsewhere. */
const appsUrlOf = (base_url: string) =>
  `${base_url}/${base_url === 'https://github.com' || base_url.endsWith('.ghe.com') ? 'apps' : 'github-apps'}`

// ---- back

export type SetupParameters = { installation_id?: string; setup_action?: string; state?: string; code?: string }
/** What the page tells: the account's name where it was connected, or that GitHub only told of a change. */
export type SetupResult = { name: string | null; changed?: true; failure: Code | null }

const STATE_PATTERN = /^(([0-9a-f-]{36})\.(\d{0,15}))\.([a-z0-9]+\.[\w-]{43})$/
const INSTALLATION_PATTERN = /^\d{1,15}$/

type ClaimedInstall = { id: string; organization_id: string; tenant_id: string }

/** A state works once: whoever comes second finds none. */
const claimInstall = (
  id: string,
) => sql<Row>`delete from integration_installs where id = ${id}::uuid and expires_at > clock()
  returning id, organization_id, tenant_id`

/** One trip to claim the state, one to write what came of it; the host is asked in between. */
export async function completeInstall(
  services: Services,
  requestId: string,
  origin: string,
  answer: SetupParameters,
): Promise<SetupResult> {
  const { config, database } = services
  const { setup_action, state, code } = answer
  // Whoever changes at GitHub which repositories the App sees is sent here too.
  if (setup_action === 'update' && state === undefined) return { name: null, changed: true, failure: null }
  const { id, named } = await verifyState(config, state)
  // The address may say it or the state, but not both in two ways.
  const [installation_id = '', ...others] = new Set(
    [named, answer.installation_id].filter(one => one !== undefined && one !== ''),
  )
  if (!config.github || id === undefined) return { name: null, failure: 'state_invalid' }
  if (setup_action === 'request') return { name: null, failure: 'installation_requested' }
  const [, [row]] = (await runAsSystem(database, setSystemSettings(config, requestId), claimInstall(id))) as [
    unknown,
    Row[],
  ]
  if (!row) return { name: null, failure: 'state_invalid' }
  const [, organization_id, tenant_id] = row as [string, string, string]
  const actor = { kind: 'session', id: null, organization: organization_id, tenant: tenant_id } as const
  const ctx: Ctx = { ...createKeylessCaller(services, actor, requestId, origin), permission: beginInstall.permission }
  try {
    if (!INSTALLATION_PATTERN.test(installation_id) || others.length > 0 || !code) throw fail('installation_unproven')
    const proven = await proveInstallation(ctx, config.github, installation_id, code)
    return { name: (await storeIntegration(ctx, proven, null)).name, failure: null }
  } catch (error) {
    const failure = error instanceof Failure ? error.code : 'internal'
    await recordFailure(ctx, { id, organization_id, tenant_id }, failure)
    if (failure === 'internal') throw error
    return { name: null, failure }
  }
}

async function verifyState({ sealingKeys }: Services['config'], state = ''): Promise<{ id?: string; named?: string }> {
  const [, signed, id, named, signature] = STATE_PATTERN.exec(state) ?? []
  if (signed === undefined || !(await createSigner(sealingKeys, STATE_PURPOSE).verify(signature!, signed))) return {}
  return { id: id!, named: named! }
}

const recordFailure = (ctx: Ctx, { id }: ClaimedInstall, failure: Code) =>
  commit(ctx, 'integration.install_failed', sql<{ id: string }>`select ${id}::uuid as id`, { failure })

/** Whoever has not come back does not come any more. */
export async function sweepInstalls({ config, database }: Pick<Services, 'config' | 'database'>): Promise<void> {
  await runAsSystem(database, setClock(config), sql`delete from integration_installs where expires_at < clock()`)
}
