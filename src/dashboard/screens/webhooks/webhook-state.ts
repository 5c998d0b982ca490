// The health of a webhook and the outcome of its deliveries in words (pure).
import type { Item, Reply } from '../../../client/client.ts'
import type { State } from '../../format/state.ts'

export type Webhook = Item<'GET /v2/webhooks'>
export type Delivery = Item<'GET /v2/webhooks/{webhook_id}/deliveries'>
export type DeliveryDetails = Reply<'GET /v2/webhooks/{webhook_id}/deliveries/{delivery_id}'>

export function stateOfWebhook({ enabled, health }: Pick<Webhook, 'enabled' | 'health'>): State {
  if (health.status === 'disabled') return { word: 'Disabled', tone: 'bad', shape: 'octagon' }
  if (!enabled) return { word: 'Paused', tone: 'idle', shape: 'held' }
  if (health.status === 'failing') return { word: 'Failing', tone: 'warn', shape: 'triangle' }
  return { word: 'Healthy', tone: 'ok', shape: 'check' }
}

/** Explains a webhook that is paused, disabled or failing. */
export function explainHealth({ enabled, health }: Pick<Webhook, 'enabled' | 'health'>): string | undefined {
  if (health.status === 'disabled')
    return health.disabled_reason === 'gone'
      ? 'The receiver responded with 410 Gone. Resume the webhook to continue with the first unsent event.'
      : 'No attempt succeeded for five days. Fix the receiver, send a test event, then resume. The webhook ' +
          'continues with the first unsent event.'
  if (!enabled) return 'The webhook is paused. Events are sent when it is resumed.'
  if (health.status === 'failing')
    return (
      'Failed deliveries are retried ten times within four days. After five days without a success the webhook ' +
      'is disabled.'
    )
  return undefined
}

export function stateOfDelivery({ state, attempts }: Pick<Delivery, 'state' | 'attempts'>): State {
  if (state === 'delivered') return { word: 'Delivered', tone: 'ok', shape: 'check' }
  if (state === 'failed') return { word: 'Failed', tone: 'bad', shape: 'octagon' }
  return attempts === 0
    ? { word: 'To be sent', tone: 'busy', shape: 'queued' }
    : { word: 'To be retried', tone: 'warn', shape: 'triangle' }
}

const ERRORS: Record<string, string> = {
  refused: 'The response was not 2xx',
  skipped: 'Skipped',
  event_expired: 'The event is no longer kept',
  upstream_timeout: 'No answer within 15 s',
  upstream_error: 'No connection',
  blocked_url: 'The address is not allowed',
}
export const describeError = (error: string): string => ERRORS[error] ?? error

export const describeAnswer = ({ answer_status, error }: Pick<Delivery, 'answer_status' | 'error'>): string => {
  if (answer_status !== null) return `Answered ${answer_status}`
  return error === null ? 'Not sent yet' : describeError(error)
}

/** Patterns that people choose from. Every type of a workspace's events begins with one of these. */
export const RESOURCES = [
  ['deployment', 'Deployments: created, changed, ready, deleted'],
  ['revision', 'Revisions: queued, building, deployed, failed'],
  ['preview', 'Previews of pull requests and branches'],
  ['deploy_hook', 'Deploy hooks'],
  ['channel', 'Channels: created, tested, disabled'],
  ['drain', 'Drains'],
  ['preview_policy', 'Preview policies'],
  ['bypass', 'Share links and bypass tokens'],
  ['custom_host', 'Custom domains: verified, lost, unreachable, certificates that fail'],
  ['job', 'Jobs: created, started, ended'],
  ['schedule', 'Schedules'],
  ['snapshot', 'Snapshots'],
  ['log_archive_settings', 'Archives of logs'],
  ['tunnel', 'Terminals and connections: opened, ended'],
  ['upload', 'Source archives'],
  ['image', 'Images: push offered'],
  ['listener', 'Listeners'],
  ['integration', 'Git hosts: connected, suspended, revoked'],
  ['incident', 'Incidents: opened, acknowledged, resolved'],
  ['alert_rule', 'Alert rules'],
  ['alert_settings', 'The switch of built-in alert rules'],
  ['alert_mute', 'Mutes of alerts'],
  ['webhook', 'Webhooks: changed, disabled'],
  ['oauth_provider', 'OAuth providers'],
  ['oauth_flow', 'Sign-ins at OAuth providers'],
  ['oauth_token', 'Tokens of people: connected, refreshed, refused, used'],
  ['project', 'Tracing projects: created, changed, traces deleted'],
  ['filter_view', 'Saved views of tracing projects'],
  ['ttl_settings', 'Trace retention'],
  ['run', 'Links to runs'],
  ['feedback_config', 'Kinds of feedback'],
  ['dataset', 'Datasets: changed, examples added, shared'],
  ['comparative_experiment', 'Comparisons of experiments'],
  ['annotation_queue', 'Annotation queues'],
  ['rule', 'Automation rules'],
  ['evaluator', 'Evaluators of several rules'],
  ['insight_job', 'Insights jobs'],
  ['insight_config', 'Saved configs of insights'],
  ['model_configuration', 'Model configurations'],
  ['model_budget', 'Budgets for calls of models: changed, nearly spent, spent'],
  ['tag_key', 'Tag keys'],
  ['tag_value', 'Tag values'],
  ['api_key', 'API keys: created, revoked'],
  ['client', 'Connected programs: a token used twice'],
  ['trusted_issuer', 'Trusted issuers of CI tokens'],
  ['token_exchange', 'CI tokens that were refused'],
  ['workspace', 'The workspace itself'],
  ['workspace_member', 'Members of the workspace'],
] as const

export const COMMON: [pattern: string, label: string][] = [
  ['revision.deployed', 'A revision serves'],
  ['revision.*_failed', 'A build or deploy failed'],
  ['deployment.unknown', 'A listener went silent'],
  ['preview.*', 'A preview changed'],
]

/** Code that verifies a message, in Node. */
export const verifySnippet = `import { Webhook } from 'standardwebhooks'

// body: the text as it was received, before JSON is parsed
const { type, data } = new Webhook(process.env.WEBHOOK_SECRET).verify(body, request.headers)`
