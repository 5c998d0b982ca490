// The health of a channel and the outcome of its notices in words (pure).
import type { Item } from '../../../client/client.ts'
import type { State } from '../../format/state.ts'

export type Channel = Item<'GET /v2/channels'>
export type Notice = Item<'GET /v2/channels/{channel_id}/notices'>

export const KINDS: Record<Channel['target']['kind'], string> = {
  email: 'E-mail',
  slack: 'Slack',
  pagerduty: 'PagerDuty',
  webhook: 'Signed webhook',
}

export const DEPLOYS: Record<Channel['deploys'], string> = {
  none: 'None',
  failed: 'Failed deployments',
  all: 'All deployments',
}

export const describeTarget = ({ target }: Channel): string =>
  target.address ??
  target.url ??
  target.slack_channel ??
  (target.region ? `Service region ${target.region.toUpperCase()}` : 'Incoming webhook')

export function stateOfChannel({ enabled, health }: Pick<Channel, 'enabled' | 'health'>): State {
  if (health.status === 'disabled') return { word: 'Disabled', tone: 'bad', shape: 'octagon' }
  if (!enabled) return { word: 'Paused', tone: 'idle', shape: 'held' }
  if (health.status === 'unconfirmed') return { word: 'Not confirmed', tone: 'warn', shape: 'triangle' }
  if (health.status === 'failing') return { word: 'Failing', tone: 'warn', shape: 'triangle' }
  return { word: 'Healthy', tone: 'ok', shape: 'check' }
}

const DISABLED: Record<string, string> = {
  failing: 'No attempt succeeded for five days. Fix the receiver, send a test notice, then resume.',
  rejected: 'The receiver is gone, or it refuses the credentials. Create a channel with new ones, or resume this one.',
  unsubscribed: 'The owner of the address ended the e-mails. Only a new confirmation by the owner starts them again.',
}

/** Explains a channel that is paused, disabled, failing or not confirmed. */
export function explainHealth({ enabled, health }: Pick<Channel, 'enabled' | 'health'>): string | undefined {
  if (health.status === 'disabled') return DISABLED[health.disabled_reason ?? 'failing']
  if (!enabled) return 'The channel is paused. Notices of this time are not sent later.'
  if (health.status === 'unconfirmed')
    return 'An e-mail asks the owner of the address to confirm it. Nothing else is sent before.'
  if (health.status === 'failing') return `${describeError(health.error)}. Failed notices are retried for a day.`
  return undefined
}

const ERRORS: Record<string, string> = {
  refused: 'The receiver refused it',
  replaced: 'A later notice took its place',
  mail_limit: 'The workspace has sent the e-mails of this hour',
  not_permitted: 'The person may not read the workspace',
  upstream_timeout: 'No answer in time',
  upstream_error: 'No connection',
  blocked_url: 'The address is not allowed',
  email_unavailable: 'This installation sends no e-mails',
}
export const describeError = (error: string | null): string =>
  error === null ? 'Not sent yet' : (ERRORS[error] ?? error)

export function stateOfNotice({ state, attempts }: Pick<Notice, 'state' | 'attempts'>): State {
  if (state === 'delivered') return { word: 'Delivered', tone: 'ok', shape: 'check' }
  if (state === 'failed') return { word: 'Failed', tone: 'bad', shape: 'octagon' }
  if (state === 'dropped') return { word: 'Dropped', tone: 'idle', shape: 'held' }
  return attempts === 0
    ? { word: 'To be sent', tone: 'busy', shape: 'queued' }
    : { word: 'To be retried', tone: 'warn', shape: 'triangle' }
}
