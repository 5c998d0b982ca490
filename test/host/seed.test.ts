// With a platform listener, as under `npm run dev`, its agent gets no seeded deployment.
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'
import { seed } from '../../src/host/seed-data.ts'
import { startCommand, stopCommands } from '../support/commands.ts'
import { query } from '../support/postgres.ts'

let folder: string
let postgres: Postgres

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), 'slipway-seed-'))
  postgres = await startPostgres({ dataDir: join(folder, 'data'), durable: false })
  await migrate(postgres.url, { log: () => {} })
}, 60_000)
afterAll(async () => {
  await stopCommands()
  await postgres?.stop()
  await rm(folder, { recursive: true, force: true })
})

test('seeded deployments belong to listeners without an agent', async () => {
  const operator = startCommand('src/host/bootstrap.ts', ['--organization', 'Acme', '--platform-listener', 'here'], {
    PUBLIC_URL: 'http://slipway.test',
    DATABASE_URL: postgres.url,
  })
  expect(await operator.exited, operator.output.err).toBe(0)
  await seed(postgres.url, { tenants: 2, deployments: 20 })
  const found = await query(
    postgres.url,
    `select l.compute_id, l.tenant_id = d.tenant_id as own, count(*)::integer from deployments d
      left join listeners l on l.id = d.listener_id group by 1, 2`,
  )
  expect(found).toEqual([{ compute_id: 'seed', own: true, count: 20 }])
}, 60_000)
