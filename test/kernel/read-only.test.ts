// Reads write nothing, so a copy of the database could answer them. What they count is written after their answers.
import { sql } from 'drizzle-orm'
import { expect, it, onTestFinished } from 'vitest'
import { openPools } from '../../src/host/database-pools.ts'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { SendStatements } from '../../src/platform.ts'
import { getApp, getExampleQuery, guardedOperations, newTenant, send, startApp, unusedId } from '../support/app.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { database } from '../support/worker-database.ts'

const READ_ONLY = { sql: `select set_config('transaction_read_only', 'on', true)`, params: [] }

/** An app whose trips may not write, apart from those that follow its answers. */
function startReadOnly() {
  const { connections, close } = openPools({
    databaseUrl: database.logins.app,
    systemUrl: database.logins.system,
  })
  onTestFinished(close)
  const readOnly =
    (send: SendStatements): SendStatements =>
    async (statements, use, signal) => {
      if (statements.some(one => /from count_\w+\(/.test(one.sql))) return send(statements, use, signal)
      return (await send([READ_ONLY, ...statements], use, signal)).slice(1)
    }
  return startApp({
    settings: { RATE_LIMIT_PER_MINUTE: '1200', INGESTION_RATE_LIMIT_PER_MINUTE: '5000' },
    overrides: { databaseConnections: { app: readOnly(connections.app), system: readOnly(connections.system) } },
  })
}

const WRITING = {
  'readDeployment with reveal': 'who has seen secrets is an event',
  listWorkspaceTagKeys: 'the first list adds the keys that clients expect',
  listWorkspaceTags: 'the same',
  readDeviceRequest: 'guesses of a code are counted',
}
const reads = guardedOperations.filter(
  ({ id, method, kind }) => method === 'get' && kind !== 'passThrough' && !(id in WRITING),
)

it('no read needs a transaction that may write', async () => {
  const { owner, tenant_id, ...tenant } = await newTenant()
  const { body: deployment } = await tenant.post('/v2/deployments', makeImageBody())
  const app = startReadOnly()
  const headers = { 'X-Api-Key': owner.key, 'X-Tenant-Id': tenant_id }
  const failed: unknown[] = []
  for (const operation of reads) {
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name) =>
      name === 'deployment_id' ? deployment.id : unusedId(),
    )
    const { status, body } = await send('GET', path + getExampleQuery(operation), { headers, app })
    if (status >= 500 && body.code !== 'not_configured') failed.push([operation.id, status, body])
  }
  expect(reads.length).toBeGreaterThan(100)
  expect(failed).toEqual([])
  expect((await send('POST', '/v2/tag-keys', { body: { key: 'one' }, headers, app })).status).toBe(500)
  await finishPendingWork()
  const [used] = await runAsSystem(
    getApp().database,
    sql`select last_used_at is not null from api_keys where organization_id = ${tenant.organization_id}`,
  )
  expect(used).toContainEqual([true])
})
