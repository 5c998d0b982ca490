// Model configurations: what is stored and shown, what is refused, and who receives a secret.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, it } from 'vitest'
import { MODEL_SECRET_PLACE } from '../../../src/connect/models/configurations.ts'
import { createSealer } from '../../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, newTenant, readEvents, startApp, type Tenant, unusedId } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'

const PATH = '/v1/model-configurations'
const SETTINGS = '/orgs/current/model-proxy'
const SECRET = 'sk-canary-0123456789'
const CLIENT = {
  auth_type: 'oauth_client_credentials',
  token_url: 'https://as.example.com/token',
  client_id: 'slipway',
}

let tenant: Tenant
beforeAll(async () => {
  tenant = await newTenant()
})
const newBody = (more: object = {}) => ({
  name: unusedId(),
  provider: 'openai',
  model: 'gpt-4.1',
  secret: SECRET,
  ...more,
})
const outcomeOf = ({ status, body }: { status: number; body: { code?: string } }) => [status, body.code]
const readSecret = async (id: string): Promise<string | null> => {
  const [rows] = await runAsSystem(
    getApp().database,
    sql`select to_json(m) from model_configurations m where id = ${id}::uuid`,
  )
  const { secret } = JSON.parse((rows as string[][])[0]![0]!)
  return secret && createSealer(getApp().config.sealingKeys).open(secret, id, MODEL_SECRET_PLACE)
}

describe('a model configuration', () => {
  it('is created with defaults, read, listed and deleted', async () => {
    const { status, body, headers } = await tenant.post(PATH, newBody({ name: 'Fast' }))
    expect(status).toBe(201)
    expect(body).toMatchObject({
      name: 'Fast',
      provider: 'openai',
      base_url: 'https://api.openai.com/v1',
      model: 'gpt-4.1',
      auth_type: 'secret',
      token_url: null,
      input_price: null,
      trace_project: null,
      deployment_ids: null,
      last_test: null,
      proxy_url: `http://slipway.test/v1/model-proxy/${body.id}`,
    })
    const path = headers.get('Location')!
    const read = await tenant.get(path)
    expect(read.body).toEqual(body)
    expect((await tenant.get(`${PATH}?limit=100`)).body.resources).toContainEqual(body)
    expect(outcomeOf(await tenant.post(PATH, newBody({ name: 'fASt' })))).toEqual([409, 'model_exists'])
    const ifMatch = { 'If-Match': read.headers.get('ETag')! }
    expect((await tenant.patch(path, { model: 'gpt-4.1-mini' }, ifMatch)).status).toBe(200)
    expect((await tenant.delete(path, undefined, ifMatch)).status).toBe(412)
    expect((await tenant.delete(path)).status).toBe(204)
    expect(outcomeOf(await tenant.get(path))).toEqual([404, 'model_not_found'])
  })

  it('never shows its secret, neither in answers nor in the journal, and stores it sealed', async () => {
    const headers = { 'X-Request-Id': `models-${unusedId()}`, 'Idempotency-Key': unusedId() }
    const body = newBody(CLIENT)
    const created = await tenant.post(PATH, body, headers)
    const repeated = await tenant.post(PATH, body, headers)
    expect(repeated.body).toEqual(created.body)
    const read = await tenant.get(`${PATH}/${created.body.id}`)
    const events = await readEvents(headers['X-Request-Id'])
    expect(events.map(event => event.type)).toEqual(['model_configuration.created'])
    for (const text of [created.text, read.text, JSON.stringify(events)]) expect(text).not.toContain('canary')
    expect(await readSecret(created.body.id)).toBe(SECRET)
  })

  it.each([
    ['no secret', { secret: undefined }, ['secret']],
    ['a secret for a token of ours', { auth_type: 'jwt' }, ['secret']],
    ['half an OAuth client', { ...CLIENT, secret: undefined, client_id: null }, ['secret', 'client_id']],
    ['a token endpoint without its use', { token_url: CLIENT.token_url, scope: 'a' }, ['token_url', 'scope']],
    ['no address', { provider: 'openai_compatible' }, ['base_url']],
    ['an address with a query', { base_url: 'https://api.example.com/v1?key=a' }, ['base_url']],
    ['an address with a user', { base_url: 'https://a:b@api.example.com/v1' }, ['base_url']],
    ['an address with dots', { base_url: 'https://api.example.com/v1/%2e%2e/admin' }, ['base_url']],
    ['a negative price', { input_price: -1 }, ['input_price']],
    ['a name without characters', { name: ' \u200b' }, ['name']],
    ['an unknown provider', { provider: 'acme' }, ['provider']],
  ])('is refused with %s', async (_, more, members) => {
    const { status, body } = await tenant.post(PATH, newBody(more))
    expect(status).toBe(422)
    expect(body.errors.map(({ loc }: { loc: string[] }) => loc[1])).toEqual(members)
  })

  it.each([
    [{ base_url: 'https://10.0.0.1/v1' }, 422, 'blocked_url'],
    [{ base_url: 'http://vllm.models.svc:8000/v1' }, 422, 'blocked_url'],
    [{ ...CLIENT, token_url: 'https://localhost/token' }, 422, 'blocked_url'],
    [{ deployment_ids: [unusedId()] }, 404, 'deployment_not_found'],
  ])('is refused with %j', async (more, ...outcome) => {
    expect(outcomeOf(await tenant.post(PATH, newBody(more)))).toEqual(outcome)
  })

  it('may address a cluster if the operator allows it', async () => {
    const app = startApp({ settings: { MODEL_PRIVATE_ADDRESSES: 'true' } })
    const inside = await newTenant({ app })
    const base_url = 'http://vllm.models.svc:8000/v1/'
    const { body } = await inside.post(PATH, newBody({ provider: 'openai_compatible', base_url }))
    expect(body.base_url).toBe('http://vllm.models.svc:8000/v1')
  })

  it('is open to deployments of its own workspace only', async () => {
    const deployment = await newDeployment(tenant)
    const other = await newDeployment(await newTenant())
    const { id, deployment_ids } = (await tenant.post(PATH, newBody({ deployment_ids: [deployment.id] }))).body
    expect(deployment_ids).toEqual([deployment.id])
    const path = `${PATH}/${id}`
    expect(outcomeOf(await tenant.patch(path, { deployment_ids: [other.id] }))).toEqual([404, 'deployment_not_found'])
    expect((await tenant.patch(path, { deployment_ids: [] })).body.deployment_ids).toEqual([])
    expect((await tenant.patch(path, { deployment_ids: null })).body.deployment_ids).toBeNull()
  })
})

describe('the secret of a configuration', () => {
  it('stays where its address stays, and is needed again where that changes', async () => {
    const { id } = (await tenant.post(PATH, newBody())).body
    const path = `${PATH}/${id}`
    const base_url = 'https://eu.api.openai.com/v1'
    expect((await tenant.patch(path, { base_url: 'https://api.openai.com/v1/', name: unusedId() })).status).toBe(200)
    expect(outcomeOf(await tenant.patch(path, { base_url }))).toEqual([422, 'model_secret_required'])
    expect((await tenant.patch(path, { base_url, secret: 'sk-new' })).body.errors[0].loc).toEqual(['body', 'secret'])
    const changed = await tenant.patch(path, { base_url, auth_type: 'secret', secret: 'sk-new' })
    expect(changed.body.base_url).toBe(base_url)
    expect(await readSecret(id)).toBe('sk-new')
  })

  it('goes with the authentication that it belongs to', async () => {
    const { id } = (await tenant.post(PATH, newBody({ ...CLIENT, audience: 'models' }))).body
    const path = `${PATH}/${id}`
    const changed = await tenant.patch(path, { auth_type: 'jwt' })
    expect(changed.body).toMatchObject({ auth_type: 'jwt', token_url: null, client_id: null, audience: null })
    expect(await readSecret(id)).toBeNull()
    expect((await tenant.patch(path, { base_url: 'https://gateway.example.com/v1' })).status).toBe(200)
    expect((await tenant.patch(path, { auth_type: 'secret' })).status).toBe(422)
  })
})

describe('the settings of an organization', () => {
  it('are the defaults until they are set, and show the values that the other side needs', async () => {
    const { get, owner } = await newTenant()
    const before = await get(SETTINGS)
    expect(before.body).toEqual({
      enabled: true,
      audience: null,
      allowed_urls: { mode: 'configurations', patterns: [] },
      jwks_url: 'http://slipway.test/.well-known/jwks.json',
      header: 'X-LLM-Auth',
      issuer: 'http://slipway.test',
      updated_at: null,
    })
    const ifMatch = { 'If-Match': before.headers.get('ETag')! }
    const change = {
      audience: 'gateway',
      allowed_urls: { mode: 'list', patterns: ['HTTPS://API.example.com:443/v1/*'] },
    }
    const changed = await owner.patch(SETTINGS, change, ifMatch)
    expect(changed.body).toMatchObject({
      enabled: true,
      audience: 'gateway',
      allowed_urls: { mode: 'list', patterns: ['https://api.example.com/v1/*'] },
    })
    expect((await owner.patch(SETTINGS, { enabled: false }, ifMatch)).status).toBe(412)
    expect((await owner.patch(SETTINGS, { enabled: true })).body.audience).toBe('gateway')
    const off = await owner.patch(SETTINGS, { enabled: false, audience: null })
    expect(off.body).toEqual({ ...changed.body, enabled: false, audience: null, updated_at: off.body.updated_at })
    expect((await get(SETTINGS)).body).toEqual(off.body)
  })

  it('take an audience only with the list of URLs whose servers may get the tokens', async () => {
    const { get, owner } = await newTenant()
    const allowed_urls = { mode: 'list', patterns: ['https://api.example.com/v1/*'] }
    const codeOf = async (body: object) => (await owner.patch(SETTINGS, body)).body.code
    expect(await codeOf({ audience: 'gateway' })).toBe('model_audience_unbound')
    expect(await codeOf({ audience: 'gateway', allowed_urls })).toBeUndefined()
    expect(await codeOf({ allowed_urls: { mode: 'configurations' } })).toBe('model_audience_unbound')
    expect((await get(SETTINGS)).body).toMatchObject({ audience: 'gateway', allowed_urls })
  })

  it.each([
    { mode: 'list', patterns: [] },
    { mode: 'list', patterns: ['*'] },
    { mode: 'list', patterns: [''] },
    { mode: 'list', patterns: ['https://*/*', 'https://api.example.com/*'] },
    { mode: 'some' },
  ])('are refused with %j', async allowed_urls => {
    expect((await tenant.owner.patch(SETTINGS, { allowed_urls })).status).toBe(422)
    expect((await tenant.get(SETTINGS)).body.allowed_urls.mode).toBe('configurations')
  })

  const BASE = 'https://models.example.com/v1'
  it.each([
    [{ mode: 'configurations' }, BASE, 201],
    [{ mode: 'all' }, BASE, 201],
    [{ mode: 'none' }, BASE, 403],
    [{ mode: 'list', patterns: ['https://models.example.com/*'] }, BASE, 201],
    [{ mode: 'list', patterns: ['https://models.example.com/v1/*'] }, BASE, 201],
    [{ mode: 'list', patterns: ['https://models.example.com/v1'] }, BASE, 201],
    [{ mode: 'list', patterns: ['https://models.example.com/v1/chat/completions'] }, BASE, 201],
    [{ mode: 'list', patterns: ['https://models.example.com/v1*'] }, `${BASE}beta`, 201],
    [{ mode: 'list', patterns: ['https://a.example.com/*', 'https://*.example.com/v1/*'] }, BASE, 201],
    [{ mode: 'list', patterns: ['https://models.example.com/v2/*'] }, BASE, 403],
    [{ mode: 'list', patterns: ['https://models.example.com/v1'] }, `${BASE}/chat`, 403],
    [{ mode: 'list', patterns: ['https://models.example.com/'] }, BASE, 403],
    [{ mode: 'list', patterns: ['http://models.example.com/*'] }, BASE, 403],
    [{ mode: 'list', patterns: ['https://models.example.com:8443/*'] }, BASE, 403],
    [{ mode: 'list', patterns: ['https://*.models.example.com/*'] }, BASE, 403],
    [{ mode: 'list', patterns: ['https://*.example.com/*'] }, 'https://a.models.example.com', 403],
  ])('with %j let a configuration have the base %s: %i', async (allowed_urls, base_url, status) => {
    const { post, owner, patch } = await newTenant()
    const { id } = (await post(PATH, newBody())).body
    expect((await owner.patch(SETTINGS, { allowed_urls })).status).toBe(200)
    const created = await post(PATH, newBody({ base_url }))
    expect([created.status, created.body.code]).toEqual([status, status === 201 ? undefined : 'model_url_not_allowed'])
    const changed = await patch(`${PATH}/${id}`, { base_url, auth_type: 'secret', secret: 'new' })
    expect(changed.status).toBe(status === 201 ? 200 : status)
  })
})
