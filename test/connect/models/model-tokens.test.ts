// The token by which an application calls models: what it opens, and when it is refused.
import { sql } from 'drizzle-orm'
import * as jose from 'jose'
import { describe, expect, it } from 'vitest'
import { signModelCall } from '../../../src/connect/models/model-jwt.ts'
import { readConfig } from '../../../src/env.ts'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { createModelToken, readModelToken } from '../../../src/kernel/crypto/model-tokens.ts'
import { publicJwks, signJwt } from '../../../src/kernel/crypto/signing-keys.ts'
import { createTraceKey } from '../../../src/kernel/crypto/trace-keys.ts'
import { run, runAsSystem } from '../../../src/kernel/db/db.ts'
import type { Permission } from '../../../src/kernel/permissions.ts'
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
  withClockAhead,
} from '../../support/app.ts'
import { minimalBody } from '../../support/deployment-bodies.ts'
import { newTrace } from '../../support/new-traces.ts'
import { newPathParameters } from '../../support/path-parameters.ts'
import { traceCtx } from '../../support/runs.ts'
import { select } from '../../support/traces.ts'

const outcome = ({ status, body }: { status: number; body?: { code?: string } }) => [status, body?.code]
const AUDIENCE = 'http://slipway.test/v1/model-proxy'

/** A deployment, and what its application may send. */
async function newApplication(tenant?: Tenant) {
  const owner = tenant ?? (await newTenant())
  const { id, name } = (await owner.post('/v2/deployments', { ...minimalBody, name: `a${unusedId()}` })).body
  const token = await createModelToken(getApp(), { deployment_id: id, version: 1 })
  const sendWith = (credential: string, app = getApp()) =>
    send('GET', '/sessions', { app, headers: { Authorization: `Bearer ${credential}` } })
  return { tenant: owner, id: id as string, name: name as string, token, sendWith }
}

/** Runs a statement as the verb of a route would, with the token of the application. */
async function runWith<T>({ tenant, token }: { tenant: Tenant; token: string }, statement: ReturnType<typeof sql<T>>) {
  const hash = await readModelToken(getApp(), token)
  const permission: Permission = 'models:invoke'
  return run<T>({ ...traceCtx(tenant), permission, actor: { kind: 'deployment', hash } }, statement)
}

const addConfiguration = (tenant: Tenant, name: string, deployment_ids: string[] | null) =>
  runAsSystem(
    getApp().database,
    sql`insert into model_configurations
        (organization_id, tenant_id, name, provider, base_url, model, auth_type, deployment_ids)
      select w.organization_id, w.id, ${name}, 'openai', 'https://models.example.com/v1', 'small', 'none',
        ${deployment_ids && sql.param(deployment_ids)}::uuid[]
      from workspaces w
      where w.id = ${tenant.tenant_id}::uuid`,
  )
const CONFIGURATIONS = sql<[string]>`select name from model_configurations order by name`

describe('an application with its token', () => {
  it('sees the models of its workspace that are open to it, in any statement', async () => {
    const application = await newApplication()
    const [sibling, stranger] = [await newApplication(application.tenant), await newApplication()]
    await addConfiguration(application.tenant, 'of all', null)
    await addConfiguration(application.tenant, 'of this', [sibling.id, application.id])
    await addConfiguration(application.tenant, 'of another', [sibling.id])
    await addConfiguration(application.tenant, 'of none', [])
    await addConfiguration(stranger.tenant, 'of another workspace', null)
    expect(await runWith(application, CONFIGURATIONS)).toEqual([['of all'], ['of this']])
    expect(await runWith(sibling, CONFIGURATIONS)).toEqual([['of all'], ['of another'], ['of this']])
    expect(await runWith(stranger, CONFIGURATIONS)).toEqual([['of another workspace']])
  })

  it('sees its own budget and that of the workspace, and takes a call under both', async () => {
    const application = await newApplication()
    const sibling = await newApplication(application.tenant)
    for (const { id, limit } of [
      { id: application.id, limit: 1 },
      { id: sibling.id, limit: 2 },
      { id: null, limit: 3 },
    ])
      await runAsSystem(
        getApp().database,
        sql`insert into model_budgets (organization_id, tenant_id, deployment_id, period, limit_calls, period_start)
          select w.organization_id, w.id, ${id}::uuid, 'day', ${limit}, model_period('day')
          from workspaces w
          where w.id = ${application.tenant.tenant_id}::uuid`,
      )
    const limits = sql<[string]>`select limit_calls from model_budgets order by limit_calls`
    expect(await runWith(application, limits)).toEqual([['1'], ['3']])
    const take = sql<[boolean]>`select take_model_call(current_actor())`
    expect(await runWith(application, take)).toEqual([[true]])
    await expect(runWith(application, take)).rejects.toMatchObject({ code: 'model_budget_spent' })
  })

  it('is refused by every route that calls no model, and its refused requests are in the audit log', async () => {
    const { tenant, id, name, token } = await newApplication()
    const parameters: Record<string, string> = { ...(await newPathParameters(tenant)), deployment_id: id, number: '1' }
    const pathOf = (path: string) => path.replace(/\{(\w+)\}/g, (_, name) => parameters[name] ?? `no ${name}`)
    for (const operation of guardedOperations) {
      if (operation.verb!.permission === 'models:invoke') continue
      const example = getExampleRequest(operation)
      const path = pathOf(operation.path) + getExampleQuery(operation)
      const headers = { ...example.headers, Authorization: `Bearer ${token}` }
      const reply = outcome(await send(operation.method.toUpperCase(), path, { ...example, headers }))
      const refusal = operation.id === 'openSession' ? [401, 'key_missing'] : [403, 'model_token_confined']
      expect([operation.id, ...reply]).toEqual([operation.id, ...refusal])
    }
    await finishPendingWork()
    const [attempt] = await select(sql`select code, actor_kind, actor_id, actor_name from audit_attempts
      where tenant_id = ${tenant.tenant_id} limit 1`)
    expect(attempt).toEqual({
      code: 'model_token_confined',
      actor_kind: 'deployment',
      actor_id: id,
      actor_name: name,
    })
  }, 60_000)

  it('cannot enter for anything but models, and its trace key cannot enter for them', async () => {
    const { tenant, id, token } = await newApplication()
    const hash = await readModelToken(getApp(), token)
    const enter = (actorHash: string, permission: Permission) =>
      run({ ...traceCtx(tenant), permission, actor: { kind: 'deployment', hash: actorHash } }, sql`select 1`)
    await expect(enter(hash, 'models:invoke')).resolves.toHaveLength(1)
    for (const permission of ['runs:create', 'models:read', 'deployments:read', 'organization:read'] as const)
      await expect(enter(hash, permission)).rejects.toMatchObject({ code: 'model_token_confined' })
    const traceHash = `${id.replaceAll('-', '')}.1`
    await expect(enter(traceHash, 'runs:create')).resolves.toHaveLength(1)
    await expect(enter(traceHash, 'models:invoke')).rejects.toMatchObject({ code: 'trace_key_confined' })
  })

  it('is limited like any key, by all of its tokens together', async () => {
    const app = startApp({ settings: { INGESTION_RATE_LIMIT_PER_MINUTE: '2' } })
    const { id, token, sendWith } = await newApplication()
    const renewed = await createModelToken(app, { deployment_id: id, version: 1 })
    const statuses = []
    for (const credential of [token, renewed, renewed]) statuses.push((await sendWith(credential, app)).status)
    expect(statuses).toEqual([403, 403, 429])
  })
})

describe('a token of an application is refused', () => {
  it('once it has expired', async () => {
    const { token, sendWith } = await newApplication()
    expect(outcome(await withClockAhead(899_000, () => sendWith(token)))).toEqual([403, 'model_token_confined'])
    expect(outcome(await withClockAhead(900_000, () => sendWith(token)))).toEqual([401, 'model_token_expired'])
  })

  it('unless it is of the present version, which a rotation ends', async () => {
    const { tenant, id, token, sendWith } = await newApplication()
    const next = await createModelToken(getApp(), { deployment_id: id, version: 2 })
    expect(outcome(await sendWith(next))).toEqual([401, 'key_revoked'])
    await tenant.post(`/v2/deployments/${id}/trace-key/rotation`)
    expect(outcome(await sendWith(token))).toEqual([401, 'key_revoked'])
    expect(outcome(await sendWith(next))).toEqual([403, 'model_token_confined'])
  })

  it('once its deployment is deleted, and in another workspace', async () => {
    const { tenant, id, token, sendWith } = await newApplication()
    const other = await newTenant()
    const headers = { 'X-Api-Key': token, 'X-Tenant-Id': other.tenant_id }
    const hash = await readModelToken(getApp(), token)
    const elsewhere = { ...traceCtx(tenant), permission: 'models:invoke', tenant: other.tenant_id } as const
    const entered = run({ ...elsewhere, actor: { kind: 'deployment', hash } }, sql`select 1`)
    await expect(entered).rejects.toMatchObject({ code: 'workspace_forbidden' })
    expect((await send('GET', '/sessions', { headers })).status).toBe(403)
    await tenant.delete(`/v2/deployments/${id}`)
    expect(outcome(await sendWith(token))).toEqual([401, 'key_revoked'])
  })

  it('if applications get none', async () => {
    const { token, sendWith } = await newApplication()
    expect(outcome(await sendWith(token, startApp({ settings: { DEPLOYMENT_MODELS: 'off' } })))).toEqual([
      401,
      'key_unknown',
    ])
  })

  it('when it is anything but a token of this installation for this purpose', async () => {
    const { tenant, id, token, sendWith } = await newApplication()
    const { config } = getApp()
    const other = readConfig({
      PUBLIC_URL: 'http://slipway.test',
      DATABASE_URL: 'postgres://user@localhost/slipway',
      SEALING_KEYS: `first:${Buffer.alloc(32, 9).toString('base64url')}`,
    })
    const sign = (changes: object, typ = 'model-token+jwt') => {
      const iat = Math.floor(Date.now() / 1000)
      const claims = { iss: AUDIENCE, aud: AUDIENCE, sub: id, iat, nbf: iat, exp: iat + 900, trace_key_version: 1 }
      return signJwt(config, { ...claims, ...changes }, typ)
    }
    const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
    const [head, body, signature] = token.split('.') as [string, string, string]
    const { kid } = (await publicJwks(config)).keys[0]!
    /** The proxy sends this token to a model of an organization that has set our own address as its audience. */
    const upstream = await signModelCall(getApp(), {
      issuer: AUDIENCE,
      audience: AUDIENCE,
      actor: { type: 'deployment', id },
      organization: { id: 'o', name: 'o' },
      workspace: { id: tenant.tenant_id, name: 'w' },
      request_id: 'r',
      provider: 'openai',
      model: 'small',
      streaming: false,
      body_sha256: '',
    })
    const accepted = { 'a token': await sign({}) }
    const refused = {
      'the token of an upstream': upstream,
      'another audience': await sign({ aud: 'https://models.example.com' }),
      'another issuer': await sign({ iss: 'http://slipway.test' }),
      'another type': await sign({}, 'JWT'),
      'alg none': `${encode({ alg: 'none', typ: 'model-token+jwt' })}.${body}.`,
      'alg none with a signature': `${encode({ alg: 'none', typ: 'model-token+jwt', kid })}.${body}.${signature}`,
      'changed claims': `${head}.${encode({ ...jose.decodeJwt(token), sub: unusedId() })}.${signature}`,
      'another installation': await createModelToken({ ...getApp(), config: other }, { deployment_id: id, version: 1 }),
      'the kid of another key': `${encode({ ...jose.decodeProtectedHeader(token), kid: 'x' })}.${body}.${signature}`,
      'a mistyped token': `${token}x`,
      'a cut token': token.slice(0, -1),
      'only the beginning': 'eyJ',
    }
    for (const [what, credential] of Object.entries(accepted))
      expect([what, ...outcome(await sendWith(credential))]).toEqual([what, 403, 'model_token_confined'])
    for (const [what, credential] of Object.entries(refused))
      expect([what, ...outcome(await sendWith(credential))]).toEqual([what, 401, 'key_unknown'])
    for (const sub of ['', 'x', `${id}.1`, null])
      expect([sub, (await sendWith(await sign({ sub }))).status]).toEqual([sub, 401])
    for (const trace_key_version of [null, '1 or 1', 1.5, -1])
      expect([trace_key_version, (await sendWith(await sign({ trace_key_version }))).status]).toEqual([
        trace_key_version,
        401,
      ])
  })
})

it('a trace key opens nothing of the models, and a token sends no runs', async () => {
  const { tenant, id, name, token } = await newApplication()
  const trace = await createTraceKey(getApp().config, { deployment_id: id, version: 1 })
  const sendRun = (key: string) =>
    send('POST', '/runs', { headers: { 'X-Api-Key': key }, body: { ...newTrace().root, session_name: name } })
  expect((await sendRun(trace)).status).toBe(202)
  expect(outcome(await sendRun(token))).toEqual([403, 'model_token_confined'])
  expect(await select(sql`select id from runs where tenant_id = ${tenant.tenant_id}`)).toHaveLength(1)
})
