// The settings of an organization for calls of models: whether there are any, and to which URLs.
import { eq, type SQL, sql } from 'drizzle-orm'
import { lockRows, type Row, refuseUnless, run, textArray, versionMatches } from '../../kernel/db/db.ts'
import { commit } from '../../kernel/db/journal.ts'
import { changedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import { organizations } from '../../people/access/tables.ts'
import { normalizePattern, originsOfPatterns } from './allowed-urls.ts'
import type * as schema from './schema.ts'
import { modelProxySettings } from './tables.ts'

type SettingsRow = Pick<
  typeof modelProxySettings.$inferSelect,
  'enabled' | 'audience' | 'allowed_urls' | 'patterns' | 'version'
> & { updated_at: string | null }

const DEFAULTS = { enabled: true, audience: null, allowed_urls: 'configurations', patterns: [] } as const

const toWire = (ctx: Ctx, row: SettingsRow): schema.ProxySettings & { [etagVersion]: number } => ({
  enabled: row.enabled,
  audience: row.audience,
  allowed_urls: { mode: row.allowed_urls, patterns: row.patterns },
  jwks_url: `${ctx.origin}/.well-known/jwks.json`,
  header: ctx.config.modelProxyHeader,
  issuer: ctx.config.modelProxyIssuer ?? ctx.origin,
  updated_at: toIsoTime(row.updated_at),
  [etagVersion]: row.version,
})

/** One row, with the defaults where none is stored. Its version is then 0. */
const STORED = sql`
  select
    o.id,
    coalesce(s.enabled, true) as enabled,
    s.audience,
    coalesce(s.allowed_urls, ${DEFAULTS.allowed_urls}) as allowed_urls,
    coalesce(s.patterns, '{}') as patterns,
    coalesce(s.version, 0) as version,
    s.updated_at
  from organizations o
  left join model_proxy_settings s on s.organization_id = o.id
  where o.id = current_organization()`

export const readProxySettings = verb('organization:read', async ctx => {
  const rows = await run(ctx, sql<Row>`select to_json(stored) from (${STORED}) stored`)
  const [row] = requireRow(rows, 'organization_not_found')
  return toWire(ctx, JSON.parse(row as string))
})

const RECORD = recordColumns(modelProxySettings, ['enabled', 'audience', 'allowed_urls', 'patterns'])

function readPatterns(patterns: readonly string[]): string[] {
  const normalized = patterns.map(normalizePattern)
  const errors = normalized.flatMap((pattern, i) =>
    pattern === null
      ? [
          {
            type: 'custom',
            loc: ['body', 'allowed_urls', 'patterns', i],
            msg: 'must be a URL with a path, such as https://api.openai.com/v1/* or https://*.openai.azure.com/*',
          },
        ]
      : [],
  )
  if (errors.length > 0) throw fail('invalid_request', { errors })
  return [...new Set(normalized as string[])]
}

export const changeProxySettings = verb('organization:update', async (ctx, input: schema.ProxySettingsPatch) => {
  const { enabled, audience, allowed_urls } = input
  const patterns = allowed_urls?.patterns ? readPatterns(allowed_urls.patterns) : null
  const newAudience = audience === undefined ? sql`b.audience` : sql`${audience}::text`
  const newMode = sql`coalesce(${allowed_urls?.mode ?? null}::text, b.allowed_urls)`
  // Otherwise the server of any configuration could use the tokens that it gets at the one that they are for.
  const isBound = refuseUnless('model_audience_unbound', sql`${newAudience} is null or ${newMode} = 'list'`)
  const change = sql<Row>`
    insert into model_proxy_settings as s (organization_id, enabled, audience, allowed_urls, patterns)
    select
      b.id,
      coalesce(${enabled ?? null}::boolean, b.enabled),
      ${newAudience},
      ${newMode},
      ${patterns === null ? sql`b.patterns` : textArray(patterns)}
    from before b
    where ${isBound} and ${versionMatches(ctx, { version: sql`b.version` }) ?? sql`true`}
    on conflict (organization_id) do update set
      enabled = excluded.enabled,
      audience = excluded.audience,
      allowed_urls = excluded.allowed_urls,
      patterns = excluded.patterns,
      version = s.version + 1,
      updated_at = clock()
    returning s.*, s.organization_id as id`
  const parts = {
    ctesBefore: [sql`before as (${STORED})`],
    lock: lockRows(organizations, eq(organizations.id, sql`current_organization()`)),
    changes: changedMembers(sql`before`, RECORD),
  }
  const rows = await commit<SettingsRow>(ctx, 'model_proxy.updated', change as never, {}, parts)
  return toWire(ctx, requireRow(rows, 'organization_not_found'))
})

/** True if the caller's organization allows calls to any URL below the base. */
export const allowsBase = (base: URL): SQL => {
  const path = base.pathname.replace(/\/$/, '')
  return sql`coalesce((
    select case s.allowed_urls
      when 'none' then false
      when 'list' then exists (
        select from unnest(s.patterns) p(pattern), unnest(${textArray(originsOfPatterns(base))}) o(origin)
        where starts_with(p.pattern, o.origin || '/')
          and (
            starts_with(p.pattern || '/', o.origin || ${`${path}/`})
            or right(p.pattern, 1) = '*' and starts_with(o.origin || ${`${path}/`}, rtrim(p.pattern, '*'))
          )
      )
      else true
    end
    from model_proxy_settings s
    where s.organization_id = current_organization()), true)`
}
