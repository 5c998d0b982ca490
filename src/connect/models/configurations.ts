// Creates, reads, changes and deletes the model configurations of a workspace.
import { and, eq, type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { sealedFingerprint } from '../../kernel/crypto/digest.ts'
import { bumpVersion, db, inTenant, lockRows, run, uuidArray, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { afterCursor, hasName, newestFirst, readPage } from '../../kernel/http/paging.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type { NamedPage } from '../../protocol/wire.ts'
import { parseBaseUrl } from './allowed-urls.ts'
import { allowsBase } from './proxy-settings.ts'
import * as schema from './schema.ts'
import { modelConfigurations } from './tables.ts'
import { createTokenClient } from './upstream.ts'

export type ConfigurationParams = z.output<typeof schema.ConfigurationRef>
export type ConfigurationRow = typeof modelConfigurations.$inferSelect

/** The secret is sealed for this place, under the id of the configuration. */
export const MODEL_SECRET_PLACE = 'model_secret'

const toWire =
  (ctx: Ctx) =>
  (row: ConfigurationRow): schema.Configuration & { [etagVersion]: number } => ({
    id: row.id,
    name: row.name,
    provider: row.provider,
    base_url: row.base_url,
    model: row.model,
    auth_type: row.auth_type,
    secret_fingerprint: row.secret && sealedFingerprint(row.secret),
    token_url: row.token_url,
    client_id: row.client_id,
    scope: row.scope,
    audience: row.audience,
    input_price: row.input_price,
    output_price: row.output_price,
    trace_project: row.trace_project,
    deployment_ids: row.deployment_ids,
    last_test: row.last_test as schema.TestOutcome | null,
    proxy_url: `${ctx.origin}/v1/model-proxy/${row.id}`,
    created_at: toIsoTime(row.created_at),
    updated_at: toIsoTime(row.updated_at),
    [etagVersion]: row.version,
  })

export const isConfiguration = ({ configuration_id }: ConfigurationParams | Placeholders<ConfigurationParams>): SQL =>
  and(eq(modelConfigurations.id, configuration_id), inTenant(modelConfigurations))!

export const RECORD = recordColumns(modelConfigurations, [
  'name',
  'provider',
  'base_url',
  'model',
  'auth_type',
  'token_url',
  'client_id',
  'scope',
  'audience',
  'input_price',
  'output_price',
  'trace_project',
  'deployment_ids',
] as const)

/** The base without a slash at its end. Refuses bases that no call could reach. */
function readBaseUrl(ctx: Ctx, text: string): URL {
  const base = parseBaseUrl(text)
  if (!base)
    throw fail('invalid_request', {
      errors: [
        {
          type: 'custom',
          loc: ['body', 'base_url'],
          msg: 'must be a URL such as https://api.openai.com/v1, without query, user name, dot segments and spaces',
        },
      ],
    })
  requireAddress(ctx, 'base_url', base.href)
  return base
}

function requireAddress(ctx: Ctx, member: string, url: string): void {
  const client = createTokenClient(ctx)
  client.stage(member)
  client.check(url)
}

const baseText = (base: URL): string => base.href.replace(/\/$/, '')

const isAllowedBase = (base: URL): SQL => sql`case
    when ${allowsBase(base)} then true
    else refuse('model_url_not_allowed', ${`${base.origin}${base.pathname}`})
  end`

const hasKnownDeployments = (ids: readonly string[]): SQL => {
  const unknown = sql`(
    select string_agg(given.id::text, ', ')
    from unnest(${uuidArray(ids)}) given(id)
    where not exists (select from deployments d where d.id = given.id and d.tenant_id = current_tenant()))`
  return sql`case when ${unknown} is null then true else refuse('deployment_not_found', ${unknown}) end`
}

const pageStatement = prepareStatement((page: Placeholders<NamedPage>) =>
  db
    .select()
    .from(modelConfigurations)
    .where(
      and(
        inTenant(modelConfigurations),
        hasName(modelConfigurations.name, page),
        afterCursor(modelConfigurations, page),
      ),
    )
    .orderBy(...newestFirst(modelConfigurations))
    .limit(page.limit)
    .offset(page.offset),
)

export const listConfigurations = verb('models:read', (ctx, page: NamedPage) =>
  readPage(ctx, pageStatement, page, toWire(ctx)),
)

const configurationStatement = prepareStatement((ref: Placeholders<ConfigurationParams>) =>
  db.select().from(modelConfigurations).where(isConfiguration(ref)),
)

export const readConfiguration = verb('models:read', async (ctx, { configuration_id }: ConfigurationParams) =>
  toWire(ctx)(requireRow(await run(ctx, configurationStatement({ configuration_id })), 'model_not_found')),
)

/** The authentication as a whole: members of another kind are null. */
async function authColumns(ctx: Ctx, id: string, input: schema.NewConfiguration | schema.ConfigurationPatch) {
  const { auth_type, secret, token_url, client_id, scope, audience } = input
  if (token_url != null) requireAddress(ctx, 'token_url', token_url)
  return {
    auth_type: auth_type!,
    secret: secret == null ? null : await ctx.sealer.seal(secret, id, MODEL_SECRET_PLACE),
    token_url: token_url ?? null,
    client_id: client_id ?? null,
    scope: scope ?? null,
    audience: audience ?? null,
  }
}

/** Locks the workspace before the journal: deleting the workspace meanwhile could deadlock otherwise. */
const LOCK_WORKSPACE = sql`select from workspaces w where w.id = current_tenant() for key share`

export const createConfiguration = verb(
  'workspaces:manage-model-configs',
  async (ctx, input: schema.NewConfiguration) => {
    const { name, provider, model, input_price, output_price, trace_project, deployment_ids } = input
    const base = readBaseUrl(ctx, input.base_url ?? schema.DEFAULT_BASE_URLS[provider]!)
    const id = crypto.randomUUID()
    const isUsable = sql`${isAllowedBase(base)} and ${hasKnownDeployments(deployment_ids ?? [])}`
    const change = db
      .insert(modelConfigurations)
      .values({
        id,
        organization_id: sql`current_organization()`,
        tenant_id: sql`case when ${isUsable} then current_tenant() end`,
        name,
        provider,
        model,
        base_url: baseText(base),
        ...(await authColumns(ctx, id, input)),
        input_price: input_price ?? null,
        output_price: output_price ?? null,
        trace_project: trace_project ?? null,
        deployment_ids: deployment_ids ?? null,
      })
      .returning()
    const parts = { lock: LOCK_WORKSPACE, changes: createdMembers(RECORD) }
    const rows = await commit(ctx, 'model_configuration.created', change, {}, parts)
    return toWire(ctx)(requireRow(rows, 'workspace_not_found'))
  },
)

/** A secret must never go to an address that was chosen without knowing it. */
const keepsAddress = (base: URL): SQL => sql`case
    when ${modelConfigurations.secret} is null or ${modelConfigurations.base_url} = ${baseText(base)} then true
    else refuse('model_secret_required')
  end`

export const changeConfiguration = verb(
  'workspaces:manage-model-configs',
  async (ctx, { configuration_id, ...input }: ConfigurationParams & schema.ConfigurationPatch) => {
    const { auth_type, name, provider, model } = input
    const base = input.base_url == null ? null : readBaseUrl(ctx, input.base_url)
    const { input_price, output_price, trace_project, deployment_ids } = input
    const change = db
      .update(modelConfigurations)
      .set({
        ...(name != null && { name }),
        ...(provider != null && { provider }),
        ...(model != null && { model }),
        ...(base && { base_url: baseText(base) }),
        ...(auth_type != null && (await authColumns(ctx, configuration_id, input))),
        ...(input_price !== undefined && { input_price }),
        ...(output_price !== undefined && { output_price }),
        ...(trace_project !== undefined && { trace_project }),
        ...(deployment_ids !== undefined && { deployment_ids }),
        ...bumpVersion(modelConfigurations),
      })
      .where(
        and(
          isConfiguration({ configuration_id }),
          versionMatches(ctx, modelConfigurations),
          base ? isAllowedBase(base) : undefined,
          base && auth_type == null ? keepsAddress(base) : undefined,
          hasKnownDeployments(deployment_ids ?? []),
        ),
      )
      .returning()
    const parts = {
      lock: lockRows(modelConfigurations, isConfiguration({ configuration_id })),
      changes: changedMembers(modelConfigurations, RECORD),
    }
    const data = { supplied: Object.keys(input) }
    const rows = await commit(ctx, 'model_configuration.updated', change, data, parts)
    return toWire(ctx)(requireRow(rows, 'model_not_found'))
  },
)

export const deleteConfiguration = verb('workspaces:manage-model-configs', async (ctx, ref: ConfigurationParams) => {
  const change = db
    .delete(modelConfigurations)
    .where(and(isConfiguration(ref), versionMatches(ctx, modelConfigurations)))
    .returning()
  const parts = { lock: lockRows(modelConfigurations, isConfiguration(ref)), changes: deletedMembers(RECORD) }
  requireRow(await commit(ctx, 'model_configuration.deleted', change, {}, parts), 'model_not_found')
})
