// Connects git hosts by their credentials, and lists, rechecks and deletes integrations.
import { and, getTableColumns, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, lockRows, run, runAsSystem, versionMatches } from '../../kernel/db/db.ts'
import { commit, prepareWrite, setClock } from '../../kernel/db/journal.ts'
import { changedMembers, deletedMembers } from '../../kernel/db/recorded-changes.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { newestFirst } from '../../kernel/http/paging.ts'
import { cloudUrlOf, usesToken } from '../../protocol/host-kinds.ts'
import { isSshUrl } from '../../protocol/ssh-url.ts'
import { type Credentials, openCredentials, sealCredentials } from './credentials.ts'
import type { Integration } from './githost.ts'
import { createGithost } from './githost-factory.ts'
import { setState } from './installation-events.ts'
import { describeRepository, fetchAccount, fetchInstallation, type ProvenAccount } from './ownership.ts'
import { createGitClient, createGuardedHostClient, mapConcurrently } from './request.ts'
import {
  INTEGRATION_RECORD,
  isIntegration,
  type PublicIntegration,
  storeIntegration,
  toWire,
  WIRE_COLUMNS_SQL,
  wireColumns,
} from './rows.ts'
import type * as schema from './schema.ts'
import { lookSoon } from './seen-refs.ts'
import { acceptHostKey, addDeployKey, createSshAccess } from './ssh-access.ts'
import { integrations, type SshAccess } from './tables.ts'

type Ref = z.output<typeof schema.IntegrationRef>

const listStatement = prepareStatement(() =>
  db
    .select(wireColumns)
    .from(integrations)
    .where(inTenant(integrations))
    .orderBy(...newestFirst(integrations)),
)

export const listIntegrations = verb('deployments:read', async ctx =>
  (await run(ctx, listStatement({}))).map(row => toWire(ctx.origin, row)),
)

const integrationStatement = prepareStatement(({ integration_id }: Placeholders<Ref>) =>
  db.select(wireColumns).from(integrations).where(isIntegration(integration_id)),
)

export const readIntegration = verb('deployments:read', async (ctx, { integration_id }: Ref) => {
  const rows = await run(ctx, integrationStatement({ integration_id }))
  return toWire(ctx.origin, requireRow(rows, 'integration_not_found'))
})

// ---- connecting with credentials

/** Using the credentials at the host proves them: their holder may act for the installation or the account. */
export const connectIntegration = verb('integrations:manage', async (ctx, input: schema.NewIntegration) => {
  const { replayed } = await prepareWrite<unknown, PublicIntegration>(ctx, sql`select`)
  if (replayed) return toWire(ctx.origin, requireRow(replayed, 'workspace_not_found'))
  const { host, private_key, token, username, host_keys, webhook_secret } = input
  const bySsh = isSshUrl(input.base_url ?? '') ? await createSshAccess(host_keys ?? []) : null
  const proven = bySsh
    ? describeRepository(input.base_url!)
    : host === 'github'
      ? await proveApp(ctx, input)
      : await proveToken(ctx, input)
  const credentials: Credentials = {
    ...(bySsh && { deploy_keys: bySsh.deploy_keys }),
    ...(private_key != null && { private_key }),
    ...(token != null && { token }),
    ...(username != null && { username }),
    webhook_secret: webhook_secret ?? crypto.randomUUID().replaceAll('-', ''),
  }
  const sealed = await sealCredentials(ctx.sealer, { ...proven, tenant_id: ctx.requestInfo.tenant! }, credentials)
  const stored = await storeIntegration(ctx, proven, sealed, bySsh?.ssh)
  // One that is connected again has another secret: the next comparison gives it to the webhooks.
  const compare = sql`
    update followed_repositories
    set webhook_id = null, next_compare_at = clock()
    where integration_id = ${stored.id}::uuid and webhook_id is not null`
  await runAsSystem(ctx.database, setClock(ctx.platform), compare)
  return toWire(ctx.origin, stored)
})

const clientFor = (ctx: Ctx, host: Integration['host']) =>
  host === 'git' ? createGitClient(ctx, ctx.origin) : createGuardedHostClient(ctx, ctx.origin)

async function proveApp(ctx: Ctx, { base_url, app_id, private_key, installation_id }: schema.NewIntegration) {
  const app = { id: app_id!, privateKey: private_key! }
  const client = createGuardedHostClient(ctx, ctx.origin)
  const proven = await fetchInstallation(client, base_url ?? cloudUrlOf('github')!, app, installation_id!)
  if (!proven) throw fail('githost_refused', { about: 'the App has no installation with this id' })
  return { ...proven, app_id: app.id }
}

async function proveToken(
  ctx: Ctx,
  { host, base_url, token, username }: schema.NewIntegration,
): Promise<ProvenAccount> {
  const address = { host, base_url: base_url ?? cloudUrlOf(host)! }
  const client = clientFor(ctx, host)
  const proven = await fetchAccount(client, address, { token, username })
  if (!proven && host === 'git') throw fail('repository_not_found')
  if (!proven) throw fail('githost_refused', { about: `\`base_url\` has no API of the host \`${host}\`` })
  return proven
}

// ---- rechecking

const sealedStatement = prepareStatement(({ integration_id }: Placeholders<Ref>) =>
  db.select().from(integrations).where(isIntegration(integration_id)),
)

/** Sets the state to what the host reports now, in case a webhook was lost. */
export const recheckIntegration = verb('integrations:manage', async (ctx, { integration_id }: Ref) => {
  const statement = sealedStatement({ integration_id })
  const { current, replayed } = await prepareWrite<Integration, PublicIntegration>(ctx, statement)
  if (replayed) return toWire(ctx.origin, requireRow(replayed, 'integration_not_found'))
  const row = requireRow(current, 'integration_not_found')
  // An agent finds out, with its next poll.
  if (row.ssh) return lookAgain(ctx, row)
  const account = await fetchCurrentAccount(ctx, row)
  const state = account?.state ?? 'revoked'
  const change = sql<PublicIntegration>`
    update integrations i
    set ${setState(state)},
      name = ${account?.name ?? row.name},
      problem = ${state === 'active' ? sql`null` : sql`i.problem`}
    where i.id = ${row.id}::uuid and i.tenant_id = current_tenant()
    returning ${WIRE_COLUMNS_SQL}`
  const parts = {
    lock: lockRows(integrations, isIntegration(row.id)),
    changes: changedMembers(integrations, INTEGRATION_RECORD),
  }
  const rows = await commit(ctx, 'integration.rechecked', change, { state }, parts)
  return toWire(ctx.origin, requireRow(rows, 'integration_not_found'))
})

async function lookAgain(ctx: Ctx, row: Integration) {
  const change = sql<PublicIntegration>`
    select ${WIRE_COLUMNS_SQL} from integrations i where i.id = ${row.id}::uuid and i.tenant_id = current_tenant()`
  const rows = await commit(ctx, 'integration.rechecked', change, { state: row.state }, {})
  await runAsSystem(ctx.database, setClock(ctx.platform), lookSoon(row.id))
  return toWire(ctx.origin, requireRow(rows, 'integration_not_found'))
}

/** Null means revoked. A host that rejects the operator's App does not revoke: the operator must fix the settings. */
async function fetchCurrentAccount(ctx: Ctx, row: Integration): Promise<Pick<ProvenAccount, 'state' | 'name'> | null> {
  const client = clientFor(ctx, row.host)
  const credentials = await openCredentials(ctx.sealer, row)
  try {
    if (usesToken(row.host)) {
      const account = await fetchAccount(client, row, credentials ?? {})
      return account?.account_id === row.account_id ? account : null
    }
    return await fetchInstallation(client, row.base_url, chooseApp(ctx, row, credentials), row.installation_id)
  } catch (error) {
    if (credentials && error instanceof Failure && error.code === 'githost_refused') return null
    throw error
  }
}

function chooseApp({ config: { github } }: Ctx, { app_id, base_url }: Integration, credentials: Credentials | null) {
  if (app_id !== null && credentials?.private_key) return { id: app_id, privateKey: credentials.private_key }
  if (github?.baseUrl !== base_url) throw fail('githost_app_missing')
  return { id: github.appId, privateKey: github.privateKey }
}

// ---- replacing a credential

type PatchInput = Ref & schema.IntegrationPatch

/** The new credential is proved before the old one is replaced, in one statement: nothing is without one meanwhile. */
export const updateIntegration = verb(
  'integrations:manage',
  async (ctx, { integration_id, token, private_key, new_deploy_key, accept_host_key }: PatchInput) => {
    const statement = sealedStatement({ integration_id })
    const { current, replayed } = await prepareWrite<Integration, PublicIntegration>(ctx, statement)
    if (replayed) return toWire(ctx.origin, requireRow(replayed, 'integration_not_found'))
    const row = requireRow(current, 'integration_not_found')
    const stored = await openCredentials(ctx.sealer, row)
    if (new_deploy_key || accept_host_key != null) {
      if (!row.ssh || !stored) throw fail('integration_other_account')
      const changed = new_deploy_key
        ? await addDeployKey(row.ssh, stored)
        : { ssh: acceptHostKey(row.ssh, accept_host_key!) }
      return changeSsh(ctx, row, { ...stored, ...changed }, changed.ssh)
    }
    if (row.ssh || !stored || (token != null) !== usesToken(row.host)) throw fail('integration_other_account')
    const client = clientFor(ctx, row.host)
    const account =
      token != null
        ? await fetchAccount(client, row, { token, username: stored.username })
        : await fetchInstallation(
            client,
            row.base_url,
            { id: row.app_id!, privateKey: private_key! },
            row.installation_id,
          )
    if (account?.account_id !== row.account_id) throw fail('integration_other_account')
    const replaced = { ...stored, ...(token != null ? { token } : { private_key: private_key! }) }
    const sealed = await sealCredentials(ctx.sealer, row, replaced)
    const change = sql<PublicIntegration>`
      update integrations i
      set ${setState(account.state)},
        name = ${account.name},
        credentials = ${sealed},
        problem = null
      where i.id = ${row.id}::uuid and i.tenant_id = current_tenant()
        and i.version = ${row.version}
      returning ${WIRE_COLUMNS_SQL}`
    const parts = {
      lock: lockRows(integrations, isIntegration(row.id)),
      changes: changedMembers(integrations, INTEGRATION_RECORD),
    }
    const rows = await commit(ctx, 'integration.updated', change, {}, parts)
    return toWire(ctx.origin, requireRow(rows, 'integration_not_found'))
  },
)

async function changeSsh(ctx: Ctx, row: Integration, { ssh: _, ...credentials }: ChangedSsh, ssh: SshAccess) {
  const sealed = await sealCredentials(ctx.sealer, row, credentials)
  const change = sql<PublicIntegration>`
    update integrations i
    set ${setState(row.state)}, credentials = ${sealed}, ssh = ${JSON.stringify(ssh)}::json
    where i.id = ${row.id}::uuid and i.tenant_id = current_tenant() and i.version = ${row.version}
    returning ${WIRE_COLUMNS_SQL}`
  const parts = {
    lock: lockRows(integrations, isIntegration(row.id)),
    changes: changedMembers(integrations, INTEGRATION_RECORD),
  }
  const rows = await commit(ctx, 'integration.updated', change, {}, parts)
  await runAsSystem(ctx.database, setClock(ctx.platform), lookSoon(row.id))
  return toWire(ctx.origin, requireRow(rows, 'integration_not_found'))
}
type ChangedSsh = Credentials & { ssh: SshAccess }

// ---- deleting

/** Deployments of the integration keep serving. They build nothing new, and their `explain` says so. */
export const deleteIntegration = verb('integrations:manage', async (ctx, { integration_id }: Ref) => {
  const change = db
    .delete(integrations)
    .where(and(isIntegration(integration_id), versionMatches(ctx, integrations)))
    .returning({ ...getTableColumns(integrations), webhooks: MADE_WEBHOOKS })
  const parts = { changes: deletedMembers(INTEGRATION_RECORD) }
  const rows = await commit(ctx, 'integration.deleted', change, {}, parts)
  const { webhooks, ...row } = requireRow(rows, 'integration_not_found')
  if (webhooks) ctx.waitUntil?.(removeWebhooks(ctx, row, webhooks))
})

type MadeWebhook = { url: string; webhook_id: string }

const MADE_WEBHOOKS = sql<MadeWebhook[] | null>`(
  select json_agg(json_build_object('url', f.url, 'webhook_id', f.webhook_id))
  from followed_repositories f
  where f.integration_id = integrations.id and f.webhook_id is not null)`.as('webhooks')

/** One try with the last copy of the credentials: deliveries of a webhook that is left are refused. */
async function removeWebhooks(ctx: Ctx, row: Integration, webhooks: MadeWebhook[]): Promise<void> {
  const host = createGithost(ctx, ctx.origin, row)
  await mapConcurrently(
    webhooks.map((_, i) => i),
    i =>
      host
        .removeWebhook(webhooks[i]!.url, webhooks[i]!.webhook_id)
        .catch(error => ctx.platform.log({ level: 'warn', request_id: ctx.requestId, error: String(error) })),
  )
}
