import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { type App, clock, newTenant, readEvents, send, startApp, type Tenant } from '../../support/app.ts'
import { makeRepositoryBody } from '../../support/integrations.ts'
import { makeSigningRegistry } from '../../support/signing-registry.ts'
import { makeSourceBody } from '../../support/uploads-suite.ts'

const MINUTE = 60_000
let app: App
let registry: Awaited<ReturnType<typeof makeSigningRegistry>>

beforeAll(async () => {
  registry = await makeSigningRegistry()
  app = startApp({ settings: registry.settings })
})
afterEach(() => {
  clock.ahead = 0
})

async function offerPushToken(tenant: Tenant, headers = {}) {
  const { id } = (await tenant.post('/v2/deployments', makeSourceBody({ source: 'internal_container' }))).body
  return {
    id,
    path: `${tenant.tenant_id}/${id}`,
    ...(await tenant.post(`/v2/deployments/${id}/push-token`, undefined, headers)),
  }
}

const requestAccess = (password: string, ...scopes: string[]) => registry.ask(app, password, scopes)
const claimsOf = (token: string) => registry.claimsOf(token)

describe('a push token', () => {
  it('is returned with the URL to push to, and journaled', async () => {
    const tenant = await newTenant({ app })
    const { id, path, status, body, headers } = await offerPushToken(tenant)
    expect([status, body]).toEqual([
      200,
      { token: expect.stringMatching(/^slwp\./), registry_url: `registry.example.com:5000/apps/${path}` },
    ])
    const events = await readEvents(headers.get('X-Request-Id')!, app)
    expect(events).toMatchObject([{ type: 'deployment.push_offered', subject_id: id, actor_kind: 'key' }])
    expect(JSON.stringify(events)).not.toContain(body.token)
  })

  it('is replayed under an idempotency key', async () => {
    const tenant = await newTenant({ app })
    const { id, body } = await offerPushToken(tenant, { 'Idempotency-Key': 'k' })
    const again = await tenant.post(`/v2/deployments/${id}/push-token`, undefined, { 'Idempotency-Key': 'k' })
    expect([again.headers.get('Idempotency-Replayed'), again.body]).toEqual(['true', body])
  })

  it('for the image of a new deployment is for a part of the registry of its own, each time', async () => {
    const tenant = await newTenant({ app })
    const [first, second] = [await tenant.post('/v2/push-tokens'), await tenant.post('/v2/push-tokens')]
    const [path, other] = [first, second].map(({ body }) => body.registry_url.replace(/^[^/]*\/apps\//, ''))
    expect([first.status, path === other, path.startsWith(`${tenant.tenant_id}/`)]).toEqual([200, false, true])
    const subject_id = path.split('/')[1]
    const events = await readEvents(first.headers.get('X-Request-Id')!, app)
    expect(events).toMatchObject([{ type: 'image.push_offered', subject_id, actor_kind: 'key' }])
    const scopes = [path, other].map(one => `repository:apps/${one}/web:pull,push`)
    const { body } = await requestAccess(first.body.token, ...scopes)
    expect((await claimsOf(body.token)).access).toEqual([
      { type: 'repository', name: `apps/${path}/web`, actions: ['pull', 'push'] },
    ])
  })

  it.each(['githost', 'internal_source', 'internal_template'])('is refused for source %s', async source => {
    const tenant = await newTenant({ app })
    const bodies: Record<string, object> = {
      githost: await makeRepositoryBody(tenant),
      internal_source: makeSourceBody(),
      internal_template: makeSourceBody({ source, source_config: { template_id: 'web-service' } }),
    }
    const { id } = (await tenant.post('/v2/deployments', bodies[source])).body
    const { status, body } = await tenant.post(`/v2/deployments/${id}/push-token`)
    expect([status, body.code]).toEqual([400, 'source_rule'])
  })

  it('is refused for a deployment that is being deleted', async () => {
    const tenant = await newTenant({ app })
    const { id } = await offerPushToken(tenant)
    await tenant.delete(`/v2/deployments/${id}`)
    const { status, body } = await tenant.post(`/v2/deployments/${id}/push-token`)
    expect([status, body.code]).toEqual([409, 'deployment_deleting'])
  })

  it('is refused without a registry, and the log names the missing setting', async () => {
    const lines: Record<string, unknown>[] = []
    const log = (line: Record<string, unknown>) => void lines.push(line)
    const withoutRegistry = startApp({ overrides: { registry: undefined, log } })
    const { status, body } = await offerPushToken(await newTenant({ app: withoutRegistry }))
    expect([status, body.code]).toEqual([503, 'not_configured'])
    const token = await send('GET', '/v2/registry/token', { app: withoutRegistry })
    expect([token.status, token.body.code]).toEqual([503, 'not_configured'])
    const { request_id } = token.body
    expect(lines).toContainEqual(
      expect.objectContaining({ request_id, message: expect.stringContaining('REGISTRY_URL') }),
    )
  })
})

describe('an access token of the registry', () => {
  it('allows to pull and push below the path of the deployment for five minutes', async () => {
    const { path, body } = await offerPushToken(await newTenant({ app }))
    const reply = await requestAccess(body.token, `repository:apps/${path}/web:pull,push`)
    expect(reply.body).toMatchObject({ token: reply.body.access_token, expires_in: 300 })
    const { access, iss, aud, sub, iat, nbf, exp } = await claimsOf(reply.body.token)
    expect(access).toEqual([{ type: 'repository', name: `apps/${path}/web`, actions: ['pull', 'push'] }])
    expect({ iss, aud, sub }).toEqual({ iss: 'slipway', aud: 'registry.example.com:5000', sub: path })
    expect([exp - iat, nbf <= iat]).toEqual([300, true])
  })

  it('has only those of the requested scopes that belong to the deployment', async () => {
    const [own, other] = [
      await offerPushToken(await newTenant({ app })),
      await offerPushToken(await newTenant({ app })),
    ]
    const base = `apps/${own.path}`
    const scopes = [
      `repository:${base}:pull`,
      `repository:${base}/a:push,delete,* repository:${base}/b:pull`,
      `repository:${base}x:pull`,
      `repository:${own.path}/a:pull`,
      `repository:apps/${other.path}/a:pull,push`,
      'repository:apps/library/a:pull',
      `repository:${base}/../${other.path}:pull`.replace(base, 'apps'),
      'registry:catalog:*',
      '::',
    ]
    const { body } = await requestAccess(own.body.token, ...scopes)
    expect((await claimsOf(body.token)).access).toEqual([
      { type: 'repository', name: base, actions: ['pull'] },
      { type: 'repository', name: `${base}/a`, actions: ['push'] },
      { type: 'repository', name: `${base}/b`, actions: ['pull'] },
    ])
  })

  it('without requested scopes has no access', async () => {
    const { body } = await offerPushToken(await newTenant({ app }))
    expect((await claimsOf((await requestAccess(body.token)).body.token)).access).toEqual([])
  })

  it('is refused when the push token is an hour old', async () => {
    const { body } = await offerPushToken(await newTenant({ app }))
    clock.ahead = 59 * MINUTE
    expect((await requestAccess(body.token)).status).toBe(200)
    clock.ahead = 61 * MINUTE
    const late = await requestAccess(body.token)
    expect([late.status, late.body.code]).toEqual([401, 'push_token_expired'])
  })

  it('is refused for a missing, malformed or changed push token', async () => {
    const [own, other] = [
      await offerPushToken(await newTenant({ app })),
      await offerPushToken(await newTenant({ app })),
    ]
    const [, , expires = ''] = own.body.token.split('.')
    const wrong = [
      '',
      'x',
      own.body.token.slice(0, -3),
      own.body.token.replace(own.path, other.path),
      own.body.token.replace(expires, String(Number(expires) + 60_000)),
    ]
    for (const password of wrong) {
      const { status, body, headers } = await requestAccess(password)
      expect([status, body.code, headers.get('WWW-Authenticate')]).toEqual([
        401,
        'push_token_invalid',
        'Basic realm="slipway"',
      ])
    }
    for (const Authorization of [undefined, 'Basic', 'Basic !', `Bearer ${own.body.token}`]) {
      const { body } = await send('GET', '/v2/registry/token', {
        headers: { ...(Authorization && { Authorization }) },
        app,
      })
      expect(body.code).toBe('push_token_invalid')
    }
  })
})
