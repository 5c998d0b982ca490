// The tier of a project: for how long the traces that begin from now on are kept.
import { type SQL, sql } from 'drizzle-orm'

type Retention = { tier: SQL; days: SQL }

/**
 * A condition: a caller who changes a retention needs the permission to increase or to decrease it, for a project with
 * these tags. `days` are those of long-lived traces, or null for those of the workspace.
 */
export const requireTierChange = (tags: SQL, from: Retention, to: Retention): SQL =>
  sql`require_tier_change(${tags}, ${from.tier}, ${to.tier}, longlived_days(${from.days}), longlived_days(${to.days}))`

/** The value of `earlier_tiers` once the row `p` has another tier: traces that began before keep theirs. */
export const recordTier = (tier: SQL): SQL =>
  sql`case when p.trace_tier = ${tier} then p.earlier_tiers else record_tier(p.earlier_tiers, p.trace_tier) end`

/** A condition: a new project is kept for longer than others by permission only. */
export const requireAllowedTier = (tags: SQL, { tier, days }: Retention): SQL => sql`case
        when ${tier} = 'longlived' and default_trace_tier() = 'shortlived'
          or longlived_days(${days}) > longlived_days(null)
          then require_permission_for('projects:increase-trace-tier', ${tags})
        else true
      end`
