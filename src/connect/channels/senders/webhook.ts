// Notices as signed webhooks: Standard Webhooks, with the secret of the channel.

import { toIsoTime } from '../../../kernel/db/rows.ts'
import { messageHeaders, signBySecret } from '../../../protocol/webhook-signing.ts'
import { type OutgoingChannel, type OutgoingNotice, pageUrl, type Sender, type SendServices } from './outgoing.ts'
import { post, refusalOf } from './post.ts'

const buildWebhookBody = (
  services: SendServices,
  { id: channel_id, tenant_id: workspace_id }: OutgoingChannel,
  { id, thread, phase, content, created_at }: OutgoingNotice,
): string => {
  const { url: _, ...shown } = content
  const data = { id, workspace_id, channel_id, thread, phase, ...shown, url: pageUrl(services, content) }
  return JSON.stringify({ type: 'notice', timestamp: toIsoTime(created_at), data })
}

/** A repeat has the same `webhook-id`, by which a receiver recognizes it. */
export const sendByWebhook: Sender = async (services, channel, notice) => {
  const body = buildWebhookBody(services, channel, notice)
  const message = { id: `notice_${notice.id}`, timestamp: Math.floor(Date.now() / 1000), body }
  const headers = messageHeaders(message, [await signBySecret(channel.credentials.secret!, message)])
  const answer = await post(services, { url: channel.config.url!, headers, body })
  if (answer.status >= 200 && answer.status < 300) return { status: answer.status }
  throw refusalOf(answer, [410])
}
