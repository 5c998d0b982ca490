// Notices as Slack takes them: by an incoming webhook, or by a bot that keeps one message for each incident.
import {
  type OutgoingChannel,
  type OutgoingNotice,
  pageUrl,
  type Sender,
  type SendServices,
  type Sent,
  shorten,
  stateOf,
  UndeliveredError,
} from './outgoing.ts'
import { type Answer, post, refusalOf } from './post.ts'

const API = 'https://slack.com/api'
const EVENT_TYPE = 'slipway_notice'
const HISTORY = 'conversations.history'
const HISTORY_BYTES = 4 * 1024 ** 2
const HISTORY_PAGES = 3
const COLORS = { critical: '#b3261e', error: '#b3261e', warning: '#b45309', info: '#2f4bc4' }
const RESOLVED_COLOR = '#1b7f4b'
/** Errors of a bot that no later attempt mends. Slack lists them with each method. */
const ENDING_ERRORS = [
  'account_inactive',
  'channel_not_found',
  'invalid_auth',
  'is_archived',
  'missing_scope',
  'not_authed',
  'not_in_channel',
  'token_expired',
  'token_revoked',
]
/** A message that somebody has deleted, or that is too old to change: a new one takes its place. */
const LOST_ERRORS = ['message_not_found', 'cant_update_message', 'edit_window_closed']
const FINAL_ERRORS = ['invalid_blocks', 'msg_too_long', 'no_text', 'restricted_action']

/** Slack reads `<`, `>` and `&` as control characters: `<!channel>` would tell everybody. */
const escapeSlack = (text: string): string =>
  text.replaceAll('&', '&amp;').replaceAll('<', '&lt;').replaceAll('>', '&gt;')

/** Text without markup, so that no name becomes a link or a mention. */
const plain = (text: string, length: number) => ({
  type: 'plain_text',
  text: shorten(text || ' ', length),
  emoji: false,
})

/** Code cannot hold three backticks, which end it. */
const code = (lines: string[]): string => {
  const text = lines.map(line => line.replaceAll('```', "'''")).join('\n')
  return `\`\`\`${shorten(escapeSlack(text.slice(-2400)), 2900)}\`\`\``
}

export function buildSlackMessage(services: SendServices, { phase, content }: OutgoingNotice) {
  const state = stateOf({ phase, content })
  const facts = content.facts.slice(0, 10).map(({ name, value }) => ({
    type: 'plain_text',
    text: shorten(`${name}: ${value}`, 2000),
    emoji: false,
  }))
  const link = { type: 'button', text: plain('Open in Slipway', 75), url: pageUrl(services, content) }
  const blocks = [
    { type: 'header', text: plain(`${state}: ${content.title}`, 150) },
    ...(content.summary ? [{ type: 'section', text: plain(content.summary, 3000) }] : []),
    ...(facts.length > 0 ? [{ type: 'section', fields: facts }] : []),
    ...(content.lines.length > 0
      ? [{ type: 'section', text: { type: 'mrkdwn', text: code(content.lines), verbatim: true } }]
      : []),
    { type: 'actions', elements: [link] },
  ]
  return {
    text: escapeSlack(shorten(`${state}: ${content.title}`, 300)),
    attachments: [{ color: phase === 'close' ? RESOLVED_COLOR : COLORS[content.severity], blocks }],
    unfurl_links: false,
  }
}

/** An incoming webhook answers no name of the message, so each notice is a message of its own. */
async function sendByIncomingWebhook(services: SendServices, channel: OutgoingChannel, message: object): Promise<Sent> {
  const { unfurl_links: _, ...body } = message as Record<string, unknown>
  const answer = await post(services, { url: channel.credentials.webhook_url!, body: JSON.stringify(body) })
  if (answer.status === 200) return { status: 200 }
  throw refusalOf(answer, [403, 404, 410])
}

type SlackAnswer = {
  ok: boolean
  error?: string
  ts?: string
  channel?: string
  messages?: SlackMessage[]
  response_metadata?: { next_cursor?: string }
}
type SlackMessage = { ts: string; metadata?: { event_type?: string; event_payload?: Record<string, unknown> } }

async function callSlack(services: SendServices, token: string, method: string, body: object): Promise<SlackAnswer> {
  const headers = { Authorization: `Bearer ${token}` }
  const bytes = method === HISTORY ? HISTORY_BYTES : undefined
  const request = { url: `${API}/${method}`, headers, body: JSON.stringify(body), ...(bytes && { bytes }) }
  const answer = await post(services, request)
  if (answer.status !== 200) throw refusalOf(answer, [])
  try {
    return JSON.parse(answer.text) as SlackAnswer
  } catch {
    throw new UndeliveredError('upstream_error', { status: answer.status, isBusy: true })
  }
}

const refuseSlack = ({ error = '' }: SlackAnswer, status: Answer['status'] = 200): UndeliveredError =>
  new UndeliveredError('refused', {
    status,
    endsChannel: ENDING_ERRORS.includes(error),
    isFinal: FINAL_ERRORS.includes(error),
    isBusy: error === 'ratelimited' || error === 'service_unavailable',
  })

/**
 * The message of this notice, if an earlier attempt posted it and its worker died before it stored the name. A bot
 * without the scope to read the history posts again.
 */
async function findPosted(services: SendServices, channel: OutgoingChannel, notice: OutgoingNotice) {
  const oldest = String(Math.floor(new Date(notice.created_at).getTime() / 1000) - 1)
  const isOfNotice = ({ metadata }: SlackMessage) =>
    metadata?.event_type === EVENT_TYPE && metadata.event_payload?.notice === notice.id
  let cursor: string | undefined
  for (let page = 0; page < HISTORY_PAGES; page++) {
    const answer = await callSlack(services, channel.credentials.bot_token!, HISTORY, {
      channel: channel.config.slack_channel,
      oldest,
      limit: 100,
      include_all_metadata: true,
      ...(cursor && { cursor }),
    })
    const found = answer.messages?.find(isOfNotice)
    cursor = answer.response_metadata?.next_cursor
    if (found || !cursor) return found
  }
  return undefined
}

async function sendByBot(
  services: SendServices,
  channel: OutgoingChannel,
  notice: OutgoingNotice,
  message: object,
): Promise<Sent> {
  const token = channel.credentials.bot_token!
  const { remote } = notice
  if (remote?.ts) {
    const updated = await callSlack(services, token, 'chat.update', {
      ...message,
      channel: remote.channel,
      ts: remote.ts,
    })
    if (updated.ok) return { status: 200, remote }
    if (!LOST_ERRORS.includes(updated.error ?? '')) throw refuseSlack(updated)
  }
  const posted = notice.mayHaveArrived ? await findPosted(services, channel, notice) : undefined
  if (posted) return { status: 200, remote: { channel: channel.config.slack_channel!, ts: posted.ts } }
  const metadata = { event_type: EVENT_TYPE, event_payload: { notice: notice.id, thread: notice.thread } }
  const body = { ...message, channel: channel.config.slack_channel, metadata }
  const answer = await callSlack(services, token, 'chat.postMessage', body)
  if (!answer.ok) throw refuseSlack(answer)
  return { status: 200, remote: { channel: answer.channel ?? channel.config.slack_channel!, ts: String(answer.ts) } }
}

export const sendToSlack: Sender = async (services, channel, notice) => {
  const message = buildSlackMessage(services, notice)
  return channel.credentials.bot_token
    ? sendByBot(services, channel, notice, message)
    : sendByIncomingWebhook(services, channel, message)
}
