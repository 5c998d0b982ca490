// The agent of a platform listener, which `npm run dev` starts, does not get the seeded deployments.
import { afterAll, beforeAll, expect, test } from 'vitest'
import { seed } from '../../src/host/seed-data.ts'
import { startCommand, stopCommands } from '../support/commands.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { query } from '../support/postgres.ts'

let databaseUrl: string

beforeAll(async () => {
  databaseUrl = await createMigratedDatabase()
})
afterAll(stopCommands)

test('seeded deployments belong to listeners of their workspaces, which have no agent', async () => {
  const bootstrap = startCommand('src/host/bootstrap.ts', ['--organization', 'Acme', '--platform-listener', 'here'], {
    PUBLIC_URL: 'http://slipway.test',
    DATABASE_URL: databaseUrl,
  })
  expect(await bootstrap.exited, bootstrap.output.err).toBe(0)
  await seed(databaseUrl, { tenants: 2, deployments: 20 })
  const listeners = await query(
    databaseUrl,
    `select l.compute_id, l.tenant_id = d.tenant_id as same_tenant, count(*)::integer from deployments d
      left join listeners l on l.id = d.listener_id group by 1, 2`,
  )
  expect(listeners).toEqual([{ compute_id: 'seed', same_tenant: true, count: 20 }])
})
