// Alerts of rules: runs that match open an incident of the rule, as an alert rule does. Each alert is a channel of
// PagerDuty that belongs to the rule, with the id of the alert.
import { type SQL, sql } from 'drizzle-orm'
import { sealCredentials } from '../../connect/channels/channels.ts'
import { coveringMutes } from '../../hosting/alerts/covering-mutes.ts'
import { type MuteWindow, toMuteEnd } from '../../hosting/alerts/mute-windows.ts'
import { type Row, run } from '../../kernel/db/db.ts'
import type { Ctx } from '../../kernel/http/context.ts'
import { severities } from '../../protocol/notice.schema.ts'
import type { StoredRun } from '../store/queries.ts'
import type { ClaimedRule } from './claimed-rule.ts'
import type { RuleAlert } from './tables.ts'

export const ROUTING_KEY_PLACE = 'rule alert routing key'
/** A fact of a notice has room for so many ids. */
const MAX_RUNS = 12

/** `addChannels` comes before the statement that raises the incident. */
type RaisedAlert = { addChannels: SQL; incident: string }

/** Null where the rule has no alert, or no run matches. */
export async function planAlert(ctx: Ctx, rule: ClaimedRule, runs: StoredRun[]): Promise<RaisedAlert | null> {
  const { alerts, display_name } = rule
  if (alerts.length === 0 || runs.length === 0) return null
  const [row] = await run(ctx, readAlertState(rule.id))
  const { known, mutes } = JSON.parse(row![0] as string) as { known: string[]; mutes: MuteWindow[] }
  const missing = alerts.filter(({ id }) => !known.includes(id))
  const channels = await Promise.all(missing.map(alert => toChannel(ctx, rule, alert)))
  const incident = {
    severity: severities.find(one => alerts.some(({ severity }) => severity === one)),
    title: (alerts.length === 1 ? alerts[0]!.summary : null) ?? display_name,
    cause: runs.length === 1 ? 'A run matches.' : `${runs.length} runs match.`,
    value: runs.length,
    muted_until: toMuteEnd(mutes, ctx.platform.clock.now()),
    channel_ids: alerts.map(({ id }) => id),
    evidence: {
      facts: [
        { name: 'Automation rule', value: display_name },
        { name: 'Rule id', value: rule.id },
        { name: 'Runs', value: `${runs.length}` },
        {
          name: 'Run ids',
          value: runs
            .slice(0, MAX_RUNS)
            .map(({ id }) => id)
            .join(' '),
        },
      ],
      lines: [],
    },
  }
  return { addChannels: addChannels(rule, channels), incident: JSON.stringify(incident) }
}

const readAlertState = (rule: string) => sql<Row>`
  select json_build_object(
      'known', (
        select coalesce(json_agg(c.id), '[]')
        from channels c
        where c.run_rule_id = ${rule}::uuid and c.tenant_id = current_tenant()
      ),
      'mutes', ${coveringMutes({ tenant: sql`current_tenant()`, rule: null, deployment: null, tags: null })}
    )::text`

type NewChannel = { id: string; config: object; credentials: string }

async function toChannel(ctx: Ctx, { id: rule }: ClaimedRule, alert: RuleAlert): Promise<NewChannel> {
  const { id, summary, severity } = alert
  const routing_key = await ctx.sealer.open(alert.routing_key, rule, ROUTING_KEY_PLACE)
  return {
    id,
    config: { severity, ...(summary !== null && { summary }) },
    credentials: await sealCredentials(ctx, id, { routing_key }),
  }
}

const addChannels = ({ id }: ClaimedRule, channels: NewChannel[]): SQL => sql`
  insert into channels (id, organization_id, tenant_id, run_rule_id, name, kind, config, credentials)
  select g.id, r.organization_id, r.tenant_id, r.id, g.id::text, 'pagerduty', g.config, g.credentials
  from run_rules r
  cross join jsonb_to_recordset(${JSON.stringify(channels)}::jsonb) as g(id uuid, config jsonb, credentials text)
  -- It may have lost the alert since it was claimed.
  join json_array_elements(r.alerts) a on a ->> 'id' = g.id::text
  where r.id = ${id}::uuid and r.tenant_id = current_tenant()
  on conflict (id) do nothing`

/** A CTE: the incident, and the number of the notice that tells of it. It needs the CTE `rule`. */
export const raiseIncident = ({ incident }: RaisedAlert): SQL => sql`
  raised as materialized (
    select raise_incident_of_run_rule(r.id, ${incident}::jsonb) as alert
    from rule r
  )`
export const OUTCOME_OF_ALERT = sql`jsonb_build_object('alert', (select alert from raised))`
