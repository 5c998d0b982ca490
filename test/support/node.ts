// The app as `npm start` runs it on Node, its gateway in process.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import type { Config } from '../../src/env.ts'
import { hosted } from '../../src/host/node.ts'
import { database } from './database.ts'
import { counter } from './trips.ts'
import { withoutFirstWall } from './walls.ts'

const { trips, onTrip } = counter()
const UPLOADS_DIR = mkdtempSync(join(tmpdir(), 'slipway-uploads-'))
afterAll(() => rmSync(UPLOADS_DIR, { recursive: true, force: true, maxRetries: 9 }))

export function start(settings: Record<string, unknown>, overrides: Partial<Config>, through: 'gateway' | 'unwalled') {
  const { app, system } = database.logins
  const env = { DATABASE_URL: app, DATABASE_SYSTEM_URL: system, UPLOADS_DIR, ...settings }
  return hosted(env, overrides, { onTrip, ...(through === 'unwalled' && { rewrite: withoutFirstWall }) }).app
}

/** How many trips the gateway saw for a request. */
export const tripsOf = async (requestId: string): Promise<number> => trips.get(requestId) ?? 0
