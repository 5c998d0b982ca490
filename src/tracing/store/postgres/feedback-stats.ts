// Adds up feedback by its key.
import { type SQL, sql } from 'drizzle-orm'

const MAX_COMMENTS = 10
const decimal = (number: SQL): SQL => sql`trim_scale(round(${number}, 4))`

/** An object for the rows `f` of one group. */
const STATS = sql`json_build_object(
    'n', count(*),
    'avg', ${decimal(sql`avg(f.score)`)},
    'min', ${decimal(sql`min(f.score)`)},
    'max', ${decimal(sql`max(f.score)`)},
    'stdev', ${decimal(sql`stddev_samp(f.score)`)},
    'errors', count(*) filter (where f.is_error),
    'values', (
      select coalesce(json_object_agg(v.category, v.count), '{}')
      from (
        select category, count(*)
        from unnest(array_agg(f.category)) category
        where category is not null
        group by category
      ) v
    ),
    'comments', to_json(coalesce(
      (array_agg(f.comment order by f.created_at desc, f.id) filter (where f.comment is not null))[:${MAX_COMMENTS}],
      '{}'
    )),
    'sources', json_agg(distinct f.source_type)
  )`

/** A scalar subquery: an object by key of the feedback that meets the condition on `f`. Null if there is none. */
export const feedbackStats = (condition: SQL): SQL => sql`(
  select json_object_agg(g.key, g.stats)
  from (
    select f.key, ${STATS} as stats
    from feedbacks f
    where f.tenant_id = current_tenant() and ${condition}
    group by f.key
  ) g
)`
