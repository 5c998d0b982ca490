// Reading runs: pages in the order of their start, single runs, and what their members come from.
import { beforeAll, describe, expect, inject, it } from 'vitest'
import { connectClickHouse } from '../../src/kernel/clickhouse/client.ts'
import type { Ctx } from '../../src/kernel/http/context.ts'
import { RUN_FIELDS } from '../../src/tracing/runs/filter/fields.ts'
import { readFilters } from '../../src/tracing/runs/filter/resolve.ts'
import { query as queryClickHouse } from '../../src/tracing/store/clickhouse/query.ts'
import { query } from '../../src/tracing/store/postgres/query.ts'
import type { RunCursor, RunQuery } from '../../src/tracing/store/queries.ts'
import { newTenant, type Tenant, unusedId } from '../support/app.ts'
import { appendRuns, contextOf, newTrace, projectId } from '../support/new-traces.ts'
import { onClickHouse } from '../support/stored-runs.ts'

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})

const idsOf = (runs: { id: string }[]) => runs.map(({ id }) => id)
type Body = Record<string, unknown>
const find = async (body: Body) => {
  const reply = await tenant.post('/runs/query', body)
  expect(reply.status, reply.text).toBe(200)
  return reply.body
}

/** A page that reads so many runs at most: in ClickHouse writes, with all that began at the same time. */
const readPage = (ctx: Ctx, request: RunQuery, maxScanned: number) =>
  onClickHouse
    ? queryClickHouse(connectClickHouse(inject('clickHouse')!), ctx, request, [maxScanned])
    : query(ctx, request, maxScanned)

describe('a run', () => {
  it('is read with its JSON as it came in', async () => {
    const { root } = newTrace()
    const inputs = '{"big": 12345678901234567890, "e": 1.50, "nul": "\\u0000", "half": "\\ud800"}'
    await appendRuns(tenant, [{ ...root, inputs, outputs: '[]', extra: '{ }' }])
    for (const text of [
      (await tenant.get(`/runs/${root.id}`)).text,
      (await tenant.post('/runs/query', { id: [root.id] })).text,
    ]) {
      expect(text).toContain(`"inputs":${inputs}`)
      expect(text).toContain('"outputs":[]')
      expect(text).toContain('"extra":{ }')
    }
  })

  it('has the tokens and costs of its trace if it is the root, and otherwise its own', async () => {
    const usage = (input_tokens: number, input_cost: number) =>
      JSON.stringify({
        usage_metadata: { input_tokens, output_tokens: 1, input_cost, input_token_details: { cache: 2 } },
      })
    const { root, children } = newTrace(['one', 'two'])
    const [one, two] = children
    await appendRuns(tenant, [root, { ...one!, outputs: usage(10, 0.1) }, { ...two!, outputs: usage(20, 0.2) }])
    const read = async (id: string) => (await tenant.get(`/runs/${id}`)).body
    expect(await read(root.id)).toMatchObject({
      total_tokens: 32,
      prompt_tokens: 30,
      completion_tokens: 2,
      prompt_cost: '0.3',
      total_cost: '0.3',
      completion_cost: null,
    })
    expect(await read(one!.id)).toMatchObject({
      total_tokens: 11,
      prompt_cost: '0.1',
      prompt_token_details: { cache: 2 },
    })
  })

  it('names the runs above and below it', async () => {
    const { root, children } = newTrace(['above', 'beside'])
    const [above] = children
    const below = newTrace(['below'], new Date(Date.now() + 5000)).children[0]!
    const dotted_order = `${above!.dotted_order}.${below.dotted_order.split('.')[1]}`
    await appendRuns(tenant, [
      root,
      ...children,
      { ...below, trace_id: root.id, parent_run_id: above!.id, dotted_order },
    ])
    expect((await tenant.get(`/runs/${root.id}`)).body).toMatchObject({
      parent_run_ids: [],
      direct_child_run_ids: idsOf(children),
      child_run_ids: [above!.id, below.id, children[1]!.id],
      trace_min_start_time: expect.stringContaining(root.start_time.slice(0, -1)),
      trace_max_start_time: expect.stringContaining(below.start_time.slice(0, -1)),
    })
    expect((await tenant.get(`/runs/${below.id}`)).body).toMatchObject({
      parent_run_ids: [root.id, above!.id],
      child_run_ids: [],
    })
  })

  it('is not shown before its post, nor to another workspace', async () => {
    const { root } = newTrace()
    await appendRuns(tenant, [{ ...root, kind: 'patch', name: undefined, run_type: undefined, outputs: '{}' }])
    expect(await tenant.get(`/runs/${root.id}`)).toMatchObject({ status: 404, body: { code: 'run_not_found' } })
    await appendRuns(tenant, [root])
    expect((await tenant.get(`/runs/${root.id}`)).status).toBe(200)
    expect((await (await newTenant()).get(`/runs/${root.id}`)).status).toBe(404)
  })

  it('is found by its start, and not in another project or at another time', async () => {
    const { root } = newTrace()
    await appendRuns(tenant, [root])
    const { session_id } = (await tenant.get(`/runs/${root.id}`)).body
    const statusOf = async (place: string) => (await tenant.get(`/runs/${root.id}?${place}`)).status
    expect(await statusOf(`session_id=${session_id}&start_time=${root.start_time}`)).toBe(200)
    expect(await statusOf(`session_id=${unusedId()}`)).toBe(404)
    expect(await statusOf('start_time=2020-01-01T00:00:00Z')).toBe(404)
  })
})

describe('pages of runs', () => {
  const START = Date.parse('2026-11-21T08:00:00Z')
  let [first, second]: [string, string] = ['', '']
  /** The newest first. */
  let all: { id: string; project: string; start_time: string; name: string }[]

  beforeAll(async () => {
    const runs = Array.from({ length: 26 }, (_, i) => {
      // Several start at the same time.
      const { root } = newTrace([], new Date(START + Math.floor(i / 3) * 1000))
      return { ...root, name: i % 5 === 0 ? 'rare' : 'common', session_name: i % 4 === 0 ? 'second' : 'first' }
    })
    await appendRuns(tenant, runs)
    first = await projectId(tenant, 'first')
    second = await projectId(tenant, 'second')
    all = runs
      .map(({ id, session_name, start_time, name }) => ({ id, project: session_name, start_time, name }))
      .sort((a, b) => (`${a.start_time}${a.id}` < `${b.start_time}${b.id}` ? 1 : -1))
  })

  const projectsOf = (names: string[]) => names.map(name => (name === 'first' ? first : second))

  it.each([
    [['first'], 'desc'],
    [['first'], 'asc'],
    [['first', 'second'], 'desc'],
    [['first', 'second'], 'asc'],
  ])('in %j, %s, follow each other, and lead back', async (names, order) => {
    const expected = idsOf(all.filter(({ project }) => names.includes(project)))
    if (order === 'asc') expected.reverse()
    const body = { session: projectsOf(names), order, limit: 7, select: ['id'] }
    const pages = [await find(body)]
    while (pages.at(-1).cursors.next) pages.push(await find({ ...body, cursor: pages.at(-1).cursors.next }))
    expect(pages.flatMap(page => idsOf(page.runs))).toEqual(expected)
    expect(pages.map(page => page.cursors.prev === null)).toEqual(pages.map((_, i) => i === 0))
    for (let i = pages.length - 1; i > 0; i--) {
      const back = await find({ ...body, cursor: pages[i].cursors.prev })
      expect(idsOf(back.runs)).toEqual(idsOf(pages[i - 1].runs))
      expect((await find({ ...body, cursor: back.cursors.next })).runs).toEqual(pages[i].runs)
    }
    expect((await find({ ...body, cursor: pages.at(-1).cursors.prev, skip_prev_cursor: true })).cursors.prev).toBeNull()
  })

  it.each([
    [['first'], 1],
    [['first'], 3],
    [['first', 'second'], 2],
    [['first', 'second'], 8],
  ])('with a filter over %j read %i runs each, and find all that match', async (names, maxScanned) => {
    for (const order of ['asc', 'desc'] as const) {
      const expected = idsOf(all.filter(({ project, name }) => names.includes(project) && name === 'rare'))
      if (order === 'asc') expected.reverse()
      const ctx = contextOf(tenant, 'runs:read')
      const { filter } = readFilters({ filter: 'eq(name, "rare")' }, RUN_FIELDS)
      const request: RunQuery = { projects: projectsOf(names), filter, order, limit: 2, columns: [] }
      const found: string[] = []
      let pages = 0
      for (let cursor: RunCursor | null | undefined; cursor !== null; pages++) {
        const page = await readPage(ctx, { ...request, cursor }, maxScanned)
        found.push(...idsOf(page.runs))
        cursor = page.next
      }
      expect(found).toEqual(expected)
      expect(pages).toBeGreaterThan(3)
    }
  })

  it('are bounded by times, which are included', async () => {
    const at = (second: number) => new Date(START + second * 1000).toISOString()
    const within = all.filter(({ start_time }) => start_time >= at(2) && start_time <= at(4))
    const both = [first, second]
    expect(idsOf((await find({ session: both, start_time: at(2), end_time: at(4) })).runs)).toEqual(idsOf(within))
    const filter = `and(gte(start_time, "${at(2)}"), lte(start_time, "${at(4)}"))`
    expect(idsOf((await find({ session: both, filter })).runs)).toEqual(idsOf(within))
  })

  it('have the selected members, and those that every run has', async () => {
    const [run] = (await find({ session: [first], limit: 1, select: ['inputs', 'end_time'] })).runs
    const always = ['id', 'name', 'run_type', 'status', 'trace_id', 'dotted_order', 'session_id', 'app_path']
    expect(Object.keys(run).sort()).toEqual([...always, 'start_time', 'execution_order', 'inputs', 'end_time'].sort())
  })

  it('need no project for a trace, a parent or ids', async () => {
    const { root, children, runs } = newTrace(['a', 'b'], new Date('2026-11-22T00:00:00Z'))
    await appendRuns(tenant, runs)
    const newestFirst = idsOf(runs).reverse()
    expect(idsOf((await find({ trace: root.id })).runs)).toEqual(newestFirst)
    expect(idsOf((await find({ filter: `eq(trace_id, "${root.id}")`, session: [first] })).runs)).toEqual([])
    expect(idsOf((await find({ parent_run: root.id })).runs)).toEqual(idsOf(children).reverse())
    // Ids count alone.
    const body = { id: [root.id, unusedId()], session: [unusedId()], filter: 'eq(', error: true }
    expect(idsOf((await find(body)).runs)).toEqual([root.id])
    const { children: other } = newTrace(['other'])
    const example = { ...newTrace().root, reference_example_id: unusedId() }
    await appendRuns(tenant, [example])
    expect(idsOf((await find({ reference_example: [example.reference_example_id] })).runs)).toEqual([example.id])
    expect((await find({ parent_run: other[0]!.id })).runs).toEqual([])
  })

  it.each([
    [{}, 422, 'invalid_request'],
    [{ session: null, trace: null, filter: 'eq(name, "a")' }, 422, 'invalid_request'],
    [{ session: [unusedId()] }, 404, 'project_not_found'],
    [{ session: [unusedId()], filter: 'eq(name' }, 400, 'filter_invalid'],
    [{ trace: unusedId(), cursor: 'MjAyNg' }, 422, 'invalid_request'],
    [
      { trace: unusedId(), cursor: Buffer.from(`2026-02-30T00:00:00.000000Z~${unusedId()}`).toString('base64url') },
      422,
      'invalid_request',
    ],
    [{ trace: unusedId(), limit: 101 }, 422, 'invalid_request'],
  ])('are refused for %j', async (body, status, code) => {
    expect(await tenant.post('/runs/query', body)).toMatchObject({ status, body: { code } })
  })

  it('have filters that are checked without a page', async () => {
    const check = async (body: Body) => (await tenant.post('/runs/query/validate', body)).body
    expect(await check({ filter: 'eq(name, "a")', tree_filter: '', unknown: 1 })).toEqual({ valid: true, errors: [] })
    expect(await check({ filter: 'and(eq(name, "a"), eq(nam, "b"))', trace_filter: 'eq(name "a")' })).toEqual({
      valid: false,
      errors: [
        { field: 'filter', position: 20, message: expect.stringContaining('nam') },
        { field: 'trace_filter', position: 9, message: expect.any(String) },
      ],
    })
  })

  it('may be asked for as published clients do', async () => {
    const body = {
      session: [first],
      run_type: null,
      reference_example: null,
      query: null,
      filter: null,
      trace_filter: null,
      tree_filter: null,
      execution_order: null,
      parent_run: null,
      start_time: '2026-01-01T00:00:00',
      error: null,
      id: null,
      trace: null,
      is_root: 1,
      order: null,
      limit: null,
      select: null,
      unknown: [],
    }
    expect((await find(body)).runs).toHaveLength(19)
  })
})
