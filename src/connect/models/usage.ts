// Reads the usage of models by day, configuration and deployment.
import { sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { DEFAULT_DAYS, MAX_CALLERS, MAX_DAYS, type Usage, type UsageQuery } from './usage.schema.ts'

const DAY_MS = 86_400_000
const dayOf = (ms: number): string => new Date(ms).toISOString().slice(0, 10)

function chooseDays({ start, end }: UsageQuery, now: number): { start: string; end: string } {
  const last = end === undefined ? now : Date.parse(end)
  const first = start === undefined ? last - (DEFAULT_DAYS - 1) * DAY_MS : Date.parse(start)
  const fault = (msg: string) => fail('invalid_request', { errors: [{ type: 'custom', loc: ['query', 'start'], msg }] })
  if (first > last) throw fault('must not be after `end`')
  if (last - first >= MAX_DAYS * DAY_MS) throw fault(`must be less than ${MAX_DAYS} days before \`end\``)
  return { start: dayOf(first), end: dayOf(last) }
}

const SUMS = sql`
  coalesce(sum(calls), 0) as calls,
  coalesce(sum(failed), 0) as failed,
  coalesce(sum(input_tokens), 0) as input_tokens,
  coalesce(sum(output_tokens), 0) as output_tokens,
  -- As numeric it has 15 digits, without the noise of the sum.
  sum(cost_usd)::numeric as cost_usd`

const CALLER = sql`
  configuration_id,
  max(configuration_name) as configuration_name,
  deployment_id,
  (select d.name from deployments d where d.id = deployment_id and d.tenant_id = current_tenant()) as deployment_name`

export const readUsage = verb('models:read', async (ctx, query: UsageQuery): Promise<Usage> => {
  const { start, end } = chooseDays(query, ctx.platform.clock.now())
  const { configuration_id = null, deployment_id = null, limit, offset } = query
  const [row] = await run(
    ctx,
    sql<Row>`
      with matching as (
        select *
        from model_usage u
        where u.tenant_id = current_tenant()
          and u.day between ${start}::date and ${end}::date
          and u.configuration_id = coalesce(${configuration_id}::uuid, u.configuration_id)
          and (${deployment_id}::uuid is null or u.deployment_id = ${deployment_id}::uuid)
      ),
      by_day as (
        select day, ${SUMS}
        from matching
        group by day
        order by day desc
      ),
      by_caller as (
        select ${CALLER}, ${SUMS}
        from matching
        group by configuration_id, deployment_id
        order by sum(calls) desc, configuration_id, deployment_id
        limit ${MAX_CALLERS}
      ),
      days as (
        select day, ${CALLER}, ${SUMS}
        from matching
        group by day, configuration_id, deployment_id
        order by day desc, sum(calls) desc, configuration_id, deployment_id
        limit ${limit}
        offset ${offset}
      )
      select json_build_object(
        'total', (select to_json(total) from (select ${SUMS} from matching) total),
        'by_day', (select coalesce(json_agg(d), '[]') from by_day d),
        'by_caller', (select coalesce(json_agg(c), '[]') from by_caller c),
        'days', (select coalesce(json_agg(d), '[]') from days d)
      )::text`,
  )
  const sums = JSON.parse((row as string[])[0]!) as Pick<Usage, 'total' | 'by_day' | 'by_caller' | 'days'>
  return { start, end, ...sums, offset: offset + sums.days.length }
})
