// The app in workerd, with its database behind the gateway.
import { env as bindings } from 'cloudflare:workers'
import { inject } from 'vitest'
import { createApp } from '../../src/app.ts'
import { readConfig } from '../../src/env.ts'
import { addPendingWork } from '../../src/host/pending-work.ts'
import { createWorkersPlatform } from '../../src/host/workers.ts'
import { ROWS_PATH } from '../../src/kernel/db/gateway.ts'
import type { Overrides } from './app.ts'
import { database } from './worker-database.ts'

export function startRuntime(
  settings: Record<string, unknown>,
  overrides: Overrides,
  through: 'gateway' | 'withoutTenantPredicates' | 'withoutRowSecurity',
) {
  const { url, connectionString, systemConnectionString } = database[through]
  const addresses = { DATABASE_URL: connectionString, DATABASE_SYSTEM_URL: systemConnectionString }
  const env = { UPLOADS: bindings.UPLOADS, ...addresses, DATABASE_GATEWAY_URL: url + ROWS_PATH, ...settings }
  // Tests call the app without the context of a request.
  const platform = { ...createWorkersPlatform(env), waitUntil: addPendingWork }
  return createApp({ ...readConfig(env), ...overrides }, { ...platform, ...overrides })
}

/** Reaches the servers of this machine, too. */
export const localFetch = createWorkersPlatform({}).foreignFetch

export const countTrips = async (requestId: string): Promise<number> =>
  Number(await (await fetch(`${inject('trips')}/${requestId}`)).text())
