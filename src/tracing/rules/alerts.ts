// Alerts of rules as PagerDuty takes them: Events API v2.
import { derivedUuid } from '../../kernel/crypto/digest.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { RuleAlert } from './tables.ts'

const EVENTS_URL = 'https://events.pagerduty.com/v2/enqueue'
const MAX_RUNS = 20
/** An alert is sent once in this time, however many runs match. */
const WINDOW_MS = 5 * 60_000

export const ROUTING_KEY_PLACE = 'rule alert routing key'

export const alertDeliveryId = (alert: string, now: number): string =>
  derivedUuid(`alert ${alert} ${Math.floor(now / WINDOW_MS)}`)

type Alert = {
  alert: RuleAlert
  rule: { id: string; tenant_id: string; display_name: string }
  run_ids: string[]
  created_at: string
}

/** PagerDuty adds it to the open incident of the same `dedup_key`, if there is one. */
export async function buildAlert({ config, sealer }: Services, { alert, rule, run_ids, created_at }: Alert) {
  const origin = configuredOrigin(config)
  const runs = run_ids.length === 1 ? 'a run matches' : `${run_ids.length} runs match`
  const event = {
    routing_key: await sealer.open(alert.routing_key, rule.id, ROUTING_KEY_PLACE),
    event_action: 'trigger',
    dedup_key: `rule ${rule.id} ${alert.id}`,
    client: 'Slipway',
    payload: {
      summary: (alert.summary ?? `${rule.display_name}: ${runs}`).slice(0, 1024),
      source: origin || 'Slipway',
      severity: alert.severity,
      timestamp: new Date(created_at).toISOString(),
      component: rule.display_name,
      class: 'automation rule',
      custom_details: {
        rule_id: rule.id,
        workspace_id: rule.tenant_id,
        run_count: run_ids.length,
        run_ids: run_ids.slice(0, MAX_RUNS),
      },
    },
  }
  return { url: EVENTS_URL, headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(event) }
}
