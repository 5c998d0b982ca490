// The trace store: posts and patches of runs become rows, in whatever order they arrive.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { type Caller, createKeylessCaller } from '../../src/kernel/context.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import type { RunOperation } from '../../src/traces/store.ts'
import { getApp, getServices, newTenant, type Tenant } from '../support/app.ts'

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

const callerOf = ({ organization_id, tenant_id }: Tenant): Caller =>
  createKeylessCaller(
    getServices(),
    { kind: 'cron', id: null, organization: organization_id, tenant: tenant_id },
    'append',
    'http://slipway.test',
  )
const append = (operations: Partial<RunOperation>[], of = tenant) => {
  const ctx = { ...callerOf(of), permission: 'runs:create' as const }
  return ctx.traces.append(
    ctx,
    operations.map(one => ({ kind: 'post', loc: ['body'], ...one }) as RunOperation),
  )
}
const readRows = async (columns: string) => {
  const [rows] = await runAsSystem(
    getApp().database,
    sql`select ${sql.raw(columns)} from runs r join projects p on p.id = r.session_id
      where r.tenant_id = ${tenant.tenant_id} order by order_time`,
  )
  return rows
}

describe('a run', () => {
  it('is stored', async () => {
    const id = crypto.randomUUID()
    await append([{ id, name: 'chat', run_type: 'llm', start_time: '2026-11-22T11:03:33.598001Z', inputs: '{"a":1}' }])
    await append([{ kind: 'patch', id, end_time: '2026-11-22T11:03:34Z', outputs: '{"b":9007199254740993}' }])
    expect(await readRows('r.name, p.name, status, inputs, outputs, order_time')).toEqual([
      ['chat', 'default', 'success', '{"a":1}', '{"b":9007199254740993}', '2026-11-22 11:03:33.598001+00'],
    ])
  })
})
