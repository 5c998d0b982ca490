// The spending of the evaluators of a rule in a week, from Monday in UTC.
import { type SQL, sql } from 'drizzle-orm'

const THIS_WEEK = sql`date_trunc('week', clock(), 'UTC')::date`

/** `rule` is a row of `run_rules`. */
export const SPENT_THIS_WEEK = (rule: SQL): SQL =>
  sql`case when ${rule}.spent_week = ${THIS_WEEK} then ${rule}.spent_usd else 0 end`

/** Assignments of an update of the rule. */
export const addSpending = (rule: SQL, cost: SQL): SQL =>
  sql`spent_usd = ${SPENT_THIS_WEEK(rule)} + ${cost}, spent_week = ${THIS_WEEK}`

export const isOverLimit = (rule: SQL): SQL => sql`coalesce(${SPENT_THIS_WEEK(rule)} >= ${rule}.spend_limit_usd, false)`
