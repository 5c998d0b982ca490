// The app as `npm start` runs it on Node, its gateway in process.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll } from 'vitest'
import type { Config } from '../../src/env.ts'
import { createHost } from '../../src/host/node.ts'
import { database } from './file-database.ts'
import { stripTenantPredicates } from './tenant-predicates.ts'
import { makeTripCounter } from './trips.ts'

const { trips, onTrip } = makeTripCounter()
const UPLOADS_DIR = mkdtempSync(join(tmpdir(), 'slipway-uploads-'))
afterAll(() => rmSync(UPLOADS_DIR, { recursive: true, force: true, maxRetries: 9 }))

export function startRuntime(
  settings: Record<string, unknown>,
  overrides: Partial<Config>,
  through: 'gateway' | 'withoutTenantPredicates',
) {
  const { app, system } = database.logins
  const env = { DATABASE_URL: app, DATABASE_SYSTEM_URL: system, UPLOADS_DIR, ...settings }
  return createHost(env, overrides, {
    onTrip,
    ...(through === 'withoutTenantPredicates' && { rewrite: stripTenantPredicates }),
  }).app
}

/** How many trips the gateway saw for a request. */
export const countTrips = async (requestId: string): Promise<number> => trips.get(requestId) ?? 0
