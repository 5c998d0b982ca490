// Selects the mutes that may cover an incident, for `mute-windows.ts` to judge.
import { type SQL, sql } from 'drizzle-orm'

type Incident = {
  tenant: SQL
  /** Null: of no alert rule. */
  rule: SQL | null
  deployment: SQL | null
  tags: SQL | null
}

/** An expression of type `json`: `MuteWindow[]`. */
export const coveringMutes = ({ tenant, rule, deployment, tags }: Incident): SQL => sql`(
  select coalesce(json_agg(json_build_object('starts_at', m.starts_at, 'ends_at', m.ends_at, 'weekly', m.weekly)), '[]')
  from alert_mutes m
  where m.tenant_id = ${tenant}
    and (m.ends_at is null or m.ends_at > clock())
    and (m.rule_ids = '{}' or ${rule ?? sql`null::uuid`} = any(m.rule_ids))
    and is_in_alert_scope(
      m.deployment_ids, m.tag_value_ids, ${deployment ?? sql`null::uuid`}, ${tags ?? sql`null::uuid[]`}
    )
)`
