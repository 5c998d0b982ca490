// Links that take feedback about one run, under one key, from people without a key. Each holds one piece of feedback,
// which its next use replaces: so a link in foreign hands stores one row.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { type Row, run, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Ctx, verb } from '../../kernel/http/context.ts'
import { type Fault, fail } from '../../kernel/http/errors.ts'
import { invalidRequest } from '../../kernel/http/input.ts'
import type { Services } from '../../kernel/http/routes.ts'
import * as schema from './feedback-links.schema.ts'
import { storeConfigs, storeFeedback, toCategory, toJsonText, toScore } from './store-feedback.ts'

const MAX_LINKS_OF_RUN = 100
const MINUTE_MS = 60_000
const DEFAULT_SPAN = { days: 0, hours: 3, minutes: 0 }

const toWire = ({ origin }: Ctx, [id, key, expires_at]: Row): schema.FeedbackLink => ({
  id: id as string,
  url: `${origin}/feedback/tokens/${id}`,
  expires_at: toIsoTime(expires_at as string),
  feedback_key: key as string,
})

type NewLink = schema.NewFeedbackLinks['links'][number]

function expiryOf({ expires_at, expires_in }: NewLink, now: number): number {
  if (expires_at) return Date.parse(expires_at)
  const { days, hours, minutes } = expires_in ?? DEFAULT_SPAN
  return now + ((days * 24 + hours) * 60 + minutes) * MINUTE_MS
}

export const createFeedbackLinks = verb(
  'feedback:create',
  async (ctx, { links, isList }: schema.NewFeedbackLinks): Promise<schema.FeedbackLink | schema.FeedbackLink[]> => {
    const now = ctx.platform.clock.now()
    const faults: Fault[] = []
    const given = links.map((link, place) => {
      const expiry = expiryOf(link, now)
      const loc = ['body', ...(isList ? [place] : []), link.expires_at ? 'expires_at' : 'expires_in']
      if (!(expiry > now && expiry <= now + schema.MAX_LINK_DAYS * 24 * 60 * MINUTE_MS))
        faults.push({ type: 'custom', loc, msg: `must be in the future, and within ${schema.MAX_LINK_DAYS} days` })
      const { run_id, feedback_key: key, feedback_config: config } = link
      return { place, run_id, key, config, expires_at: new Date(expiry) }
    })
    if (faults.length > 0) throw invalidRequest(faults)
    const query = sql<Row>`
      with given as (
        select *
        from json_to_recordset(${JSON.stringify(given)}::json)
          as g(place integer, run_id uuid, key text, config json, expires_at timestamptz)
      ),
      ${storeConfigs(sql`given`)},
      stored as (
        insert into feedback_tokens (id, organization_id, tenant_id, run_id, key, expires_at)
        select gen_random_uuid(), current_organization(), current_tenant(), g.run_id, g.key, g.expires_at
        from given g
        left join feedback_configs c on c.tenant_id = current_tenant() and c.key = g.key
        where ${hasRoom(sql`g.run_id`)}
          and case
            when g.config is null or c.config is null or g.config::jsonb = c.config::jsonb then true
            else refuse('feedback_config_differs', g.key)
          end
        order by g.place
        returning id, key, expires_at
      )
      select id, key, expires_at
      from stored`
    const rows = (await run(ctx, query)).map(row => toWire(ctx, row))
    return isList ? rows : requireRow(rows, 'feedback_link_not_found')
  },
)

const hasRoom = (run: SQL): SQL => sql`case
          when (
            select count(*) from feedback_tokens t
            where t.tenant_id = current_tenant() and t.run_id = ${run} and t.expires_at > clock()
          ) + (select count(*) from given o where o.run_id = ${run}) <= ${MAX_LINKS_OF_RUN}
            then true
          else refuse('feedback_links_full')
        end`

/** Needs the permission to create feedback, because a link gives it. */
export const listFeedbackLinks = verb(
  'feedback:create',
  async (ctx, { run_id, limit, offset }: z.output<typeof schema.FeedbackLinkQuery>) => {
    const query = sql<Row>`
      select t.id, t.key, t.expires_at
      from feedback_tokens t
      where t.tenant_id = current_tenant() and t.run_id = ${run_id}::uuid and t.expires_at > clock()
      order by t.created_at desc, t.id desc
      limit ${limit}
      offset ${offset}`
    return (await run(ctx, query)).map(row => toWire(ctx, row))
  },
)

/** Enters no workspace if there is no such link. Later statements then find nothing. */
const enterWorkspaceOfLink = (token: string): SQL => sql`
  select
    set_config('app.tenant_id', t.tenant_id::text, true),
    set_config('app.organization_id', t.organization_id::text, true)
  from feedback_tokens t
  where t.id = ${token}::uuid and t.expires_at > clock()`

export async function sendLinkFeedback(
  { platform, database }: Services,
  token: string,
  { score, value, comment, correction, metadata }: schema.LinkFeedback,
): Promise<void> {
  const faults: Fault[] = []
  const texts = {
    value: toJsonText(value, ['body', 'value'], faults) ?? null,
    correction: toJsonText(correction, ['body', 'correction'], faults) ?? null,
    metadata: toJsonText(metadata, ['body', 'metadata'], faults) ?? null,
  }
  if (faults.length > 0) throw invalidRequest(faults)
  const given = sql`
    select 0 as place, t.feedback_id as id, t.run_id, null::uuid as trace_id, null::uuid as session_id,
      null::timestamptz as start_time, t.key, ${toScore(score) ?? null}::numeric as score,
      ${texts.value}::text as value, ${toCategory(value) ?? null}::text as category,
      ${comment ?? null}::text as comment, ${texts.correction}::text as correction, 'app' as source_type,
      ${texts.metadata}::text as source_metadata,
      null::uuid as feedback_group_id, null::uuid as comparative_experiment_id, false as is_error,
      true as extends_retention, null::json as config, null::timestamptz as created_at,
      null::timestamptz as modified_at
    from feedback_tokens t
    where t.id = ${token}::uuid and t.tenant_id = current_tenant()`
  // If runs are stored elsewhere, the sweep finds the run: the link alone says in which workspace.
  const store = sql<Row>`
    with
    ${sql.join(storeFeedback(given, { found: sql`runs` }), sql`,`)}
    select id
    from stored_feedback`
  const [, , rows] = await runAsSystem(database, setClock(platform), enterWorkspaceOfLink(token), store)
  if (rows!.length === 0) throw fail('feedback_link_not_found')
}
