// Model configurations of a workspace, and an app that reaches the servers of this machine.
import { sql } from 'drizzle-orm'
import type { Config } from '../../src/env.ts'
import { createSealer } from '../../src/kernel/crypto.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { type App, startApp, type Tenant } from './app.ts'
import { isWorker } from './tracing-clients.ts'

/** The fetch of the host that runs the tests. */
const foreignFetch: typeof fetch = isWorker
  ? (input, init) => fetch(input, init)
  : (await import('../../src/host/pinned-fetch.ts')).createPinnedFetch({ allowLoopback: true })

export const startModelApp = (overrides: Partial<Config> = {}, settings: Record<string, string> = {}): App =>
  startApp({ settings: { ALLOW_LOOPBACK: 'true', ...settings }, overrides: { foreignFetch, ...overrides } })

type ModelInput = {
  base_url: string
  provider?: 'openai' | 'anthropic' | 'openai_compatible'
  auth_type?: 'none' | 'secret' | 'jwt' | 'oauth_client_credentials'
  secret?: string
  token_url?: string
  client_id?: string
  scope?: string
  audience?: string
  input_price?: number
  output_price?: number
  trace_project?: string
  deployment_ids?: string[]
}
export const MODEL = 'small-1'

/** Returns the id of the configuration. */
export async function newModel(app: App, tenant: Tenant, input: ModelInput): Promise<string> {
  const { provider = 'openai', auth_type = 'secret', ...members } = input
  const id = crypto.randomUUID()
  const hasSecret = auth_type === 'secret' || auth_type === 'oauth_client_credentials'
  const secret = hasSecret
    ? await createSealer(app.config.sealingKeys).seal(input.secret ?? 'hush-model-key', id, 'model_secret')
    : null
  const row = { ...members, provider, auth_type, secret, id, name: id, model: MODEL }
  const columns = Object.keys(row).map(name => sql.raw(name))
  await runAsSystem(
    app.database,
    sql`
      insert into model_configurations (organization_id, tenant_id, ${sql.join(columns, sql`, `)})
      select ${tenant.organization_id}::uuid, ${tenant.tenant_id}::uuid, ${sql.join(columns, sql`, `)}
      from json_populate_record(null::model_configurations, ${JSON.stringify(row)}::json)`,
  )
  return id
}

export type UsageRow = { calls: string; failed: string; input_tokens: string; output_tokens: string; cost_usd: string }

/** Waits until so many calls are counted. */
export async function readUsage(app: App, configuration: string) {
  const [, rows] = (await runAsSystem(
    app.database,
    sql`select set_config('x.x', '', true)`,
    sql`
      select coalesce(sum(calls), 0), coalesce(sum(failed), 0), sum(input_tokens), sum(output_tokens), sum(cost_usd)
      from model_usage
      where configuration_id = ${configuration}::uuid`,
  )) as [unknown, (string | null)[][]]
  const [calls, failed, input_tokens, output_tokens, cost] = rows[0]!.map(Number)
  return { calls, failed, input_tokens, output_tokens, cost }
}
