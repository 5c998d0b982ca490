// The sender of each kind of channel.
import type { channelKinds } from '../../../protocol/notice.schema.ts'
import { sendByEmail } from './email.ts'
import type { Sender } from './outgoing.ts'
import { sendToPagerDuty } from './pagerduty.ts'
import { sendToSlack } from './slack.ts'
import { sendByWebhook } from './webhook.ts'

const SENDERS: Record<(typeof channelKinds)[number], Sender> = {
  email: sendByEmail,
  slack: sendToSlack,
  pagerduty: sendToPagerDuty,
  webhook: sendByWebhook,
}

export const send: Sender = (services, channel, notice) => SENDERS[channel.kind](services, channel, notice)
