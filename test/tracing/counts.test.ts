// The counts of a project by the minute: they add up to its runs after any writes, and outlive expired ones.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { RunOperation } from '../../src/tracing/store/store.ts'
import { getApp, newTenant, type Tenant } from '../support/app.ts'
import * as fc from '../support/seeded-fast-check.ts'
import { onClickHouse, storedRuns } from '../support/stored-runs.ts'
import { newChild, newRoot, type Place, patch, post, type RunInput } from '../support/trace-operations.ts'
import { append, contextOf, readRows, select } from '../support/traces.ts'

const SUMS = ['prompt_tokens', 'completion_tokens', 'total_tokens', 'prompt_cost', 'completion_cost', 'total_cost']
const sumsOf = (table: string) => sql.raw(SUMS.map(name => `coalesce(sum(${table}.${name}), 0) as ${name}`).join(', '))

/** Counts by project and minute. Minutes in which everything was deleted again do not count. */
const readCounts = async (tenant: Tenant) => {
  const { tenant_id } = tenant
  const ctx = contextOf(tenant)
  const since = new Date(Math.floor((BASE - 3600_000) / 60_000) * 60_000).toISOString()
  const minutes = await ctx.traces.countRuns(ctx, { since, strideMs: 60_000 })
  const [, rows] = await runAsSystem(
    getApp().database,
    sql`select set_config('app.tenant_id', ${tenant_id}, true)`,
    sql`
    select to_json(r)
    from (
    
    select m.session_id, m.minute, sum(runs) as runs, sum(roots) as roots, sum(ended) as ended, sum(errors) as errors,
      sum(streamed) as streamed, ${sumsOf('m')},
      (select json_object_agg(bucket, n order by bucket) from (
        select l.bucket, sum(l.n) as n
        from ${minutes} s
        cross join unnest(s.latencies) with ordinality as l(n, bucket)
        where s.session_id = m.session_id and s.minute = m.minute
        group by l.bucket
        having sum(l.n) <> 0) b) as latencies
    from ${minutes} m
    where m.tenant_id = ${tenant_id}
    group by m.session_id, m.minute
    having sum(runs) <> 0
    order by m.session_id, m.minute
    ) r`,
  )
  return (rows as [string][]).map(([row]) => JSON.parse(row))
}
const countRows = async ({ tenant_id }: Tenant) =>
  select(sql`
    with r as (
      select *, date_bin('1 minute', order_time, 'epoch') as minute, id = trace_id as is_root
      from ${await storedRuns({ tenant_id })} r
      where tenant_id = ${tenant_id} and name is not null and run_type is not null
    )
    select r.session_id, r.minute, count(*) as runs, count(*) filter (where is_root) as roots,
      count(*) filter (where is_root and end_time is not null) as ended,
      count(*) filter (where is_root and error is not null) as errors,
      count(*) filter (where is_root and first_token_time is not null) as streamed, ${sumsOf('r')},
      (select json_object_agg(bucket, n order by bucket) from (
        select latency_bucket(start_time, end_time) as bucket, count(*) as n
        from r l
        where l.session_id = r.session_id and l.minute = r.minute and is_root and end_time >= start_time
        group by 1) b) as latencies
    from r
    group by r.session_id, r.minute
    order by r.session_id, r.minute`)

// ---- random writes

const BASE = Date.now()
const timeOf = (ms: number) => new Date(BASE + ms).toISOString()
/** Two traces, each of a root and two children. */
const makePlaces = (): Place[] =>
  [0, 70_000].flatMap(ms => {
    const root = newRoot(timeOf(ms))
    return [root, newChild(root, timeOf(ms + 1000)), newChild(root, timeOf(ms + 50_000))]
  })
const usage = (tokens: number) => ({
  usage_metadata: { input_tokens: tokens, output_tokens: 1, input_cost: tokens / 10 },
})
const members = fc.record(
  {
    name: fc.constantFrom('a', 'b'),
    run_type: fc.constantFrom('llm', 'tool'),
    start_time: fc.integer({ min: 0, max: 5000 }).map(timeOf),
    end_time: fc.integer({ min: 0, max: 20_000 }).map(timeOf),
    error: fc.constant('boom'),
    tags: fc.constantFrom(['x'], []),
    outputs: fc.integer({ min: 0, max: 9 }).map(tokens => JSON.stringify(tokens > 5 ? usage(tokens) : { tokens })),
    extra: fc.integer({ min: 0, max: 9 }).map(n => JSON.stringify({ metadata: { n, ...(n > 7 && usage(n)) } })),
    events: fc.integer({ min: 0, max: 999 }).map(ms => JSON.stringify([{ name: 'new_token', time: timeOf(ms) }])),
  },
  { requiredKeys: [] },
) as fc.Arbitrary<Partial<RunInput>>
type Write = { run: number; kind: 'post' | 'patch'; members: Partial<RunInput> }
const write: fc.Arbitrary<Write> = fc.record({ run: fc.nat(5), kind: fc.constantFrom('post', 'patch'), members })
const step = fc.oneof(
  { weight: 8, arbitrary: fc.array(write, { minLength: 1, maxLength: 8 }) },
  { weight: 1, arbitrary: fc.constantFrom('upgrade', 'remove') },
)

const toOperation = ({ run, kind, members }: Write, places: Place[]): RunOperation => {
  const { name: _name, run_type: _type, ...others } = members
  const place = { ...places[run]!, session_name: run < 3 ? 'one' : 'two' }
  return kind === 'post' ? post({ ...place, ...members }) : patch({ ...place, ...(run % 2 ? members : others) })
}
const MEMBERS = ['name', 'run_type', 'error', 'tags', 'outputs', 'extra', 'events'] as const
/** The last patch that sets a member wins, or else the last post. */
const expectedRow = (operations: RunOperation[]) =>
  Object.fromEntries(
    MEMBERS.map(name => {
      const setters = operations.filter(operation => operation[name] !== undefined)
      const winner = setters.findLast(({ kind }) => kind === 'patch') ?? setters.at(-1)
      return [name, winner?.[name] ?? null]
    }),
  )

describe('the counts of a project', () => {
  it('are those of its runs after any posts, patches, repeats, upgrades and deletions', async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 12 }), async steps => {
        const of = await newTenant()
        const places = makePlaces()
        const ctx = contextOf(of)
        let written: RunOperation[] = []
        for (const one of steps) {
          const trace = places[0]!.trace_id
          if (one === 'upgrade') await ctx.traces.upgrade(ctx, [trace])
          else if (one === 'remove') {
            await ctx.traces.remove(ctx, [trace])
            written = written.filter(({ trace_id }) => trace_id !== trace)
          } else {
            const operations = one.map(each => toOperation(each, places))
            await append(of, operations)
            written.push(...operations)
          }
        }
        const rows = await readRows<Record<string, unknown>>(of)
        expect(rows.map(({ id }) => id).sort()).toEqual([...new Set(written.map(({ id }) => id))].sort())
        for (const row of rows) expect(row).toMatchObject(expectedRow(written.filter(({ id }) => id === row.id)))
        expect(await readCounts(of)).toEqual(await countRows(of))
      }),
      // The deletion of one trace takes ClickHouse as long as that of many.
      { numRuns: onClickHouse ? 10 : 40 },
    )
  })

  it('are right after many have written the same minutes at once', async () => {
    const of = await newTenant()
    const places = Array.from({ length: 40 }, () => newRoot(timeOf(0)))
    const both = (place: Place) => [
      append(of, [post({ ...place, start_time: timeOf(0) })]),
      append(of, [patch({ ...place, session_name: 'default', end_time: timeOf(30), error: 'x' })]),
    ]
    await Promise.all(places.flatMap(both))
    expect(await readCounts(of)).toMatchObject([{ runs: 40, roots: 40, ended: 40, errors: 40, latencies: { 40: 40 } }])
  })
})

it('latencies are counted in eight buckets for each doubling', async () => {
  const buckets = [0, 1, 1.2, 2, 1000, 86_400_000, 1e12].map(
    ms => sql`latency_bucket('2026-01-01', '2026-01-01'::timestamptz + ${ms} * interval '1 millisecond')`,
  )
  const [[row]] = (await runAsSystem(getApp().database, sql`select array[${sql.join(buckets, sql`, `)}]`)) as [
    [[string]],
  ]
  expect(row![0]).toBe('{1,1,3,9,80,211,240}')
})
