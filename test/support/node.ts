// The app as `npm start` runs it on Node, its gateway in process.
import { inject } from 'vitest'
import type { Config } from '../../src/env.ts'
import { hosted } from '../../src/host/node.ts'
import { counter } from './trips.ts'
import { withoutFirstWall } from './walls.ts'

const { trips, onTrip } = counter()

export function start(settings: Record<string, unknown>, overrides: Partial<Config>, through: 'gateway' | 'unwalled') {
  const env = { DATABASE_URL: inject('databaseUrl'), ...settings }
  return hosted(env, overrides, { onTrip, ...(through === 'unwalled' && { rewrite: withoutFirstWall }) }).app
}

/** How many trips the gateway saw for a request. */
export const tripsOf = async (requestId: string): Promise<number> => trips.get(requestId) ?? 0
