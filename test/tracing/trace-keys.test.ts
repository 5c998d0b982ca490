import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../src/host/pending-work.ts'
import { createTraceKey } from '../../src/kernel/crypto/trace-keys.ts'
import { run } from '../../src/kernel/db/db.ts'
import {
  getApp,
  getExampleQuery,
  getExampleRequest,
  guardedOperations,
  newTenant,
  send,
  startApp,
  type Tenant,
  unusedId,
} from '../support/app.ts'
import { minimalBody } from '../support/deployment-bodies.ts'
import { newTrace } from '../support/new-traces.ts'
import { joinParts, MULTIPART, part } from '../support/parts.ts'
import { newPathParameters } from '../support/path-parameters.ts'
import { traceCtx } from '../support/runs.ts'
import { onClickHouse } from '../support/stored-runs.ts'
import { readRows, select } from '../support/traces.ts'

/** A deployment, and what its application may send. */
async function newTraced(tenant?: Tenant) {
  const owner = tenant ?? (await newTenant())
  const { id, name } = (await owner.post('/v2/deployments', { ...minimalBody, name: `a${unusedId()}` })).body
  const key = await createTraceKey(getApp().config, { deployment_id: id, version: 1 })
  const request = (method: string, path: string, options: Parameters<typeof send>[2] = {}) =>
    send(method, path, { ...options, headers: { 'X-Api-Key': key, ...options.headers } })
  return { tenant: owner, id, name, key, request }
}
type Traced = Awaited<ReturnType<typeof newTraced>>
const outcome = ({ status, body }: { status: number; body?: { code?: string } }) => [status, body?.code]

const toParts = (run: object & { id: string }) => joinParts([part(`post.${run.id}`, run)])
const toSpans = (attributes: object[] = [], resource: object[] = []) => ({
  resourceSpans: [
    {
      resource: { attributes: resource },
      scopeSpans: [
        {
          spans: [
            {
              traceId: unusedId().replaceAll('-', ''),
              spanId: unusedId().replaceAll('-', '').slice(0, 16),
              name: 'chat',
              startTimeUnixNano: `${Date.now() - 1500}000000`,
              endTimeUnixNano: `${Date.now()}000000`,
              attributes,
            },
          ],
        },
      ],
    },
  ],
})
const text = (key: string, stringValue: string) => ({ key, value: { stringValue } })

/** Each sends one run, into the project if one is given. */
const WAYS: Record<string, (traced: Traced, project?: object) => ReturnType<typeof send>> = {
  'POST /runs': ({ request }, project) => request('POST', '/runs', { body: { ...newTrace().root, ...project } }),
  'POST /runs/batch': ({ request }, project) =>
    request('POST', '/runs/batch', { body: { post: [{ ...newTrace().root, ...project }] } }),
  'POST /runs/multipart': ({ request }, project) =>
    request('POST', '/runs/multipart', {
      raw: toParts({ ...newTrace().root, ...project }),
      headers: { 'Content-Type': MULTIPART },
    }),
  'PATCH /runs/{id}': ({ request }, project) => {
    const { root } = newTrace()
    return request('PATCH', `/runs/${root.id}`, { body: { ...root, ...project } })
  },
  'POST /otel/v1/traces': ({ request }, project = {}) =>
    request('POST', '/otel/v1/traces', {
      body: toSpans(
        Object.entries(project).map(([name, value]) => text(`langsmith.trace.${name}`, value)),
        [text('service.name', 'a service')],
      ),
    }),
}
const ways = Object.entries(WAYS)

describe('an application with its trace key', () => {
  it.each(ways)('sends runs without a project by %s', async (_, sendRun) => {
    const traced = await newTraced()
    expect((await sendRun(traced)).status).toBeLessThan(300)
    expect(await readRows(traced.tenant)).toMatchObject([{ project: traced.name }])
  })

  it.each(ways)('sends runs that name its project by %s', async (_, sendRun) => {
    const traced = await newTraced()
    const ofDeployment = sql`select id from projects where deployment_id = ${traced.id}::uuid`
    const [project] = await select<{ id: string }>(ofDeployment)
    expect((await sendRun(traced, { session_name: traced.name })).status).toBeLessThan(300)
    expect((await sendRun(traced, { session_id: project!.id })).status).toBeLessThan(300)
    expect(await readRows(traced.tenant)).toMatchObject([{ project: traced.name }, { project: traced.name }])
  })

  it.each(ways)('is refused for another project by %s', async (_, sendRun) => {
    const traced = await newTraced()
    const other = (await traced.tenant.post('/sessions', { name: 'other' })).body
    const ofAnotherTenant = await newTraced()
    const projects = [
      { session_name: 'other' },
      { session_name: 'new' },
      { session_id: other.id },
      { session_id: unusedId() },
      { session_name: ofAnotherTenant.name },
    ]
    for (const project of projects) {
      const { status, body } = await sendRun(traced, project)
      expect([status, body.code], JSON.stringify(project)).toEqual([403, 'trace_key_confined'])
      expect(body.detail).toContain(traced.name)
    }
    expect(await readRows(traced.tenant)).toEqual([])
    expect(
      await select(sql`select from projects where name = 'new' and tenant_id = ${traced.tenant.tenant_id}`),
    ).toEqual([])
  })

  it('cannot change a run of another project', async () => {
    const traced = await newTraced()
    const { root } = newTrace()
    await traced.tenant.post('/runs', { ...root, session_name: 'other' })
    const byId = await traced.request('PATCH', `/runs/${root.id}`, { body: { outputs: { stolen: true } } })
    expect(outcome(byId)).toEqual([404, 'run_not_found'])
    const placed = { ...root, outputs: { stolen: true } }
    const replies = [
      await traced.request('PATCH', `/runs/${root.id}`, { body: placed }),
      await traced.request('POST', '/runs', { body: placed }),
    ]
    // ClickHouse stores another run of the same id, in the application's own project.
    const answer = onClickHouse ? [202, undefined] : [409, 'run_in_other_project']
    expect(replies.map(outcome)).toEqual([answer, answer])
    const rows = await readRows(traced.tenant)
    expect(rows.filter(({ project }) => project === 'other')).toMatchObject([{ outputs: null }])
  })

  it('sees no other project and none of its runs, in any statement', async () => {
    const { tenant, id, name } = await newTraced()
    await tenant.post('/runs', { ...newTrace().root, session_name: 'other' })
    const ctx = { ...traceCtx(tenant), actor: { kind: 'deployment', hash: `${id.replaceAll('-', '')}.1` } } as const
    expect(await run(ctx, sql`select name from projects`)).toEqual([[name]])
    expect(await run(ctx, sql`select id from runs`)).toEqual([])
    const renaming = run(
      ctx,
      sql`insert into projects (organization_id, tenant_id, name)
      values (current_organization(), current_tenant(), 'new')`,
    )
    await expect(renaming).rejects.toMatchObject({ code: 'trace_key_confined' })
  })

  it('leaves its refused requests in the audit log', async () => {
    const { tenant, id, name, request } = await newTraced()
    await request('GET', '/sessions')
    await finishPendingWork()
    const items = await select(sql`select operation, code, actor_kind, actor_id, actor_name from audit_attempts
      where tenant_id = ${tenant.tenant_id}`)
    expect(items).toEqual([
      {
        operation: 'list_projects',
        code: 'trace_key_confined',
        actor_kind: 'deployment',
        actor_id: id,
        actor_name: name,
      },
    ])
  })

  it('patches its own run by id alone', async () => {
    const traced = await newTraced()
    const { root } = newTrace()
    await traced.request('POST', '/runs', { body: root })
    const patch = await traced.request('PATCH', `/runs/${root.id}`, { body: { outputs: { a: 1 } } })
    expect(patch.status).toBe(202)
    expect(await readRows(traced.tenant)).toMatchObject([{ project: traced.name, outputs: '{"a":1}' }])
  })

  it('cannot send feedback', async () => {
    const traced = await newTraced()
    const { root } = newTrace()
    const feedback = { key: 'score', score: 1, trace_id: root.id, run_id: root.id }
    const raw = joinParts([part(`post.${root.id}`, root), part(`feedback.${unusedId()}`, feedback)])
    const reply = await traced.request('POST', '/runs/multipart', { raw, headers: { 'Content-Type': MULTIPART } })
    expect(outcome(reply)).toEqual([403, 'permission_missing'])
    expect(await readRows(traced.tenant)).toEqual([])
  })

  it('reads how runs are taken', async () => {
    const { request } = await newTraced()
    expect((await request('GET', '/info')).status).toBe(200)
  })

  it('is limited like any key', async () => {
    const app = startApp({ settings: { INGESTION_RATE_LIMIT_PER_MINUTE: '2' } })
    const traced = await newTraced()
    const sendRun = () => traced.request('POST', '/runs', { body: newTrace().root, app })
    expect([(await sendRun()).status, (await sendRun()).status, (await sendRun()).status]).toEqual([202, 202, 429])
  })
})

it('does not block its address by invalid runs, as unknown keys do', async () => {
  const { request } = await newTraced()
  const settings = { UNKNOWN_KEYS_PER_MINUTE: '2', INGESTION_RATE_LIMIT_PER_MINUTE: '5' }
  const app = startApp({ settings, overrides: { clientAddress: () => '203.0.113.7' } })
  const statuses: number[] = []
  for (const body of [{}, {}, {}, {}, newTrace().root, newTrace().root]) {
    statuses.push((await request('POST', '/runs', { body, app })).status)
    await finishPendingWork()
  }
  expect(statuses).toEqual([422, 422, 422, 422, 202, 429])
})

describe('a trace key is refused', () => {
  it('when another installation has signed it, or it is mistyped', async () => {
    const { id, key, request } = await newTraced()
    const foreign = await createTraceKey(
      { sealingKeys: [['first', Buffer.alloc(32, 9).toString('base64url')]] },
      { deployment_id: id, version: 1 },
    )
    const other = (await newTraced()).id.replaceAll('-', '')
    for (const wrong of [
      foreign,
      `${key}x`,
      key.slice(0, -1),
      key.replace('.1.', '.2.'),
      `slt_${other}${key.slice(36)}`,
    ])
      expect(
        outcome(await request('POST', '/runs', { body: newTrace().root, headers: { 'X-Api-Key': wrong } })),
      ).toEqual([401, 'key_unknown'])
  })

  it('with a version that the deployment does not have', async () => {
    const { id, request } = await newTraced()
    const key = await createTraceKey(getApp().config, { deployment_id: id, version: 2 })
    const reply = await request('POST', '/runs', { body: newTrace().root, headers: { 'X-Api-Key': key } })
    expect(outcome(reply)).toEqual([401, 'key_revoked'])
  })

  it('once it is rotated, and the agent gets the next one', async () => {
    const { tenant, id, request } = await newTraced()
    expect((await tenant.post(`/v2/deployments/${id}/trace-key/rotation`)).status).toBe(204)
    expect(outcome(await request('POST', '/runs', { body: newTrace().root }))).toEqual([401, 'key_revoked'])
    const key = await createTraceKey(getApp().config, { deployment_id: id, version: 2 })
    const reply = await request('POST', '/runs', { body: newTrace().root, headers: { 'X-Api-Key': key } })
    expect(reply.status).toBe(202)
    expect(outcome(await tenant.post(`/v2/deployments/${unusedId()}/trace-key/rotation`))).toEqual([
      404,
      'deployment_not_found',
    ])
  })

  it('once the deployment is deleted', async () => {
    const { tenant, id, request } = await newTraced()
    await tenant.delete(`/v2/deployments/${id}`)
    expect(outcome(await request('POST', '/runs', { body: newTrace().root }))).toEqual([401, 'key_revoked'])
  })

  it('in another workspace', async () => {
    const [traced, other] = [await newTraced(), await newTraced()]
    const headers = { 'X-Tenant-Id': other.tenant.tenant_id }
    const reply = await traced.request('POST', '/runs', { body: newTrace().root, headers })
    expect(outcome(reply)).toEqual([403, 'workspace_forbidden'])
  })

  it('by every route but those that take runs', async () => {
    const traced = await newTraced()
    const parameters: Record<string, string> = {
      ...(await newPathParameters(traced.tenant)),
      deployment_id: traced.id,
      number: '1',
    }
    const pathOf = (path: string) => path.replace(/\{(\w+)\}/g, (_, name) => parameters[name] ?? `no ${name}`)
    const taking: string[] = []
    for (const operation of guardedOperations) {
      if (operation.verb!.permission === 'runs:create') {
        taking.push(operation.id)
        continue
      }
      const example = getExampleRequest(operation)
      const path = pathOf(operation.path) + getExampleQuery(operation)
      const reply = outcome(await traced.request(operation.method.toUpperCase(), path, example))
      // Its key opens a session for a person. No other kind of key does.
      const refusal = operation.id === 'openSession' ? [401, 'key_missing'] : [403, 'trace_key_confined']
      expect([operation.id, ...reply]).toEqual([operation.id, ...refusal])
    }
    expect(taking.sort()).toEqual(['createRun', 'createRuns', 'createRunsFromParts', 'exportSpans', 'patchRun'])
  })
})
