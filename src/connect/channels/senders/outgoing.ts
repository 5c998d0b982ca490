// A notice on its way to a channel, and the outcome of one attempt.
import { AttemptError } from '../../../kernel/db/outbox.ts'
import { configuredOrigin } from '../../../kernel/http/origin.ts'
import type { Services } from '../../../kernel/http/routes.ts'
import type { channelKinds, NoticeContent, noticePhases } from '../../../protocol/notice.schema.ts'
import type { ChannelConfig } from '../tables.ts'

/** Members by the kind of the channel. They are sealed together. */
export type ChannelCredentials = {
  webhook_url?: string
  bot_token?: string
  routing_key?: string
  secret?: string
  unsubscribe?: string
}
export const CREDENTIALS_PLACE = 'channel credentials'

export type OutgoingChannel = {
  id: string
  tenant_id: string
  kind: (typeof channelKinds)[number]
  config: ChannelConfig
  credentials: ChannelCredentials
}

export type OutgoingNotice = {
  id: string
  thread: string
  phase: (typeof noticePhases)[number]
  content: NoticeContent
  created_at: string
  /** An earlier attempt may have arrived, though its outcome was never stored. */
  mayHaveArrived: boolean
  /** The name that the receiver gave to the message of the thread. */
  remote: Record<string, string> | null
}

export type SendServices = Pick<Services, 'config' | 'platform'>
export type Sent = { status: number | null; remote?: Record<string, string> }
export type Sender = (services: SendServices, channel: OutgoingChannel, notice: OutgoingNotice) => Promise<Sent>

type Refusal = {
  status?: number | null
  /** No later attempt of this notice can succeed. */
  isFinal?: boolean
  /** The receiver does not exist any more, or refuses these credentials: the channel is disabled. */
  endsChannel?: boolean
  /** The receiver is too slow or too busy for any notice. */
  isBusy?: boolean
  retryAfter?: number
}

/** An attempt that the receiver did not accept. The message has no text of the receiver. */
export class UndeliveredError extends AttemptError {
  readonly refusal: Refusal
  constructor(code: string, refusal: Refusal = {}) {
    super(code, refusal.status ? `the receiver answered ${refusal.status}` : code)
    this.refusal = refusal
  }
}

export const pageUrl = ({ config }: SendServices, { url }: Pick<NoticeContent, 'url'>): string =>
  `${configuredOrigin(config)}${url}`

export const stateOf = ({ phase, content }: Pick<OutgoingNotice, 'phase' | 'content'>): string => {
  if (phase === 'close') return 'Resolved'
  if (content.acknowledged_by !== undefined) return 'Acknowledged'
  return content.severity.replace(/^./, first => first.toUpperCase())
}

/** The first characters, without half of a surrogate pair at the end. */
export const shorten = (text: string, length: number): string =>
  text.length <= length ? text : `${text.slice(0, length - 1).replace(/[\ud800-\udbff]$/, '')}…`
