// Finds the reads that an event makes stale (pure).

/** The cache key of a read. */
export type ReadKey = [workspace: string, route: string, options: { params?: object; query?: object }]

export type LiveEvent = {
  number: number
  type: string
  subject: { type: string; id: string }
  data: Record<string, unknown>
}

/** Resources whose lists and pages show others too, by the first segments of their paths. */
const SHOWN_ON: Record<string, string[]> = {
  deployment: ['/v2/deployment', '/v2/previews'],
  revision: ['/v2/deployment', '/v2/previews'],
  preview: ['/v2/deployments', '/v2/previews'],
  custom_host: ['/v2/deployment', '/v2/custom-hosts'],
  log_archive_settings: ['/v2/log-archive', '/v2/deployment'],
  listener: ['/v2/listeners', '/v2/deployment'],
  integration: ['/v1/integrations', '/v2/deployments'],
  channel: ['/v2/channels'],
  webhook: ['/v2/webhooks'],
  incident: ['/v2/incidents'],
  alert_rule: ['/v2/alert', '/v2/incidents'],
  alert_settings: ['/v2/alert'],
  alert_mute: ['/v2/alert', '/v2/incidents'],
  drain: ['/v2/drains'],
  oauth_provider: ['/v2/auth'],
  oauth_token: ['/v2/auth/tokens'],
  oauth_flow: [],
  api_key: ['/workspaces/current/api-keys', '/orgs/current/api-keys'],
  trusted_issuer: ['/v2/trusted-issuers'],
  token_exchange: [],
  workspace_member: ['/workspaces/current/members', '/orgs/current/members'],
  project: ['/sessions'],
  dataset: ['/datasets', '/examples'],
  rule: ['/runs/rules'],
  insight_job: ['/sessions/{session_id}/insights'],
  insight_config: ['/sessions/{session_id}/insights'],
  evaluator: ['/v1/platform/evaluators', '/runs/rules'],
  annotation_queue: ['/annotation-queues'],
  run: ['/runs'],
  model_configuration: ['/v1/model'],
  model_budget: ['/v1/model-budgets'],
  tag_key: ['/v2/tag-keys', '/v2/deployment'],
  tag_value: ['/v2/tag-keys', '/v2/deployment'],
}

/** Lists of events show every new one. */
const SHOWS_ALL = ['/v2/events']

export function isAffected(event: LiveEvent, [, route, { params }]: ReadKey): boolean {
  const [, path = ''] = route.split(' ')
  if (SHOWS_ALL.includes(path)) return true
  const paths = SHOWN_ON[event.subject.type]
  // An unknown kind may be shown anywhere.
  if (paths && !paths.some(start => path.startsWith(start))) return false
  const deployment = event.subject.type === 'deployment' ? event.subject.id : event.data.deployment_id
  const shown = (params as { deployment_id?: string } | undefined)?.deployment_id
  return typeof deployment !== 'string' || shown === undefined || shown === deployment
}
