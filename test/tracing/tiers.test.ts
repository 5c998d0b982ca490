// Tiers of traces: what a project's tier says of a trace, upgrades, and how long each is kept.
import { type SQL, sql } from 'drizzle-orm'
import { afterEach, describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { getApp, getServices, newTenant, type Tenant, withClockAhead } from '../support/app.ts'
import { onClickHouse } from '../support/stored-runs.ts'
import { newChild, newRoot, patch, post } from '../support/trace-operations.ts'
import { append, contextOf, readRows, select } from '../support/traces.ts'

const HOUR = 3600_000
const DAY = 24 * HOUR
const timeIn = (ms: number) => new Date(Date.now() + ms).toISOString()

const setProject = ({ tenant_id }: Tenant, change: SQL) =>
  runAsSystem(getApp().database, sql`update projects set ${change} where tenant_id = ${tenant_id}`)

describe('a trace', () => {
  it('has the tier that its project had when it began, whenever its runs arrive', async () => {
    const of = await newTenant()
    const [early, late] = [newRoot(timeIn(-5000)), newRoot(timeIn(-1000))]
    await append(of, [post(early)])
    const until = JSON.stringify([{ tier: 'shortlived', until: timeIn(-3000) }])
    await setProject(of, sql`trace_tier = 'longlived', earlier_tiers = ${until}`)
    await append(of, [post(late), patch({ ...early, session_name: 'default', error: 'x' })])
    await append(of, [post(newChild(early, timeIn(0)))])
    expect(await readRows(of)).toMatchObject([
      { id: early.id, trace_tier: 'shortlived', error: 'x' },
      { id: late.id, trace_tier: 'longlived' },
      { trace_id: early.id, trace_tier: 'shortlived' },
    ])
  })

  it('moves as a whole when it is upgraded, and later runs follow, also before its first run', async () => {
    const of = await newTenant()
    const ctx = contextOf(of)
    const [first, other, unseen] = [newRoot(timeIn(0)), newRoot(timeIn(1)), newRoot(timeIn(2))]
    await append(of, [post(first), post(newChild(first, timeIn(10))), post(other)])
    await ctx.traces.upgrade(ctx, [first.trace_id, unseen.trace_id])
    await ctx.traces.upgrade(ctx, [first.trace_id])
    await append(of, [patch({ ...first, error: 'x' }), post(newChild(first, timeIn(20))), post(unseen)])
    const rows = await readRows(of)
    expect(rows.map(({ trace_id, trace_tier }) => [trace_id === other.id, trace_tier])).toEqual([
      [false, 'longlived'],
      [true, 'shortlived'],
      ...Array(3).fill([false, 'longlived']),
    ])
    expect(rows[0]).toMatchObject({ id: first.id, name: 'step', error: 'x' })
  })

  it('has each of its runs once, also when it is upgraded while they are written', async () => {
    const of = await newTenant()
    const ctx = contextOf(of)
    const roots = Array.from({ length: 15 }, (_, i) => newRoot(timeIn(i)))
    await Promise.all(
      roots.flatMap(root => [
        append(of, [post(root)]),
        ctx.traces.upgrade(ctx, [root.trace_id]),
        append(of, [patch({ ...root, session_name: 'default', outputs: '1' })]),
        append(of, [patch({ ...root, error: 'x' })]),
      ]),
    )
    const rows = await readRows(of)
    expect(rows.map(({ id }) => id)).toEqual(roots.map(({ id }) => id))
    for (const row of rows)
      expect(row).toMatchObject({ name: 'step', outputs: '1', error: 'x', trace_tier: 'longlived' })
  })
})

describe('a trace that has expired', () => {
  const shownAt = async (of: Tenant, ms: number) => {
    const ctx = contextOf(of)
    const projects = await select<{ id: string }>(sql`select id from projects where tenant_id = ${of.tenant_id}`)
    const request = { projects: projects.map(({ id }) => id), order: 'desc', limit: 10, columns: [] } as const
    const { runs } = await withClockAhead(ms, () =>
      ctx.traces.query(ctx, { ...request, projects: [...request.projects] }),
    )
    return runs
      .map(({ name }) => name)
      .sort()
      .join()
  }

  it('is not shown from that moment on', async () => {
    const of = await newTenant()
    const ctx = contextOf(of)
    const [short, long, less] = [newRoot(timeIn(0)), newRoot(timeIn(0)), newRoot(timeIn(0))]
    await append(of, [
      post({ ...short, name: 'short' }),
      post({ ...newChild(short, timeIn(3 * DAY)), name: 'child' }),
      post({ ...long, name: 'long' }),
      post({ ...less, name: 'less', session_name: 'less' }),
    ])
    await ctx.traces.upgrade(ctx, [long.trace_id, less.trace_id])
    await runAsSystem(
      getApp().database,
      sql`update projects set longlived_ttl_days = 30 where name = 'less' and tenant_id = ${of.tenant_id}`,
    )
    expect(await shownAt(of, 14 * DAY - 60_000)).toBe('child,less,long,short')
    expect(await shownAt(of, 14 * DAY)).toBe('less,long')
    expect(await shownAt(of, 30 * DAY - 60_000)).toBe('less,long')
    expect(await shownAt(of, 30 * DAY)).toBe('long')
    expect(await shownAt(of, 400 * DAY)).toBe('')
  })
})

describe('the schedule', () => {
  const sweepIn = (ms: number) => withClockAhead(ms, () => getServices().traces.expire(getServices()))
  const countsOf = ({ tenant_id }: Tenant) =>
    select(sql`select sum(runs) as runs from session_minutes where tenant_id = ${tenant_id}`)
  const partitionOf = async (of: Tenant) =>
    (await select(sql`select tableoid::regclass::text as at from runs where tenant_id = ${of.tenant_id}`)).map(
      ({ at }) => at,
    )
  const partitionsAt = (ms: number) => [
    sql`select make_runs_partitions(now() + ${ms} * interval '1 millisecond')`,
    sql`select drop_expired_runs(now() + ${ms} * interval '1 millisecond')`,
  ]
  afterEach(() => runAsSystem(getApp().database, sql`select make_runs_partitions(now())`))

  it.skipIf(onClickHouse)(
    'makes a partition for each day to come, and takes in the runs that came too early',
    async () => {
      const of = await newTenant()
      const day = timeIn(20 * DAY)
      await append(of, [post(newRoot(day))])
      expect(await partitionOf(of)).toEqual(['runs_shortlived_other'])
      await runAsSystem(getApp().database, partitionsAt(14 * DAY)[0]!)
      expect(await partitionOf(of)).toEqual([`runs_shortlived_${day.slice(0, 10).replaceAll('-', '')}`])
      await append(of, [post(newRoot(day))])
      expect(await partitionOf(of)).toEqual(Array(2).fill(`runs_shortlived_${day.slice(0, 10).replaceAll('-', '')}`))
    },
  )

  it.skipIf(onClickHouse)('drops a partition when all that it can hold has expired, and the counts stay', async () => {
    const of = await newTenant()
    const ctx = contextOf(of)
    const kept = newRoot(timeIn(0))
    await append(of, [post(newRoot(timeIn(0))), post(kept)])
    await ctx.traces.upgrade(ctx, [kept.trace_id])
    const left = Math.ceil(Date.now() / DAY) * DAY - Date.now()
    for (const [ms, expected] of [
      [14 * DAY + left - 60_000, 2],
      [14 * DAY + left + 60_000, 1],
      [450 * DAY, 0],
    ] as const) {
      await runAsSystem(getApp().database, partitionsAt(ms)[1]!)
      expect((await readRows(of)).length).toBe(expected)
    }
    expect(await countsOf(of)).toEqual([{ runs: 2 }])
  })

  it.skipIf(onClickHouse)('deletes expired runs of wrong clocks, and of projects that keep them for less', async () => {
    const of = await newTenant()
    const ctx = contextOf(of)
    const root = newRoot(timeIn(0))
    await append(of, [post(newRoot(timeIn(-20 * DAY))), post({ ...root, session_name: 'less' })])
    await ctx.traces.upgrade(ctx, [root.trace_id])
    await setProject(of, sql`longlived_ttl_days = 30`)
    await sweepIn(0)
    expect(await readRows(of)).toMatchObject([{ id: root.id }])
    for (let minute = 0; minute < 60; minute++) await sweepIn(31 * DAY + minute * 60_000)
    expect(await readRows(of)).toEqual([])
    expect(await countsOf(of)).toEqual([{ runs: 2 }])
  })

  it.skipIf(onClickHouse)('deletes the runs and counts of deleted projects', async () => {
    const of = await newTenant()
    await append(of, [post(newRoot(timeIn(0))), post({ ...newRoot(timeIn(1)), session_name: 'other' })])
    await runAsSystem(getApp().database, sql`delete from projects where tenant_id = ${of.tenant_id} and name = 'other'`)
    await sweepIn(0)
    expect(await readRows(of)).toMatchObject([{ project: 'default' }])
    expect(await countsOf(of)).toEqual([{ runs: 2 }])
    await sweepIn(2 * 3600_000)
    expect(await countsOf(of)).toEqual([{ runs: 1 }])
  })

  it.skipIf(onClickHouse)('adds the minutes of an hour up after eight days, and later counts of them', async () => {
    const of = await newTenant()
    const hour = Math.floor(Date.now() / HOUR) * HOUR
    const runAt = (minute: number) => {
      const time = new Date(hour + minute * 60_000).toISOString()
      return { ...newRoot(time), start_time: time, end_time: new Date(hour + minute * 60_000 + 1000).toISOString() }
    }
    const late = runAt(5)
    await append(of, [post(runAt(1)), post(runAt(1)), post({ ...late, end_time: undefined }), post(runAt(61))])
    const readHours = () =>
      select(sql`
        select minute, slot, runs, ended, (select sum(n) from unnest(latencies) n) as measured
        from session_minutes
        where tenant_id = ${of.tenant_id} and runs <> 0
        order by minute`)
    const hourRow = (n: number, sums: object) => ({
      minute: new Date(hour + n * HOUR).toISOString().replace('.000Z', '+00:00'),
      slot: -1,
      ...sums,
    })
    await sweepIn(7 * DAY)
    expect((await readHours()).length).toBe(3)
    await sweepIn(9 * DAY)
    const next = hourRow(1, { runs: 1, ended: 1, measured: 1 })
    expect(await readHours()).toEqual([hourRow(0, { runs: 3, ended: 2, measured: 2 }), next])
    await append(of, [patch({ ...late, session_name: 'default' }), post(runAt(5))])
    await sweepIn(9 * DAY)
    expect(await readHours()).toEqual([hourRow(0, { runs: 4, ended: 4, measured: 4 }), next])
  })

  it('merges patches that a request has left waiting', async () => {
    const of = await newTenant()
    const root = newRoot(timeIn(0))
    await append(of, [patch({ ...root, outputs: '1' })])
    const waiting = sql`select patch::text from waiting_patches where tenant_id = ${of.tenant_id}`
    const [{ patch: left }] = (await select<{ patch: string }>(waiting)) as [{ patch: string }]
    await append(of, [post(root)])
    await runAsSystem(
      getApp().database,
      sql`insert into waiting_patches (organization_id, tenant_id, run_id, patch)
        values (${of.organization_id}, ${of.tenant_id}, ${root.id}, ${left.replace('"1"', '"2"')}::json)`,
    )
    await sweepIn(0)
    expect(await readRows(of)).toMatchObject([{ outputs: '1' }])
    await sweepIn(2 * 60_000)
    expect(await readRows(of)).toMatchObject([{ outputs: '2' }])
    expect(await select(waiting)).toEqual([])
  })
})
