// A rule is applied to runs that have ended.
import { sql } from 'drizzle-orm'
import { describe, expect, it, onTestFinished } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { evaluateAndSend } from '../../../src/tracing/rules/evaluate.ts'
import { isSampled } from '../../../src/tracing/rules/sampling.ts'
import { deleteSeenRuns } from '../../../src/tracing/rules/sweep.ts'
import { getApp, getServices, unusedId, withClockAhead } from '../../support/app.ts'
import { appendRuns, newTrace } from '../../support/new-traces.ts'
import { connect } from '../../support/postgres.ts'
import { appendEnded, appliedRuns, END, newTracedTenant, readLogs, sweep } from '../../support/rules.ts'
import { onClickHouse } from '../../support/stored-runs.ts'
import { database } from '../../support/worker-database.ts'

const DAY = 86_400_000

describe('a rule is applied', () => {
  it('to the runs that end after it was created and match, once', async () => {
    const { tenant, session_id, createRule } = await newTracedTenant()
    await appendEnded(tenant, 1, { error: 'before' })
    const rule = await createRule({ filter: 'eq(status, "error")' })
    const [failed] = await appendEnded(tenant, 1, { error: 'boom' })
    await appendEnded(tenant, 1)
    await appendEnded(tenant, 1, { error: 'elsewhere', session_name: 'other' })
    await sweep(tenant)
    await sweep(tenant)
    const [log, ...others] = await readLogs(tenant, rule)
    expect(others).toEqual([])
    expect(log).toMatchObject({
      rule_id: rule.id,
      run_id: failed,
      run_name: 'chat',
      run_type: 'llm',
      run_session_id: session_id,
      add_to_dataset: null,
      add_to_annotation_queue: null,
      evaluators: null,
      alerts: null,
      webhooks: null,
    })
    expect((await tenant.get(`/runs/rules/${rule.id}/last_applied`)).body).toEqual(log)
    expect(await readLogs(tenant, rule, `&session_id=${unusedId()}`)).toEqual([])
    expect(await readLogs(tenant, rule, `&end_time=${log.application_time}`)).toEqual([])
  })

  it('when a run ends, not before, and not again when it changes', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const rule = await createRule()
    const { root } = newTrace()
    await appendRuns(tenant, [root])
    await sweep(tenant)
    expect(await appliedRuns(tenant, rule)).toEqual([])
    const patch = { ...root, kind: 'patch' as const }
    await appendRuns(tenant, [{ ...patch, ...END }])
    await sweep(tenant)
    await appendRuns(tenant, [{ ...patch, tags: ['late'] }])
    await sweep(tenant)
    expect(await appliedRuns(tenant, rule)).toEqual([root.id])
  })

  it('when a later change makes the run match, and when its post comes last', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const rule = await createRule({ filter: 'has(tags, "late")' })
    const [one, two] = [newTrace().root, newTrace().root]
    await appendRuns(tenant, [{ ...one, ...END }])
    const { name: _, run_type: __, ...unnamed } = two
    await appendRuns(tenant, [{ ...unnamed, kind: 'patch', ...END, tags: ['late'] }])
    await sweep(tenant)
    expect(await appliedRuns(tenant, rule)).toEqual([])
    await appendRuns(tenant, [{ ...one, kind: 'patch', tags: ['late'] }])
    await appendRuns(tenant, [two])
    await sweep(tenant)
    expect(await appliedRuns(tenant, rule)).toEqual([one.id, two.id].sort())
  })

  it('by the root of the trace, and by any of its runs', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const [byRoot, byTree] = [
      await createRule({ filter: 'eq(name, "leaf")', trace_filter: 'eq(name, "agent")' }),
      await createRule({ filter: 'eq(is_root, true)', tree_filter: 'eq(name, "leaf")' }),
    ]
    const traces = [newTrace(['leaf', 'other']), newTrace(['other'])]
    for (const { runs } of traces)
      await appendRuns(
        tenant,
        runs.map((one, i) => ({ ...one, ...END, ...(i === 0 && { name: 'agent' }) })),
      )
    await sweep(tenant)
    expect(await appliedRuns(tenant, byRoot)).toEqual([traces[0]!.children[0]!.id])
    expect(await appliedRuns(tenant, byTree)).toEqual([traces[0]!.root.id])
  })

  it('by the feedback that a run gets later', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const rule = await createRule({ filter: 'and(eq(feedback_key, "thumbs"), eq(feedback_score, 0))' })
    const [run_id] = await appendEnded(tenant, 1)
    await sweep(tenant)
    await tenant.post('/feedback', { run_id, key: 'thumbs', score: 0 })
    await sweep(tenant)
    expect(await appliedRuns(tenant, rule)).toEqual([run_id])
  })

  it('to the sampled traces, with all of their runs', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const rule = await createRule({ sampling_rate: 0.5 })
    const traces = Array.from({ length: 12 }, () => newTrace(['leaf']))
    await appendRuns(
      tenant,
      traces.flatMap(({ runs }) => runs.map(one => ({ ...one, ...END }))),
    )
    await sweep(tenant)
    const sampled = traces.filter(({ root }) => isSampled(rule.id, root.id, 0.5))
    expect(await appliedRuns(tenant, rule)).toEqual(sampled.flatMap(({ runs }) => runs.map(({ id }) => id)).sort())
  })

  it('to the experiments on a dataset', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const dataset = (await tenant.post('/datasets', { name: unusedId() })).body
    const rule = await createRule({ session_id: null, dataset_id: dataset.id })
    await runAsSystem(
      getApp().database,
      sql`
        insert into projects (organization_id, tenant_id, name, reference_dataset_id)
        values (${tenant.organization_id}::uuid, ${tenant.tenant_id}::uuid, 'experiment', ${dataset.id}::uuid)`,
    )
    const [run_id] = await appendEnded(tenant, 1, { session_name: 'experiment' })
    await appendEnded(tenant, 1)
    await sweep(tenant)
    expect(await appliedRuns(tenant, rule)).toEqual([run_id])
  })

  it.skipIf(onClickHouse)('to a run whose transaction commits after those that took later numbers', async () => {
    const { tenant, session_id, createRule } = await newTracedTenant()
    const rule = await createRule()
    const slow = await connect(database.logins.system)
    onTestFinished(() => slow.end())
    const id = unusedId()
    await slow.query('begin')
    await slow.query('set local role slipway_system')
    await slow.query(
      `insert into runs (organization_id, tenant_id, session_id, id, trace_id, trace_time, order_time, trace_tier,
          dotted_order, name, run_type, end_time)
        values ($1, $2, $3, $4, $4, now(), now(), 'shortlived', '', 'slow', 'llm', now())`,
      [tenant.organization_id, tenant.tenant_id, session_id, id],
    )
    const [fast] = await appendEnded(tenant, 1)
    const swept = sweep(tenant)
    const waiting = `select from pg_locks where locktype = 'advisory' and not granted and database = (
      select oid from pg_database where datname = current_database())`
    await expect.poll(async () => (await slow.query(waiting)).rows.length).toBeGreaterThan(0)
    await slow.query('commit')
    await swept
    expect(await appliedRuns(tenant, rule)).toEqual([id, fast].sort())
  })

  it('at once when it is triggered, unless it is off', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const [one, two, off] = [await createRule(), await createRule(), await createRule({ is_enabled: false })]
    const runs = await appendEnded(tenant, 2)
    expect((await tenant.post(`/runs/rules/${one.id}/trigger`)).body.id).toBe(one.id)
    await finishPendingWork()
    expect([await appliedRuns(tenant, one), await appliedRuns(tenant, two)]).toEqual([runs, []])
    expect((await tenant.post('/runs/rules/trigger', { rule_ids: [one.id, two.id] })).status).toBe(200)
    await finishPendingWork()
    expect(await appliedRuns(tenant, two)).toEqual(runs)
    const refused = await tenant.post('/runs/rules/trigger', { rule_ids: [one.id, off.id] })
    expect([refused.status, refused.body.code]).toEqual([409, 'rule_disabled'])
    expect((await tenant.post('/runs/rules/trigger', { rule_ids: [unusedId()] })).body.code).toBe('rule_not_found')
    expect((await tenant.get(`/runs/rules/${off.id}/last_applied`)).body.code).toBe('rule_not_applied')
  })

  it('to nothing that ended while it was off', async () => {
    const { tenant, createRule } = await newTracedTenant()
    const rule = await createRule()
    await createRule()
    await tenant.patch(`/runs/rules/${rule.id}`, { is_enabled: false })
    await appendEnded(tenant, 1)
    await tenant.patch(`/runs/rules/${rule.id}`, { is_enabled: true })
    const [later] = await appendEnded(tenant, 1)
    await sweep(tenant)
    expect(await appliedRuns(tenant, rule)).toEqual([later])
  })
})

describe('a backfill', () => {
  it('applies the rule to earlier runs, page by page, and shows its progress', async () => {
    const { tenant, session_id, createRule } = await newTracedTenant()
    const before = await appendEnded(tenant, 230)
    await appendEnded(tenant, 1, { name: 'other' })
    const backfill_from = new Date(Date.now() - DAY).toISOString()
    const rule = await createRule({ backfill_from, filter: 'eq(name, "chat")' })
    expect(rule).toMatchObject({ backfill_from, backfill_status: 'waiting', backfill_progress: 0 })
    const [after] = await appendEnded(tenant, 1)
    await sweep(tenant)
    const [done] = (await tenant.get(`/runs/rules?session_id=${session_id}`)).body
    expect(done).toMatchObject({ backfill_id: rule.backfill_id, backfill_status: 'completed', backfill_progress: 1 })
    expect(done.backfill_completed_at).not.toBeNull()
    expect(await appliedRuns(tenant, rule)).toEqual([...before, after].sort())
    const { run_id } = (await tenant.get(`/runs/rules/${rule.id}/last_applied?backfill=true`)).body
    expect(before).toContain(run_id)
    const paged: string[] = []
    for (let cursor = ''; ; ) {
      const { body } = await tenant.get(`/runs/rules/${rule.id}/logs/v2?backfill=true&limit=100${cursor}`)
      paged.push(...body.logs.map((log: { run_id: string }) => log.run_id))
      if (!body.has_more) break
      cursor = `&cursor=${body.cursor}`
    }
    expect(paged.sort()).toEqual(before)
  })

  it('leaves out runs from before', async () => {
    const { tenant, createRule } = await newTracedTenant()
    await appendRuns(tenant, [{ ...newTrace([], new Date(Date.now() - 2 * DAY)).root, ...END }])
    const rule = await createRule({ backfill_from: new Date(Date.now() - DAY).toISOString() })
    await sweep(tenant)
    expect(await appliedRuns(tenant, rule)).toEqual([])
  })
})

describe('the sweep of finished runs', () => {
  const countOf = async (table: string, tenant: string) => {
    const query = sql`select count(*) from ${sql.identifier(table)} where tenant_id = ${tenant}::uuid`
    return Number(((await runAsSystem(getApp().database, query)) as string[][][])[0]![0]![0])
  }

  it('deletes runs that all rules have seen, and applications after a month', async () => {
    const { tenant, createRule } = await newTracedTenant()
    await createRule()
    await appendEnded(tenant, 3)
    await deleteSeenRuns(getServices())
    expect(await countOf('finished_runs', tenant.tenant_id)).toBe(3)
    await sweep(tenant)
    await deleteSeenRuns(getServices())
    expect(await countOf('finished_runs', tenant.tenant_id)).toBe(0)
    expect(await countOf('rule_applications', tenant.tenant_id)).toBe(3)
    await withClockAhead(32 * DAY, () => deleteSeenRuns(getServices()))
    expect(await countOf('rule_applications', tenant.tenant_id)).toBe(0)
  })

  it('finds nothing of a workspace without rules', async () => {
    const { tenant } = await newTracedTenant()
    await appendEnded(tenant, 3)
    expect(await countOf('finished_runs', tenant.tenant_id)).toBe(0)
  })
})

it('a workspace whose rules are far behind does not keep another one waiting', async () => {
  const [busy, other] = [await newTracedTenant(), await newTracedTenant()]
  const behind = []
  // These are more rules than are evaluated at once.
  for (let i = 0; i < 12; i++) behind.push(await busy.createRule())
  const rule = await other.createRule()
  for (let i = 0; i < 3; i++) await appendEnded(busy.tenant, 100)
  await appendEnded(other.tenant, 1)
  const tenants = [busy, other].map(({ tenant }) => tenant.tenant_id)
  await evaluateAndSend(getServices(), sql`r.tenant_id = any(${sql.param(tenants)}::uuid[])`)
  const firstTimes = behind.map(async one => (await readLogs(busy.tenant, one)).at(-1).application_time)
  const [log] = await readLogs(other.tenant, rule)
  // Eight at once, and it is among them.
  expect(log.application_time < (await Promise.all(firstTimes)).toSorted()[8]).toBe(true)
})
