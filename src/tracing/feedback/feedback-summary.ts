// Adds up the feedback of a project by key. It may be a million rows, so comments are left out.
import { type SQL, sql } from 'drizzle-orm'

export type FeedbackSummary = Record<
  string,
  {
    n: number
    avg: number | null
    stdev: number | null
    min: number | null
    max: number | null
    errors: number
    values: Record<string, number>
  }
>

/** The texts that are counted for one key, the most frequent first. */
const MAX_VALUES = 50

/**
 * A scalar subquery: `{"<key>": {"n", "avg", "stdev", "min", "max", "errors", "values": {"<text>": count}}}`, or null
 * without feedback. `condition` is about the row `f` of `feedbacks`.
 */
export const summarizeFeedback = (condition: SQL): SQL => sql`(
    select json_object_agg(k.key, k.stats)
    from (
      select
        g.key,
        json_build_object(
          'n', sum(g.n),
          'avg', sum(g.total) / nullif(sum(g.scored), 0),
          'stdev', sqrt(greatest(0,
            sum(g.squares) / nullif(sum(g.scored), 0) - (sum(g.total) / nullif(sum(g.scored), 0)) ^ 2
          )),
          'min', min(g.lowest),
          'max', max(g.highest),
          'errors', sum(g.errors),
          'values', coalesce(
            json_object_agg(g.category, g.n order by g.n desc) filter (
              where g.category is not null and g.place <= ${MAX_VALUES}
            ),
            '{}'
          )
        ) as stats
      from (
        select
          f.key, f.category, count(*) as n, count(f.score) as scored, sum(f.score) as total,
          sum(f.score ^ 2) as squares, min(f.score) as lowest, max(f.score) as highest,
          count(*) filter (where f.is_error) as errors,
          row_number() over (partition by f.key order by f.category is null, count(*) desc) as place
        from feedbacks f
        where f.tenant_id = current_tenant() and ${condition}
        group by f.key, f.category
      ) g
      group by g.key
    ) k)`
