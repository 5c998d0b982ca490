// Reads the usage of models by day, configuration and deployment.
import { sql } from 'drizzle-orm'
import { type Row, run } from '../../kernel/db/db.ts'
import { verb } from '../../kernel/http/context.ts'
import { chooseDays } from '../../kernel/http/days.ts'
import { DEFAULT_DAYS, MAX_CALLERS, MAX_DAYS, type Usage, type UsageQuery } from './usage.schema.ts'

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
  const { start, end } = chooseDays(query, ctx.platform.clock.now(), { byDefault: DEFAULT_DAYS, most: MAX_DAYS })
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
