// The drains of the workspace, and one of them by its id or name.
import type { Item } from '../client/client.ts'
import { findOne } from './find.ts'
import type { Session } from './session.ts'

export type Drain = Item<'GET /v2/drains'>

export const readDrains = ({ client, signal }: Session) =>
  client.list('GET /v2/drains', { query: { limit: 100 }, signal })

export const findDrain = (session: Session, wanted: string): Promise<Drain> => {
  const names = (one: Drain) => [one.name]
  const about = { kind: 'drain', code: 'drain_not_found', names, list: 'slipway drains list' }
  return findOne(readDrains(session), wanted, about)
}
