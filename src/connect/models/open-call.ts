// The one trip before a call of a model: it reads the configuration and the settings, and counts the call under its
// budgets.
import { sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import { type Ctx, isConfined } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { AllowedUrls } from './allowed-urls.ts'
import type { ModelActor } from './model-jwt.ts'
import type { modelConfigurations } from './tables.ts'

type Named = { id: string; name: string }

const COLUMNS = [
  'id',
  'name',
  'provider',
  'base_url',
  'model',
  'auth_type',
  'secret',
  'token_url',
  'client_id',
  'scope',
  'audience',
  'input_price',
  'output_price',
  'trace_project',
] as const
export type CalledConfiguration = Pick<typeof modelConfigurations.$inferSelect, (typeof COLUMNS)[number]>

export type OpenedCall = {
  configuration: CalledConfiguration
  organization: Named
  workspace: Named
  actor: ModelActor
  /** The application that calls, and the project that its calls are traced in. */
  deployment: { id: string; project_id: string } | null
  /** The audience of the tokens that we sign. Null: the origin of the `base_url`. */
  audience: string | null
  allowed_urls: AllowedUrls
  /** The prompt is about runs of a project with tags, and access policies on tags hide these runs from some callers. */
  hides_contents: boolean
}
type Found = Omit<OpenedCall, 'actor'> & { enabled: boolean }

const configurationJson = sql.raw(`json_build_object(${COLUMNS.map(name => `'${name}', m.${name}`).join(', ')})`)

/** A call of the platform itself names its actor, and the project of the runs that it is about. */
type OwnCall = { actor?: ModelActor | undefined; about?: string | undefined }

export async function openCall(ctx: Ctx, configurationId: string, own: OwnCall = {}): Promise<OpenedCall> {
  const deployment = isConfined(ctx) ? sql`current_actor()` : sql`null::uuid`
  const rows = (await run(
    ctx,
    sql<Row>`
      select json_build_object(
          'configuration', ${configurationJson},
          'organization', json_build_object('id', o.id, 'name', o.display_name),
          'workspace', json_build_object('id', w.id, 'name', w.display_name),
          'deployment', case when ${deployment} is not null then
            json_build_object('id', ${deployment}, 'project_id', setting('confined_project'))
          end,
          'enabled', coalesce(s.enabled, true),
          'audience', s.audience,
          'allowed_urls', json_build_object(
            'mode', coalesce(s.allowed_urls, 'configurations'),
            'patterns', coalesce(s.patterns, '{}')
          ),
          'hides_contents', exists (
            select from projects p
            where p.id = ${own.about ?? null}::uuid and p.tenant_id = m.tenant_id and p.tag_value_ids <> '{}'
          ),
          'is_taken', case when coalesce(s.enabled, true) then take_model_call(${deployment}) end
        )::text
      from model_configurations m
      join workspaces w on w.id = m.tenant_id
      join organizations o on o.id = m.organization_id
      left join model_proxy_settings s on s.organization_id = m.organization_id
      where m.tenant_id = current_tenant()
        and m.id = ${configurationId}::uuid
        and (${deployment} is null or m.deployment_ids is null or ${deployment} = any(m.deployment_ids))`,
  )) as [string][]
  if (!rows[0]) throw fail('model_not_found')
  const { enabled, ...call } = JSON.parse(rows[0][0]) as Found
  if (!enabled) throw fail('model_proxy_off')
  return { ...call, actor: own.actor ?? callerOf(ctx) }
}

const callerOf = (ctx: Ctx): ModelActor => ({
  type: isConfined(ctx) ? 'deployment' : ctx.actor.kind === 'session' ? 'user' : 'api_key',
  id: ctx.requestInfo.actor!,
})
