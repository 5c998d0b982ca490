// Channels and notices: their closed sets, and the content that every kind of channel shows in its own way.
import * as z from 'zod'
import { arrayOf, boundedText, Instant } from './wire.ts'

export const channelKinds = ['email', 'slack', 'pagerduty', 'webhook'] as const
export const deployChoices = ['none', 'failed', 'all'] as const
export const disabledReasons = ['failing', 'unsubscribed', 'rejected'] as const
export const noticeStates = ['waiting', 'delivered', 'failed', 'dropped'] as const
export const noticePhases = ['open', 'update', 'close', 'single'] as const
export const severities = ['critical', 'error', 'warning', 'info'] as const

export const NoticeContent = z.object({
  title: boundedText(300).min(1),
  summary: boundedText(4000),
  severity: z.enum(severities),
  /** A path of this control plane, such as `/ui/{workspace}/deployments/{deployment}`. */
  url: boundedText(1000).regex(/^\/[^/\\]/),
  facts: arrayOf(z.object({ name: boundedText(100), value: boundedText(500) }), 20),
  /** The last lines of the log. */
  lines: arrayOf(boundedText(1000), 20),
  chart: z
    .object({
      title: boundedText(200),
      unit: boundedText(30),
      /** Each is a time in milliseconds since 1970, and a value. */
      points: arrayOf(z.tuple([z.number(), z.number()]), 500),
      threshold: z.number().optional(),
    })
    .optional(),
  /** Set once a person has taken the incident on. */
  acknowledged_by: boundedText(300).optional(),
  started_at: Instant,
  ended_at: Instant.optional(),
})
export type NoticeContent = z.output<typeof NoticeContent>
