// Secrets of a workspace for published clients: each is the secret of a provider's model configuration.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, createdMembers, deletedMembers } from '../../kernel/db/recorded-changes.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import { type ConfigurationRow, MODEL_SECRET_PLACE, RECORD } from './configurations.ts'
import { allowsBase } from './proxy-settings.ts'
import { DEFAULT_BASE_URLS } from './schema.ts'
import {
  isSecretKey,
  type NewSecret,
  type SecretChange,
  type SecretKey,
  type SecretRef,
  type WorkspaceSecret,
} from './secrets.schema.ts'
import { modelConfigurations } from './tables.ts'

/** The default models of calls. */
const PROVIDERS: Record<SecretKey, { provider: 'openai' | 'anthropic'; model: string }> = {
  OPENAI_API_KEY: { provider: 'openai', model: 'gpt-4.1-mini' },
  ANTHROPIC_API_KEY: { provider: 'anthropic', model: 'claude-sonnet-4-5' },
}

/** A provider that speaks the protocol of OpenAI stands in for it. */
async function listKeys(ctx: Ctx): Promise<SecretKey[]> {
  const keys = sql<Row>`
    select distinct case k.provider when 'anthropic' then 'ANTHROPIC_API_KEY' else 'OPENAI_API_KEY' end as key
    from model_configurations k
    where k.tenant_id = current_tenant()
    order by key`
  return (await run(ctx, keys)).map(([key]) => key as SecretKey)
}

const describe = (key: SecretKey): WorkspaceSecret => {
  const { hostname } = new URL(DEFAULT_BASE_URLS[PROVIDERS[key].provider]!)
  return { key, configs: [{ host_pattern: hostname, source: 'DEFAULT' }] }
}
type Listed = { include_configs: boolean }
const showKeys = (keys: SecretKey[], { include_configs }: Listed): WorkspaceSecret[] =>
  keys.map(key => (include_configs ? describe(key) : { key }))

export const listSecrets = verb('models:read', async (ctx, query: Listed) => showKeys(await listKeys(ctx), query))

/** The configuration `k` that the secret made, as long as its calls go to the provider itself. */
const isOf = ({ key }: Pick<NewSecret, 'key'>): SQL => {
  const { provider } = PROVIDERS[key]
  return sql`k.tenant_id = current_tenant()
      and lower(k.name) = lower(${key})
      and k.provider = ${provider}
      and k.auth_type = 'secret'
      and k.base_url = ${DEFAULT_BASE_URLS[provider]!}`
}

/** A secret is sealed under the id of its row, which takes a trip of its own where the row exists. */
export const storeSecrets = verb('workspaces:manage-model-configs', async (ctx, input: { secrets: NewSecret[] }) => {
  const { secrets } = input
  const created = await insertMissing(ctx, secrets)
  const missing = secrets.filter(({ key }) => !created.some(({ name }) => name === key))
  for (const secret of missing) await changeSecret({ ...ctx, idempotency: null }, secret)
  return secrets.map(({ key }) => ({ key }))
})

export const putSecret = verb(
  'workspaces:manage-model-configs',
  async (ctx, { secret_key, value }: SecretRef & SecretChange) => {
    const key = await requireKey(ctx, secret_key)
    if (value != null) await storeSecrets(ctx, { secrets: [{ key, value }] })
    else if (!(await hasSecret(ctx, key)))
      throw invalidRequest([{ type: 'required', loc: ['body', 'value'], msg: 'is required to create the secret' }])
    return describe(key)
  },
)

/** An unknown one is refused behind the permission, as an unknown id is. */
async function requireKey(ctx: Ctx, name: string): Promise<SecretKey> {
  if (isSecretKey(name)) return name
  await run(ctx, sql<Row>`select 1`)
  throw fail('model_not_found')
}

const hasSecret = async (ctx: Ctx, key: SecretKey): Promise<boolean> =>
  (await run(ctx, sql<Row>`select k.id from model_configurations k where ${isOf({ key })}`)).length > 0

/** Published clients repeat a deletion, so one that finds nothing succeeds. */
export const deleteSecret = verb('workspaces:manage-model-configs', async (ctx, { secret_key }: SecretRef) => {
  const secret = { key: await requireKey(ctx, secret_key) }
  const change = sql<ConfigurationRow>`delete from model_configurations k where ${isOf(secret)} returning k.*`
  const lock = sql`select from model_configurations k where ${isOf(secret)} for update`
  await commit(ctx, 'model_configuration.deleted', change, {}, { lock, changes: deletedMembers(RECORD) })
})

async function insertMissing(ctx: Ctx, secrets: NewSecret[]): Promise<ConfigurationRow[]> {
  const rows = await Promise.all(secrets.map(secret => selectMissing(ctx, secret)))
  const change = sql<ConfigurationRow>`
    insert into model_configurations (
      id, organization_id, tenant_id, name, provider, base_url, model, auth_type, secret
    )
    ${sql.join(rows, sql` union all `)}
    returning *`
  const lock = sql`select from workspaces w where w.id = current_tenant() for no key update`
  return commit(ctx, 'model_configuration.created', change, {}, { lock, changes: createdMembers(RECORD) })
}

async function selectMissing({ sealer }: Ctx, secret: NewSecret): Promise<SQL> {
  const { provider, model } = PROVIDERS[secret.key]
  const base = DEFAULT_BASE_URLS[provider]!
  const id = crypto.randomUUID()
  const sealed = await sealer.seal(secret.value, id, MODEL_SECRET_PLACE)
  return sql`
      select
        ${id}::uuid, current_organization(), current_tenant(), ${secret.key}, ${provider}, ${base}, ${model}, 'secret',
        ${sealed}
      where not exists (select from model_configurations k where ${isOf(secret)})
        and case when ${allowsBase(new URL(base))} then true else refuse('model_url_not_allowed', ${base}) end`
}

async function changeSecret(ctx: Ctx, secret: NewSecret): Promise<void> {
  const [found] = await run(ctx, sql<Row>`select k.id from model_configurations k where ${isOf(secret)}`)
  if (!found) return
  const id = found[0] as string
  const sealed = await ctx.sealer.seal(secret.value, id, MODEL_SECRET_PLACE)
  const isSame = sql`k.id = ${id}::uuid and ${isOf(secret)}`
  const change = sql<ConfigurationRow>`
    update model_configurations k
    set secret = ${sealed}, version = k.version + 1, updated_at = clock()
    where ${isSame}
    returning k.*`
  const parts = {
    lock: sql`select from model_configurations k where ${isSame} for update`,
    changes: changedMembers(modelConfigurations, RECORD),
  }
  await commit(ctx, 'model_configuration.updated', change, { supplied: ['secret'] }, parts)
}
