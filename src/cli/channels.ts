// The channels of the workspace, and one of them by its id or name.
import type { Item } from '../client/client.ts'
import { findOne } from './find.ts'
import type { Session } from './session.ts'

export type Channel = Item<'GET /v2/channels'>

export const readChannels = ({ client, signal }: Session) =>
  client.list('GET /v2/channels', { query: { limit: 100 }, signal })

export const findChannel = (session: Session, wanted: string): Promise<Channel> => {
  const names = (one: Channel) => [one.name]
  const about = { kind: 'channel', code: 'channel_not_found', names, list: 'slipway channels list' }
  return findOne(readChannels(session), wanted, about)
}

/** The receiver, as a person names it. */
export const describeTarget = ({ target }: Channel): string =>
  target.address ?? target.url ?? target.slack_channel ?? target.region ?? 'incoming webhook'
