// Items of the audit log in words (pure).
import type { AuditItem } from '../../api/audit-pages.ts'

/** Events without an actor, which a verb and a noun would describe wrongly. */
const PLAIN: Record<string, string> = {
  fail_integration_install: 'Connection of a Git host failed',
  fail_oauth_flow: 'OAuth connection failed',
  find_deployment_ref: 'Branch of a deployment was restored',
  lose_deployment_ref: 'Branch of a deployment was deleted',
}
const WRITTEN: Record<string, string> = { api: 'API', oauth: 'OAuth', url: 'URL', org: 'organization' }

/** `create_tag_key` → `Create tag key`. */
export function describeOperation(name: string): string {
  const text = name.replaceAll('_', ' ').replace(/\b(api|oauth|url|org)\b/g, word => WRITTEN[word] ?? word)
  return PLAIN[name] ?? text.charAt(0).toUpperCase() + text.slice(1)
}

/** The first that matches counts: `rotate_webhook_secret` is of webhooks. */
const GROUPS: [group: string, nouns: RegExp][] = [
  ['Previews', /preview/],
  ['Channels', /channel/],
  ['Alerts', /alert|incident/],
  ['Webhooks', /webhook/],
  ['OAuth providers', /oauth|provider/],
  ['Git hosts', /integration|githost|repositor/],
  ['Listeners', /listener/],
  ['Keys', /api_key/],
  ['Sessions, devices and programs', /session|sign_in|device|client|authorization_code|refresh_token/],
  ['Members and roles', /member|role|user|identity/],
  ['Tags', /tag/],
  ['Deployments', /deployment|revision|upload|push|custom_host/],
  ['Workspaces', /workspace|organization/],
]
const OTHERS = 'Other'

/** For a filter: by group, then by name. */
export const listOperations = (names: readonly string[]) =>
  names
    .map(value => ({
      value,
      label: describeOperation(value),
      group: GROUPS.find(([, nouns]) => nouns.test(value))?.[0] ?? OTHERS,
    }))
    .sort(
      (a, b) =>
        Number(a.group === OTHERS) - Number(b.group === OTHERS) ||
        a.group.localeCompare(b.group) ||
        a.label.localeCompare(b.label),
    )

const ACTORS: Record<string, string> = {
  key: 'An API key',
  session: 'A person',
  listener: 'A listener',
  push: 'A push',
  cron: 'The schedule',
  operator: 'The operator',
}
export const describeActorOf = ({ unmapped: { actor_name, actor_kind } }: AuditItem): string =>
  actor_name ?? ACTORS[actor_kind] ?? actor_kind

const NAMES = ['name', 'display_name', 'email', 'description', 'key', 'value', 'host', 'url', 'compute_id']
/** Names the subject of a change by the change's own data. */
export function nameSubject({ unmapped: { events } }: AuditItem): string | undefined {
  const changes = events.flatMap(event => event.changes ?? [])
  for (const name of NAMES) {
    const found = changes.find(({ path }) => path === name)
    const value = found?.after ?? found?.before
    if (typeof value === 'string' && value) return value
  }
  return undefined
}

export const PERIODS = [
  { value: '24h', label: 'Last 24 hours', hours: 24 },
  { value: '7d', label: 'Last 7 days', hours: 7 * 24 },
  { value: '30d', label: 'Last 30 days', hours: 30 * 24 },
  { value: '90d', label: 'Last 90 days', hours: 90 * 24 },
  { value: 'all', label: 'All', hours: undefined },
]
const DEFAULT_PERIOD = PERIODS[2]!
const findPeriod = (value: string) => PERIODS.find(period => period.value === value) ?? DEFAULT_PERIOD

const HOUR_MS = 3_600_000
/** Round to the hour, so that the same view sends the same request. */
export const startOfPeriod = (value: string, now: number): string => {
  const { hours } = findPeriod(value)
  return hours
    ? new Date(Math.floor(now / HOUR_MS) * HOUR_MS - hours * HOUR_MS).toISOString()
    : '2000-01-01T00:00:00.000Z'
}
/** The end of every period: new entries belong to the open page. */
export const END = '2099-12-31T23:59:59Z'
