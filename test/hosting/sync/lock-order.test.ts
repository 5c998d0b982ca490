// Locks are taken in one order: a write that waits for the cursor of a listener already has the journal. Otherwise it
// could wait for a transaction that has the cursor and waits for the journal.
import type pg from 'pg'
import { expect, it } from 'vitest'
import type { Work } from '../../../src/protocol/work.schema.ts'
import { newTenant } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'
import { connect } from '../../support/postgres.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'
import { database } from '../../support/worker-database.ts'

async function createWork() {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const agent = makeSyncAgent(tenant, key)
  await newDeployment(tenant, makeListenerDeployment(listener))
  const [work] = (await agent.poll()).changes as [Work]
  return { tenant, listener, agent, work, path: `/v2/deployments/${work.deployment_id}` }
}
type Parts = Awaited<ReturnType<typeof createWork>>
type Write = (parts: Parts) => Promise<unknown>

const WRITES: [name: string, write: Write][] = [
  ['a patch', ({ tenant, path }) => tenant.patch(path, { source_config: { resource_spec: { cpu: 2 } } })],
  ['a creation', ({ tenant, listener }) => newDeployment(tenant, makeListenerDeployment(listener))],
  ['a rotated trace key', ({ tenant, path }) => tenant.post(`${path}/trace-key/rotation`)],
  ['a redeploy', ({ tenant, path }) => tenant.post(`${path}/revisions`)],
  ['a deletion', ({ tenant, path }) => tenant.delete(path)],
  ['an interruption', ({ tenant, path, work }) => tenant.post(`${path}/revisions/${work.revision!.id}/interruption`)],
  ['a report', ({ agent, work }) => agent.report(work, { state: 'deployed' })],
]

it.each(WRITES)('%s locks the journal before the cursor', async (_, write) => {
  const parts = await createWork()
  const [holder, observer] = [await connect(database.url), await connect(database.url)]
  try {
    await holder.query('begin')
    await holder.query('select from sync_cursors where listener_id = $1 for update', [parts.listener.id])
    const written = write(parts)
    await expect.poll(() => isBlockedBy(holder, observer)).toBe(true)
    const journal = 'select from journals where scope_id = $1 for update skip locked'
    expect((await observer.query(journal, [parts.tenant.tenant_id])).rowCount).toBe(0)
    await holder.query('rollback')
    await written
  } finally {
    await Promise.all([holder.end(), observer.end()])
  }
})

async function isBlockedBy(holder: pg.Client, observer: pg.Client): Promise<boolean> {
  const { rows } = await holder.query<{ pid: number }>('select pg_backend_pid() as pid')
  const blocked = 'select from pg_stat_activity where $1 = any(pg_blocking_pids(pid))'
  return (await observer.query(blocked, [rows[0]!.pid])).rowCount! > 0
}
