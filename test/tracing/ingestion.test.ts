import { gzipSync, zstdCompressSync } from 'node:zlib'
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { VERSION } from '../../src/kernel/version.ts'
import { NewRun } from '../../src/tracing/ingest/ingestion.schema.ts'
import { newTenant, send, startApp, type Tenant, unusedId } from '../support/app.ts'
import { joinParts, MULTIPART, part, pythonPart, type SentPart, sendParts } from '../support/parts.ts'
import { readRows, select } from '../support/traces.ts'

type Row = Record<string, unknown>
const TIME = '20261122T110333598001Z'
/** Different characters, which Postgres cannot compress. */
const LONGEST = Array.from({ length: 512 }, (_, i) => String.fromCodePoint(0x4e00 + i * 37)).join('')
const orderOf = (...ids: string[]) => ids.map(id => TIME + id).join('.')
const newRun = (members: object = {}, id = unusedId()) => ({
  id,
  trace_id: id,
  dotted_order: orderOf(id),
  name: 'run',
  run_type: 'chain',
  start_time: '2026-11-22T11:03:33.598001Z',
  ...members,
})
const sendRaw = (tenant: Tenant, method: string, path: string, raw: string | Uint8Array<ArrayBuffer>, headers = {}) =>
  send(method, path, { raw, headers: { 'X-Api-Key': tenant.key, 'Content-Type': 'application/json', ...headers } })
const readRow = async (tenant: Tenant): Promise<Row> => {
  const rows = await readRows(tenant)
  expect(rows).toHaveLength(1)
  return rows[0]!
}
const countProjects = async ({ tenant_id }: Tenant) =>
  (await select(sql`select id from projects where tenant_id = ${tenant_id}`)).length
const expectNothingStored = async (tenant: Tenant) =>
  expect([await readRows(tenant), await countProjects(tenant)]).toEqual([[], 0])
const faultsOf = ({ body }: { body: { errors?: { loc: (string | number)[]; type: string }[] } }) =>
  (body.errors ?? []).map(({ loc, type }) => `${loc.slice(1).join(' ')} ${type}`)

describe('a run', () => {
  it.each<[string, object, Row]>([
    [
      'with microseconds',
      { start_time: '2026-11-22T11:03:33.598001Z' },
      { start_time: '2026-11-22T11:03:33.598001+00:00' },
    ],
    ['in another zone', { start_time: '2026-11-22T12:03:33.5+01:00' }, { start_time: '2026-11-22T11:03:33.5+00:00' }],
    [
      'without a zone',
      { start_time: '2026-11-22T11:03:33.598001' },
      { start_time: '2026-11-22T11:03:33.598001+00:00' },
    ],
    ['in milliseconds', { start_time: 1795345413598 }, { start_time: '2026-11-22T11:03:33.598+00:00' }],
    ['that has ended', { end_time: 1795345414000 }, { end_time: '2026-11-22T11:03:34+00:00', status: 'success' }],
    ['with an error', { error: 'boom', end_time: 1795345414000 }, { error: 'boom', status: 'error' }],
    ['with nulls', { error: null, end_time: null, inputs: null, tags: null }, { status: 'pending', tags: null }],
    [
      'with empty members',
      { tags: [], serialized: {}, events: [], inputs: {} },
      { tags: [], serialized: '{}', events: '[]' },
    ],
    ['without a project', {}, { project: 'default' }],
    ['of a project', { session_name: 'mine' }, { project: 'mine' }],
    ['of a project whose name is as long as it can be', { session_name: LONGEST }, { project: LONGEST }],
    ['of a project whose name cannot be stored', { session_name: '\0' }, { project: 'default' }],
    [
      'of a thread whose name is cut within a character',
      { extra: { metadata: { thread_id: '😀'.repeat(200) } } },
      { thread_id: `${'😀'.repeat(127)}\ufffd` },
    ],
    ['with unknown members', { child_runs: [], revision_id: 'x', execution_order: 1, address: 'a', status: 'x' }, {}],
  ])('%s is stored', async (_, members, expected) => {
    const tenant = await newTenant()
    const run = newRun(members)
    const reply = await tenant.post('/runs', run)
    expect([reply.status, reply.body]).toEqual([202, { operations: 1, feedback: 0 }])
    expect(reply.headers.get('Slipway-Warnings')).toBeNull()
    expect(await readRow(tenant)).toMatchObject({ id: run.id, trace_id: run.id, name: 'run', ...expected })
  })

  it('without a place is the root of its own trace, and a patch finds it by its id', async () => {
    const tenant = await newTenant()
    const id = unusedId()
    const run = { id, name: 'plain', run_type: 'llm', inputs: { a: 1 }, start_time: 1795345413598, extra: {} }
    expect((await tenant.post('/runs', run)).status).toBe(202)
    expect((await tenant.patch(`/runs/${id}`, { outputs: { b: 2 }, end_time: 1795345414598 })).status).toBe(202)
    expect(await readRow(tenant)).toMatchObject({
      id,
      trace_id: id,
      dotted_order: `20261122T110333598000Z${id}`,
      status: 'success',
      inputs: '{"a":1}',
      outputs: '{"b":2}',
    })
    const missing = await tenant.patch(`/runs/${unusedId()}`, { outputs: {} })
    expect([missing.status, missing.body.code]).toEqual([404, 'run_not_found'])
    expect(missing.body.detail).toContain('not found')
  })

  it('is another one with another start, of which the later is read by the id', async () => {
    const tenant = await newTenant()
    const { trace_id: _, dotted_order: __, ...run } = newRun()
    for (const start_time of ['2026-11-22T11:03:33Z', '2026-11-22T11:03:34Z', '2026-11-22T11:03:33Z'])
      expect((await tenant.post('/runs', { ...run, start_time })).status).toBe(202)
    expect(await readRows(tenant)).toHaveLength(2)
    expect((await tenant.get(`/runs/${run.id}`)).body.start_time).toContain('11:03:34')
  })

  it('may begin before its parent, because the clocks of two machines differ', async () => {
    const tenant = await newTenant()
    const [root, child] = [unusedId(), unusedId()]
    const dotted_order = `${orderOf(root)}.20261122T110333000000Z${child}`
    const reply = await tenant.post('/runs', newRun({ trace_id: root, parent_run_id: root, dotted_order }, child))
    expect(reply.status).toBe(202)
  })

  it('cannot move to another project, or belong to one of another workspace', async () => {
    const [tenant, other] = [await newTenant(), await newTenant()]
    const run = newRun({ session_name: 'first' })
    await tenant.post('/runs', run)
    const moved = await tenant.post('/runs', { ...run, session_name: 'second' })
    expect([moved.status, moved.body.code]).toEqual([409, 'run_in_other_project'])
    const [{ id: session_id }] = (await select<{ id: string }>(
      sql`select id from projects where tenant_id = ${tenant.tenant_id}`,
    )) as [{ id: string }]
    const foreign = await other.post('/runs', newRun({ session_id }))
    expect([foreign.status, foreign.body.code]).toEqual([404, 'project_not_found'])
    await expectNothingStored(other)
  })
})

const ODD_JSON =
  '{ "n": 12345678901234567890,\t"f" : -0.10e+2 ,"s":"\\u0000\\ud800 é\\/", "a":[ 1e400 ],"n": 9007199254740993 }'

describe('the payloads of a run are stored byte for byte', () => {
  const fields = ['inputs', 'outputs', 'extra', 'serialized']
  const payloads = `${fields.map(name => `"${name}": ${ODD_JSON} `).join(',')}, "events":[ ${ODD_JSON} ]`
  const expected = { ...Object.fromEntries(fields.map(name => [name, ODD_JSON])), events: `[ ${ODD_JSON} ]` }
  const small = newRun({ session_name: 'mine' })
  const { id: _, ...withoutId } = small
  const toText = (run: object) => `${JSON.stringify(run).slice(0, -1)},${payloads}}`
  const main = part(`post.${small.id}`, small)
  const fieldParts = Object.entries(expected).map(([name, text]) => part(`post.${small.id}.${name}`, text))

  it.each<[string, string, string | Uint8Array<ArrayBuffer>, string]>([
    ['POST', '/runs', toText(small), 'application/json'],
    ['PATCH', `/runs/${small.id}`, toText(withoutId), 'application/json; charset=utf-8'],
    ['POST', '/runs/batch', `{"patch":[],"post":[ ${toText(small)} ]}`, 'application/json'],
    ['POST', '/runs/batch', `{"patch":[${toText(small)}], "post" : null}`, 'application/json'],
    ['POST', '/runs/multipart', joinParts([...fieldParts, main]), MULTIPART],
  ])('%s %s', async (method, path, body, type) => {
    const tenant = await newTenant()
    expect((await sendRaw(tenant, method, path, body, { 'Content-Type': type })).status).toBe(202)
    expect(await readRow(tenant)).toMatchObject(expected)
  })
})

describe('a batch', () => {
  it('has runs and patches, in any order', async () => {
    const tenant = await newTenant()
    const [one, two] = [newRun({ inputs: { a: 1 } }), newRun()]
    const patch = [{ ...newRun({ outputs: { b: 2 }, inputs: { a: 3 } }, one.id), name: undefined, run_type: undefined }]
    const reply = await tenant.post('/runs/batch', { post: [one, two], patch })
    expect(reply.body).toEqual({ operations: 3, feedback: 0 })
    const rows = await readRows(tenant)
    expect(rows).toHaveLength(2)
    expect(rows.find(({ id }) => id === one.id)).toMatchObject({ inputs: '{"a":3}', outputs: '{"b":2}', name: 'run' })
  })

  it('may be empty', async () => {
    const tenant = await newTenant()
    for (const body of [{}, { post: [], patch: [] }, { post: null }])
      expect((await tenant.post('/runs/batch', body)).body).toEqual({ operations: 0, feedback: 0 })
    expect((await sendParts(tenant, [])).body).toEqual({ operations: 0, feedback: 0 })
  })
})

describe('a body of JSON is refused with all its faults, and nothing of it is stored', () => {
  const id = unusedId()
  const deep = `${'[{"a":'.repeat(300)}1${'}]'.repeat(300)}`
  it.each<[string, string, string | Uint8Array<ArrayBuffer>, string[]]>([
    ['nothing', '/runs', '', [' json_invalid']],
    ['no object', '/runs', '[]', [' invalid_type']],
    ['no JSON', '/runs', '{"id": }', [' json_invalid']],
    ['no UTF-8', '/runs', Uint8Array.from(Buffer.from('{"name":"\xff"}', 'latin1')), [' utf8_invalid']],
    ['an empty run', '/runs', '{}', ['name invalid_type', 'run_type invalid_value', 'start_time invalid_union']],
    [
      'members of other types',
      '/runs',
      '{"id":1,"name":{},"run_type":"x","start_time":"later","inputs":[],"outputs":"x","events":{},"extra":1,"error":{}}',
      [
        'extra invalid_type',
        'inputs invalid_type',
        'outputs invalid_type',
        'events invalid_type',
        'id invalid_type',
        'name invalid_type',
        'run_type invalid_value',
        'start_time custom',
        'error invalid_type',
      ],
    ],
    ['no id', '/runs', JSON.stringify({ ...newRun(), id: undefined }), ['id custom']],
    ['a wrong place', '/runs', JSON.stringify(newRun({ dotted_order: 'x' })), ['dotted_order custom']],
    [
      'a project whose name is too long',
      '/runs',
      JSON.stringify(newRun({ session_name: `${LONGEST}x` })),
      ['session_name too_big'],
    ],
    ['half a place', '/runs', JSON.stringify(newRun({ trace_id: undefined })), ['trace_id custom']],
    ['a member that is too deep', '/runs', `{"inputs":{"a":${deep}}}`, [' too_deep']],
    ['a member that is too long', '/runs', `{"tags":[${'1,'.repeat(40_000)}1]}`, []],
    ['too many members', '/runs', `{${Array.from({ length: 101 }, (_, i) => `"a${i}":1`)}}`, []],
    ['a batch without lists', '/runs/batch', '{"post":{},"patch":1}', ['post invalid_type', 'patch invalid_type']],
    [
      'a batch of other things',
      '/runs/batch',
      '{"post":[1,[]],"patch":[null]}',
      ['post 0 invalid_type', 'post 1 invalid_type', 'patch 0 invalid_type'],
    ],
    ['a patch without its run', '/runs/batch', '{"patch":[{"outputs":{}}]}', ['patch 0 id custom']],
    [
      'a fault beside runs without one',
      '/runs/batch',
      JSON.stringify({ post: [newRun(), newRun({ name: 1 }), newRun({ dotted_order: orderOf(id) })] }),
      ['post 1 name invalid_type', 'post 2 dotted_order custom', 'post 2 trace_id custom'],
    ],
    [
      'more than 200 runs',
      '/runs/batch',
      JSON.stringify({ post: Array(150).fill(newRun()), patch: Array(51).fill(newRun()) }),
      [' too_big'],
    ],
  ])('with %s', async (_, path, body, expected) => {
    const tenant = await newTenant()
    const reply = await sendRaw(tenant, 'POST', path, body)
    expect([reply.status, reply.body.code]).toEqual([422, 'invalid_request'])
    if (expected.length > 0) expect(faultsOf(reply)).toEqual(expected)
    await expectNothingStored(tenant)
  })

  it('with the id of another path', async () => {
    const tenant = await newTenant()
    const run = newRun()
    await tenant.post('/runs', run)
    const reply = await tenant.patch(`/runs/${run.id}`, { id: unusedId(), outputs: {} })
    expect(faultsOf(reply)).toEqual(['id custom'])
    expect((await readRow(tenant)).outputs).toBeNull()
  })
})

describe('a multipart body', () => {
  const { inputs, outputs, ...rest } = NewRun.meta()!.example as Row & { id: string }

  it('from the client for Python is stored', async () => {
    const tenant = await newTenant()
    const run = newRun({ session_name: 'python', tags: ['a'], extra: { metadata: { thread_id: 't' } } })
    const { extra, ...main } = run as typeof run & { extra: object }
    const name = `post.${run.id}`
    const parts = [
      pythonPart(name, main),
      pythonPart(`${name}.inputs`, { question: 'é' }),
      pythonPart(`${name}.extra`, extra),
      part(`attachment.${run.id}.picture`, Uint8Array.of(0, 13, 10, 255), 'image/png'),
      pythonPart(`patch.${run.id}`, { id: run.id, trace_id: run.id, dotted_order: run.dotted_order, end_time: null }),
      pythonPart(`patch.${run.id}.outputs`, { answer: 1 }),
      {
        name: `patch.${run.id}.error`,
        content: '"boom"',
        headers: ['content-type:application/json', 'CONTENT-LENGTH:6'],
      },
    ]
    const reply = await sendParts(tenant, parts)
    expect([reply.status, reply.body]).toEqual([202, { operations: 2, feedback: 0 }])
    const row = await readRow(tenant)
    expect(row).toMatchObject({
      project: 'python',
      tags: ['a'],
      thread_id: 't',
      inputs: '{"question":"é"}',
      outputs: '{"answer":1}',
      error: 'boom',
      status: 'error',
    })
    expect(Object.keys((row.objects as { attachments: object }).attachments)).toEqual(['picture'])
  })

  it('from the proxy of the collector is stored: extra and error are members of the run', async () => {
    const tenant = await newTenant()
    const run = newRun({ extra: { metadata: { a: 1 } }, error: 'boom' })
    const goPart = (name: string, content: object) => ({ ...pythonPart(name, content) })
    const reply = await sendParts(tenant, [goPart(`post.${run.id}`, run), goPart(`post.${run.id}.inputs`, {})])
    expect(reply.status).toBe(202)
    expect(await readRow(tenant)).toMatchObject({ extra: '{"metadata":{"a":1}}', error: 'boom', inputs: '{}' })
  })

  it('may name the same run in upper case, leave out its id, and have fields that are not known', async () => {
    const tenant = await newTenant()
    const { id, ...run } = newRun()
    const name = `post.${id.toUpperCase()}`
    const parts = [part(`post.${id}.inputs`, { a: 1 }), part(name, run), part(`${name}.manifest`, 'nonsense', 'text/x')]
    expect((await sendParts(tenant, parts)).status).toBe(202)
    expect(await readRow(tenant)).toMatchObject({ id, inputs: '{"a":1}' })
  })

  it('has feedback on runs that are in it, or that come later', async () => {
    const tenant = await newTenant()
    const run = newRun()
    const [feedback, early] = [unusedId(), unusedId()]
    const about = { id: feedback, run_id: run.id, trace_id: run.id, key: 'correctness', score: 0.12345, value: null }
    const parts = [
      part(`feedback.${feedback}`, {
        ...about,
        feedback_source: { type: 'api' },
        modified_at: '2026-11-22T11:03:34.5Z',
      }),
      part(`post.${run.id}`, run),
      part(`feedback.${early}`, { run_id: unusedId(), key: 'later', comment: 'é' }),
    ]
    expect((await sendParts(tenant, parts)).body).toEqual({ operations: 1, feedback: 2 })
    const listed = (await tenant.get('/feedback')).body as Row[]
    expect(listed.find(({ id }) => id === feedback)).toMatchObject({
      run_id: run.id,
      score: 0.1235,
      key: 'correctness',
    })
    expect(listed.find(({ id }) => id === early)).toMatchObject({ key: 'later', comment: 'é', session_id: null })
  })

  it('with feedback is refused to a key that may only send runs', async () => {
    const tenant = await newTenant()
    const { body } = await tenant.post('/workspaces/current/api-keys', {
      description: 'x',
      permissions: ['runs:create'],
    })
    const run = newRun()
    const feedback = part(`feedback.${unusedId()}`, { run_id: run.id, key: 'a' })
    const refused = await sendParts({ key: body.key }, [part(`post.${run.id}`, run), feedback])
    expect([refused.status, refused.body.code]).toEqual([403, 'permission_missing'])
    await expectNothingStored(tenant)
    expect((await sendParts({ key: body.key }, [part(`post.${run.id}`, run)])).status).toBe(202)
  })

  it('with inline inputs, outputs and events is refused with every one of them', async () => {
    const tenant = await newTenant()
    const [one, two] = [newRun({ inputs: {}, outputs: { a: 1 }, events: [] }), newRun({ inputs: null })]
    const patch = { ...newRun({ outputs: {} }, two.id), name: undefined }
    const parts = [part(`post.${one.id}`, one), part(`post.${two.id}`, two), part(`patch.${two.id}`, patch)]
    const reply = await sendParts(tenant, [...parts, part(`post.${two.id}.inputs`, {})])
    expect(reply.status).toBe(422)
    expect(reply.body.errors).toMatchObject([
      ...['inputs', 'outputs', 'events'].map(name => ({
        loc: ['body', `post.${one.id}`, name],
        type: 'inline_not_allowed',
      })),
      { loc: ['body', `patch.${two.id}`, 'outputs'], type: 'inline_not_allowed' },
    ])
    await expectNothingStored(tenant)
  })

  const main = part(`post.${rest.id}`, rest)
  const post = (field: string) => `post.${rest.id}.${field}`
  const bare = (name: string, content: string, ...headers: string[]): SentPart => ({ name, content, headers })
  const JSON_TYPE = 'Content-Type: application/json'
  it.each<[string, SentPart[], string[]]>([
    ['without a length', [bare(main.name, String(main.content), JSON_TYPE)], [`${main.name} length_missing`]],
    [
      'of another length',
      [bare(post('inputs'), '{}', `${JSON_TYPE}; length=3`), main],
      [`${post('inputs')} length_mismatch`],
    ],
    [
      'of two lengths',
      [bare(post('inputs'), '{}', `${JSON_TYPE}; length=2`, 'Content-Length: 3'), main],
      [`${post('inputs')} length_mismatch`],
    ],
    [
      'of a length that is no number',
      [bare(post('inputs'), '{}', `${JSON_TYPE}; length=2.0`), main],
      [`${post('inputs')} length_mismatch`],
    ],
    [
      'that is sent twice',
      [main, main, part(post('inputs'), {}), part(post('inputs'), {})],
      [`${main.name} part_repeated`, `${post('inputs')} part_repeated`],
    ],
    [
      'of a run that is missing',
      [part(post('inputs'), {}), part(`attachment.${rest.id}.a`, 'x')],
      [`${main.name} run_missing`],
    ],
    [
      'of an attachment whose run is missing',
      [part(`attachment.${rest.id}.a`, 'x')],
      [`attachment.${rest.id}.a run_missing`],
    ],
    [
      'with an encoding',
      [{ ...main, headers: [...main.headers, 'Content-Encoding: gzip'] }],
      [`${main.name} encoding_unsupported`],
    ],
    ['of another type', [main, part(post('inputs'), '{}', 'text/plain')], [`${post('inputs')} media_type_unsupported`]],
    ['that is not UTF-8', [main, part(post('inputs'), Uint8Array.of(34, 255, 34))], [`${post('inputs')} utf8_invalid`]],
    [
      'that is not JSON',
      [main, part(post('inputs'), '{,}'), part(post('events'), '')],
      [`${post('inputs')} json_invalid`, `${post('events')} json_invalid`],
    ],
    [
      'that is no object or list',
      [main, part(post('inputs'), '[]'), part(post('events'), '{}')],
      [`${main.name} inputs invalid_type`, `${main.name} events invalid_type`],
    ],
    [
      'that is sent inline, too',
      [part(main.name, { ...rest, extra: {} }), part(post('extra'), {})],
      [`${main.name} extra repeated`],
    ],
    ['of a run with another id', [part(main.name, { ...rest, id: unusedId() })], [`${main.name} id custom`]],
    [
      'of an unknown name',
      [part('x', {}), part(`get.${rest.id}`, {}), part('post.x', {}), part('', {})],
      ['x part_unknown', `get.${rest.id} part_unknown`, 'post.x part_unknown', ' part_unknown'],
    ],
    [
      'of an attachment without a name, or with a dot',
      [part(`attachment.${rest.id}`, 'x'), part(`attachment.${rest.id}.a.b`, 'x')],
      [`attachment.${rest.id} part_unknown`, `attachment.${rest.id}.a.b part_unknown`],
    ],
    ['of a run that is no object', [part(main.name, '1')], [`${main.name} invalid_type`]],
    [
      'of feedback that is not valid',
      [part(`feedback.${rest.id}`, { score: 'x', run_id: 1 })],
      [
        `feedback.${rest.id} run_id invalid_type`,
        `feedback.${rest.id} key invalid_type`,
        `feedback.${rest.id} score invalid_union`,
      ],
    ],
  ])('with a part %s is refused, and nothing of it is stored', async (_, parts, expected) => {
    const tenant = await newTenant()
    const reply = await sendParts(tenant, parts)
    expect([reply.status, reply.body.code]).toEqual([422, 'invalid_request'])
    expect(faultsOf(reply)).toEqual(expected)
    await expectNothingStored(tenant)
  })

  it('with many faults names a hundred of them', async () => {
    const tenant = await newTenant()
    const runs = Array.from({ length: 150 }, () => newRun({ name: 1 }))
    const reply = await sendParts(
      tenant,
      runs.map(run => part(`post.${run.id}`, run)),
    )
    expect([reply.status, reply.body.errors.length]).toEqual([422, 100])
  })

  it('with more than 200 runs and patches is refused', async () => {
    const tenant = await newTenant()
    const runs = Array.from({ length: 201 }, () => newRun())
    const parts = runs.map(run => part(`post.${run.id}`, run))
    expect(faultsOf(await sendParts(tenant, parts))).toEqual([' too_big'])
    expect((await sendParts(tenant, parts.slice(1))).body).toEqual({ operations: 200, feedback: 0 })
  })

  it('with more than 1000 attachments is refused', async () => {
    const tenant = await newTenant()
    const run = newRun()
    const attachments = Array.from({ length: 1001 }, (_, i) => part(`attachment.${run.id}.${i}`, 'x', 'text/plain'))
    expect(faultsOf(await sendParts(tenant, [part(`post.${run.id}`, run), ...attachments]))).toEqual([' too_big'])
    await expectNothingStored(tenant)
  })
})

describe('a compressed body', () => {
  const encoders = { gzip: gzipSync, zstd: zstdCompressSync }
  const run = newRun()
  const bodies: [string, string, string][] = [
    ['/runs', JSON.stringify(run), 'application/json'],
    ['/runs/batch', JSON.stringify({ post: [run] }), 'application/json'],
    ['/runs/multipart', Buffer.from(joinParts([part(`post.${run.id}`, run)])).toString(), MULTIPART],
  ]
  it.each(Object.entries(encoders))('in %s is taken by every route', async (encoding, encode) => {
    for (const [path, text, type] of bodies) {
      const tenant = await newTenant()
      const headers = { 'Content-Type': type, 'Content-Encoding': encoding }
      expect((await sendRaw(tenant, 'POST', path, Uint8Array.from(encode(text)), headers)).status).toBe(202)
      expect((await readRow(tenant)).id).toBe(run.id)
    }
  })
})

it('tells clients how to send runs, without a key', async () => {
  const MIB = 1024 * 1024
  const readInfo = (bytes: number) =>
    send('GET', '/info', { app: startApp({ overrides: { rawBodies: { wireBytes: 1, bytes, heldBytes: 1 } } }) })
  const { status, body } = await readInfo(16 * MIB)
  expect(status).toBe(200)
  expect(body).toMatchObject({
    // Published clients warn of a lower one.
    version: '0.18.0',
    app_version: VERSION,
    batch_ingest_config: { use_multipart_endpoint: true, size_limit: 100, size_limit_bytes: 8 * MIB },
    instance_flags: {
      gzip_body_enabled: true,
      zstd_compression_enabled: true,
      dataset_examples_multipart_enabled: true,
    },
  })
  const large = await readInfo(64 * MIB)
  expect(large.body.batch_ingest_config.size_limit_bytes).toBe(20 * MIB)
})
