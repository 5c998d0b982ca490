// The app in workerd, with its database behind the gateway.
import { env as bindings } from 'cloudflare:workers'
import { inject } from 'vitest'
import { createApp } from '../../src/app.ts'
import type { Config } from '../../src/env.ts'
import { readConfig } from '../../src/env.ts'
import { type Bucket, createBucketStorage } from '../../src/kernel/storage.ts'
import { database } from './worker-database.ts'

export function startRuntime(
  settings: Record<string, unknown>,
  overrides: Partial<Config>,
  through: 'gateway' | 'withoutTenantPredicates' | 'withoutRowSecurity',
) {
  const { url, connectionString, systemConnectionString } = database[through]
  const addresses = { DATABASE_URL: connectionString, DATABASE_SYSTEM_URL: systemConnectionString }
  const env = { ...addresses, DATABASE_GATEWAY_URL: url, ...settings }
  return createApp(readConfig(env, { uploads: createBucketStorage(bindings.UPLOADS as Bucket), ...overrides }))
}

export const countTrips = async (requestId: string): Promise<number> =>
  Number(await (await fetch(`${inject('trips')}/${requestId}`)).text())
