// Notices as PagerDuty takes them: Events API v2. One incident has one `dedup_key`.

import { sha256Hex } from '../../../kernel/crypto/digest.ts'
import { toIsoTime } from '../../../kernel/db/rows.ts'
import { configuredOrigin } from '../../../kernel/http/origin.ts'
import {
  type OutgoingChannel,
  type OutgoingNotice,
  pageUrl,
  type Sender,
  type SendServices,
  shorten,
} from './outgoing.ts'
import { post, refusalOf } from './post.ts'

const HOSTS = { us: 'events.pagerduty.com', eu: 'events.eu.pagerduty.com' }

/** PagerDuty takes 255 characters. */
const dedupKey = (channel: OutgoingChannel, thread: string): string => {
  const key = `${channel.id} ${thread}`
  return key.length <= 255 ? key : `${channel.id} ${sha256Hex(thread)}`
}

/** An event of the same key adds to the open incident, and `resolve` closes it. A repeat changes nothing. */
export function buildPagerDutyEvent(services: SendServices, channel: OutgoingChannel, notice: OutgoingNotice): string {
  const { content, phase, thread } = notice
  const identity = { routing_key: channel.credentials.routing_key, dedup_key: dedupKey(channel, thread) }
  if (phase === 'close') return JSON.stringify({ ...identity, event_action: 'resolve' })
  if (content.acknowledged_by !== undefined) return JSON.stringify({ ...identity, event_action: 'acknowledge' })
  const link = pageUrl(services, content)
  const facts = Object.fromEntries(content.facts.map(({ name, value }) => [name, value]))
  return JSON.stringify({
    ...identity,
    event_action: 'trigger',
    client: 'Slipway',
    client_url: link,
    links: [{ href: link, text: 'Open in Slipway' }],
    payload: {
      summary: shorten(channel.config.summary ?? content.title, 1024),
      source: configuredOrigin(services.config),
      severity: channel.config.severity ?? content.severity,
      timestamp: toIsoTime(content.started_at),
      component: shorten(content.title, 255),
      class: thread.split(/[ :]/, 1)[0],
      custom_details: { summary: content.summary, ...facts, ...(content.lines.length > 0 && { lines: content.lines }) },
    },
  })
}

export const sendToPagerDuty: Sender = async (services, channel, notice) => {
  const body = buildPagerDutyEvent(services, channel, notice)
  const answer = await post(services, { url: `https://${HOSTS[channel.config.region ?? 'us']}/v2/enqueue`, body })
  if (answer.status === 202 || answer.status === 200) return { status: answer.status }
  throw refusalOf(answer, [])
}
