// Git hosts of a workspace: connected with credentials, listed, asked again how they are, and parted from.
import { and, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Ctx, uncounted, verb } from '../kernel/context.ts'
import { db, mine, run, unmoved } from '../kernel/db.ts'
import { Failure, fail } from '../kernel/errors.ts'
import { commit, prepare } from '../kernel/journal.ts'
import { newestFirst } from '../kernel/paging.ts'
import { found } from '../kernel/rows.ts'
import { integrations } from '../tables.ts'
import { hostWay } from './asking.ts'
import { type Credentials, credentialsOf, sealCredentials } from './credentials.ts'
import { movedTo } from './events.ts'
import type { Integration } from './githost.ts'
import { accountOf, type Found, installationOf } from './proof.ts'
import { connected, type Told, theIntegration, told, toWire } from './rows.ts'
import type * as schema from './schema.ts'

type Ref = z.output<typeof schema.IntegrationRef>

export const listIntegrations = verb('deployments:read', async ctx => {
  const all = db
    .select(told)
    .from(integrations)
    .where(mine(integrations))
    .orderBy(...newestFirst(integrations))
  return (await run(ctx, all)).map(row => toWire(ctx.origin, row))
})

export const readIntegration = verb('deployments:read', async (ctx, { integration_id }: Ref) => {
  const rows = await run(ctx, db.select(told).from(integrations).where(theIntegration(integration_id)))
  return toWire(ctx.origin, found(rows, 'integration_not_found'))
})

// ---- connected with credentials

const GITHUB = 'https://github.com'

/** The credentials prove themselves: whoever has them may act for the installation or the account. */
export const connectIntegration = verb('integrations:manage', async (ctx, input: schema.NewIntegration) => {
  const { answer } = await prepare<unknown, Told>(ctx, sql`select`)
  if (answer) return toWire(ctx.origin, found(answer, 'workspace_not_found'))
  const { host, private_key, token, webhook_secret } = input
  const proven = host === 'github' ? await byApp(ctx, input) : await byToken(ctx, input)
  const credentials: Credentials = {
    ...(private_key != null && { private_key }),
    ...(token != null && { token }),
    webhook_secret,
  }
  const sealed = await sealCredentials(ctx.sealer, { ...proven, tenant_id: ctx.seen.tenant! }, credentials)
  return toWire(ctx.origin, await connected(uncounted(ctx), proven, sealed))
})

async function byApp(ctx: Ctx, { base_url, app_id, private_key, installation_id }: schema.NewIntegration) {
  const app = { id: app_id!, privateKey: private_key! }
  const way = hostWay(ctx.config, ctx.origin)
  const proven = await installationOf(way, base_url ?? GITHUB, app, installation_id!)
  if (!proven) throw fail('githost_refused', { about: 'the App has no such installation' })
  return { ...proven, app_id: app.id }
}

async function byToken(ctx: Ctx, { base_url, token }: schema.NewIntegration): Promise<Found> {
  const proven = await accountOf(hostWay(ctx.config, ctx.origin), base_url!, token!)
  if (!proven) throw fail('githost_refused', { about: 'there is no API of a Gitea' })
  return proven
}

// ---- asked again

/** What the host says now is what holds, whichever of its events were lost. */
export const recheckIntegration = verb('integrations:manage', async (ctx, { integration_id }: Ref) => {
  const query = db.select().from(integrations).where(theIntegration(integration_id))
  const { looked, answer } = await prepare<Integration, Told>(ctx, query)
  if (answer) return toWire(ctx.origin, found(answer, 'integration_not_found'))
  const row = found(looked, 'integration_not_found')
  const now = await foundAgain(ctx, row)
  const state = now?.state ?? 'revoked'
  const change = sql<Told>`update integrations i set ${movedTo(state)}, name = ${now?.name ?? row.name}
    where i.id = ${row.id}::uuid and i.tenant_id = current_tenant() returning ${sql.raw(
      Object.keys(told)
        .map(name => `i.${name}`)
        .join(', '),
    )}`
  const rows = await commit(uncounted(ctx), 'integration.rechecked', change, { before: row.state, state })
  return toWire(ctx.origin, found(rows, 'integration_not_found'))
})

/** Null where the host knows it no more. Credentials of the workspace's own that it refuses are no more; the operator's are to be mended. */
async function foundAgain(ctx: Ctx, row: Integration): Promise<Pick<Found, 'state' | 'name'> | null> {
  const way = hostWay(ctx.config, ctx.origin)
  const credentials = await credentialsOf(ctx.sealer, row)
  try {
    if (row.host === 'gitea') {
      const account = await accountOf(way, row.base_url, credentials?.token ?? '')
      return account?.account_id === row.account_id ? account : null
    }
    return await installationOf(way, row.base_url, appOf(ctx, row, credentials), row.installation_id)
  } catch (error) {
    if (credentials && error instanceof Failure && error.code === 'githost_refused') return null
    throw error
  }
}

function appOf({ config: { github } }: Ctx, { app_id, base_url }: Integration, credentials: Credentials | null) {
  if (app_id !== null && credentials?.private_key) return { id: app_id, privateKey: credentials.private_key }
  if (github?.baseUrl !== base_url) throw fail('githost_app_missing')
  return { id: github.appId, privateKey: github.privateKey }
}

// ---- parted from

/** What was built serves on; what comes through it is built no more, and `explain` of those deployments says so. */
export const deleteIntegration = verb('integrations:manage', async (ctx, { integration_id }: Ref) => {
  const change = db
    .delete(integrations)
    .where(and(theIntegration(integration_id), unmoved(ctx, integrations)))
    .returning(told)
  const data = sql`json_build_object('host', changed.host, 'base_url', changed.base_url, 'name', changed.name)`
  found(await commit(ctx, 'integration.deleted', change, data), 'integration_not_found')
})
