// The trace store: posts and patches become rows, in any order, and refused ones leave nothing.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { newTenant, type Tenant } from '../support/app.ts'
import { newChild, newId, newRoot, patch, post } from '../support/trace-operations.ts'
import { append, readRows, select } from '../support/traces.ts'

const START = '2026-11-22T11:03:33.598001Z'
let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})
const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'stored',
    error => error.code,
  )

describe('a run', () => {
  it('keeps its texts as they were sent, and everything that its columns take from them', async () => {
    const of = await newTenant()
    const root = newRoot(START)
    const extra = {
      metadata: { thread_id: 't1', 'a\0': 'x\0\ud800y', ls: [1], long: 'x'.repeat(5000) },
      runtime: { sdk: 'x' },
    }
    const usage = { input_tokens: 3, output_tokens: 4, input_cost: 1e-7, output_token_details: { reasoning: 2 } }
    const outputs = `{"n":9007199254740993,"usage_metadata":${JSON.stringify(usage)}}`
    await append(of, [
      post({
        ...root,
        session_name: 'shop',
        name: 'a\0b\ud800',
        run_type: 'llm',
        start_time: START,
        end_time: '2026-11-22T11:03:34Z',
        tags: ['one', 'a "two", {3}'],
        inputs: '{"messages":[{"role":"user","content":"Hello\\u0000 there"}]}',
        outputs,
        extra: JSON.stringify(extra),
        events: '[{"name":"new_token","time":"2026-11-22T11:03:33.700"}]',
      }),
    ])
    const [row] = await readRows(of)
    expect(row).toMatchObject({
      ...root,
      project: 'shop',
      trace_tier: 'shortlived',
      order_time: '2026-11-22T11:03:33.598001+00:00',
      trace_time: '2026-11-22T11:03:33.598001+00:00',
      parent_run_id: null,
      name: 'ab\ufffd',
      status: 'success',
      tags: ['one', 'a "two", {3}'],
      inputs: '{"messages":[{"role":"user","content":"Hello\\u0000 there"}]}',
      inputs_preview: 'Hello there',
      outputs,
      extra: JSON.stringify(extra),
      metadata: { thread_id: 't1', a: 'x\ufffdy', ls: [1] },
      thread_id: 't1',
      first_token_time: '2026-11-22T11:03:33.7+00:00',
      prompt_tokens: 3,
      completion_tokens: 4,
      total_tokens: 7,
      prompt_cost: 1e-7,
      total_cost: 1e-7,
      usage_details: { output_token_details: { reasoning: 2 } },
      objects: null,
    })
  })

  it('without a dotted order is the root of its trace, and a patch finds it by its id', async () => {
    const of = await newTenant()
    const id = newId()
    await append(of, [post({ id, start_time: START })])
    await append(of, [patch({ id, error: 'boom' })])
    expect(await readRows(of)).toMatchObject([
      { id, trace_id: id, dotted_order: `20261122T110333598001Z${id}`, project: 'default', status: 'error' },
    ])
    expect(await codeOf(append(of, [patch({ id: newId(), error: 'boom' })]))).toBe('run_not_found')
  })

  it('in another project is refused, as is a project that does not exist, and nothing is stored', async () => {
    const of = await newTenant()
    const root = newRoot(START)
    await append(of, [post({ ...root, session_name: 'one' })])
    const other = newRoot(START)
    const both = (project: object) =>
      append(of, [post({ ...other, session_name: 'three' }), post({ ...root, ...project })])
    expect(await codeOf(both({ session_name: 'two' }))).toBe('run_in_other_project')
    expect(await codeOf(both({ session_id: newId() }))).toBe('project_not_found')
    const [foreign] = await select<{ id: string }>(sql`select id from projects where tenant_id = ${tenant.tenant_id}`)
    await append(tenant, [post(newRoot(START))])
    expect(await codeOf(both({ session_id: foreign?.id ?? newId() }))).toBe('project_not_found')
    expect(await readRows(of)).toMatchObject([{ id: root.id, project: 'one' }])
    expect(await select(sql`select name from projects where tenant_id = ${of.tenant_id}`)).toEqual([{ name: 'one' }])
  })
})

describe('a batch', () => {
  it('is refused with every fault of its places, each with the run', async () => {
    const root = newRoot(START)
    const child = newChild(root, '2026-11-22T11:03:34Z')
    const operations = [
      post({ ...root, trace_id: newId() }),
      post({ ...child, id: newId() }),
      post({ ...child, parent_run_id: newId() }),
      post({ ...newRoot(START), parent_run_id: newId() }),
      post({ ...root, dotted_order: root.dotted_order.replace('1122', '1131') }),
      post({ id: newId(), trace_id: newId() }),
      post({ id: newId() }),
    ]
    const error = await append(tenant, operations).catch(error => error)
    expect(error.code).toBe('invalid_request')
    const places = error.extra.errors.map(({ loc }: { loc: string[] }) => loc.slice(1).join(' '))
    expect(places).toEqual([
      `post.${root.id} trace_id`,
      `post.${operations[1]!.id} dotted_order`,
      `post.${child.id} parent_run_id`,
      `post.${operations[3]!.id} parent_run_id`,
      `post.${root.id} dotted_order`,
      `post.${operations[5]!.id} dotted_order`,
      `post.${operations[5]!.id} start_time`,
      `post.${operations[6]!.id} start_time`,
    ])
  })

  it('creates a project once, also when several do at the same time', async () => {
    const of = await newTenant()
    const batches = Array.from({ length: 6 }, () =>
      append(
        of,
        ['a', 'b', 'c'].sort(() => Math.random() - 0.5).map(session_name => post({ ...newRoot(START), session_name })),
      ),
    )
    await Promise.all(batches)
    expect((await readRows(of)).length).toBe(18)
    expect((await select(sql`select name from projects where tenant_id = ${of.tenant_id}`)).length).toBe(3)
  })
})

describe('a patch that names no project', () => {
  const times = ['2026-11-22T11:03:33Z', '2026-11-22T11:03:34Z'] as const

  it('goes to the project of its post, whichever comes first', async () => {
    const of = await newTenant()
    const [first, second] = [newRoot(times[0]), newRoot(times[1])]
    await append(of, [patch({ ...first, outputs: '1' })])
    await append(of, [patch({ ...first, outputs: '2', error: 'x' })])
    expect(await readRows(of)).toEqual([])
    await append(of, [
      post({ ...first, session_name: 'shop', outputs: '0' }),
      post({ ...second, session_name: 'shop' }),
    ])
    await append(of, [patch({ ...second, outputs: '3' })])
    expect(await readRows(of)).toMatchObject([
      { project: 'shop', outputs: '2', error: 'x' },
      { project: 'shop', outputs: '3' },
    ])
    expect(await select(sql`select from waiting_patches where tenant_id = ${of.tenant_id}`)).toEqual([])
  })

  it('meets a post that arrives at the same time', async () => {
    const of = await newTenant()
    const roots = Array.from({ length: 20 }, () => newRoot(START))
    await Promise.all(
      roots.flatMap(root => [
        append(of, [patch({ ...root, outputs: '1' })]),
        append(of, [post({ ...root, session_name: 'shop' })]),
      ]),
    )
    const rows = await readRows(of)
    expect(rows.map(({ outputs }) => outputs)).toEqual(roots.map(() => '1'))
  })
})
