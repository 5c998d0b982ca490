// Model configurations of a workspace, and an app that reaches the servers of this machine.
import { sql } from 'drizzle-orm'
import { localFetch } from '#runtime'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { type App, type Overrides, startApp, type Tenant } from './app.ts'

export const startModelApp = (overrides: Overrides = {}, settings: Record<string, string> = {}): App =>
  startApp({ settings: { ALLOW_LOOPBACK: 'true', ...settings }, overrides: { foreignFetch: localFetch, ...overrides } })

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

export const SECRET = 'hush-model-key'

/** Returns the id of the configuration. The app of the tenant is one of `startModelApp()`. */
export async function newModel(tenant: Tenant, input: ModelInput): Promise<string> {
  const { provider = 'openai', auth_type = 'secret', ...members } = input
  const hasSecret = auth_type === 'secret' || auth_type === 'oauth_client_credentials'
  const body = { name: crypto.randomUUID(), provider, model: MODEL, auth_type, ...(hasSecret && { secret: SECRET }) }
  const reply = await tenant.post('/v1/model-configurations', { ...body, ...members })
  if (reply.status !== 201) throw new Error(reply.text)
  return reply.body.id
}

/** The sums of all days. */
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
