// Requests and answers in the words of LangGraph's clients.
import { describe, expect, it } from 'vitest'
import { translate } from '../../../src/connect/words/langgraph.ts'
import { featuresOf } from '../../../src/protocol/engine-features.ts'
import { CLOSED_POLICY } from '../../../src/protocol/listener-policy.ts'
import type { Work } from '../../../src/protocol/work.schema.ts'
import { getApp, newTenant, startApp, type Tenant, unusedId } from '../../support/app.ts'
import { gzip, makeTar } from '../../support/archives.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { newDeployment } from '../../support/deployments.ts'
import { makeRepositoryBody } from '../../support/integrations.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const THEIR_WORDS = { 'X-Contract-Words': 'langgraph' }
type Options = { method?: string; body?: unknown; text?: string; headers?: Record<string, string>; app?: typeof getApp }

/** Answers are not those of the document, so `send()` would refuse them. */
async function call({ key }: Pick<Tenant, 'key'>, path: string, options: Options = {}) {
  const { method = 'GET', body, text = JSON.stringify(body), headers = THEIR_WORDS, app = getApp } = options
  const response = await app().fetch(
    new Request(`http://slipway.test${path}`, {
      method,
      headers: { 'X-Api-Key': key, ...(text && { 'Content-Type': 'application/json' }), ...headers },
      ...(text && { body: text }),
    }),
  )
  const answer = await response.text()
  // biome-ignore lint/suspicious/noExplicitAny: answers of many routes
  const json = (): any => JSON.parse(answer)
  const isJson = /[/+]json/.test(response.headers.get('Content-Type') ?? '')
  return { status: response.status, headers: response.headers, text: answer, body: isJson ? json() : undefined }
}
const theirImageBody = (over: object = {}) => makeImageBody({ source: 'internal_docker', ...over })

describe('the words of LangGraph', () => {
  it.each([
    ['internal_docker', 'internal_container', {}],
    ['internal_source', 'internal_source', {}],
  ])('name the source %s, which is %s here', async (theirs, ours, over) => {
    const tenant = await newTenant()
    const source_revision_config = theirs === 'internal_source' ? { langgraph_config_path: 'a/langgraph.json' } : {}
    const sent = { ...theirImageBody(over), source: theirs, source_revision_config }
    const created = await call(tenant, '/v2/deployments', { method: 'POST', body: sent })
    expect([created.status, created.body.source]).toEqual([201, theirs])
    const { body } = await tenant.get(`/v2/deployments/${created.body.id}`)
    expect(body.source).toBe(ours)
    expect((await call(tenant, `/v2/deployments/${body.id}`)).body).toMatchObject({
      source: theirs,
      source_revision_config,
    })
    const revisions = (await call(tenant, `/v2/deployments/${body.id}/revisions`)).body.resources
    expect(revisions).toMatchObject([{ source: theirs, source_revision_config }])
    const revision = await call(tenant, `/v2/deployments/${body.id}/revisions/${revisions[0].id}`)
    expect(revision.body.source).toBe(theirs)
    const listed = (query: string) => call(tenant, `/v2/deployments?${query}`)
    expect((await listed(`source=${theirs}`)).body.resources).toMatchObject([{ id: body.id, source: theirs }])
    const state = await call(tenant, `/v2/deployments/${body.id}/state?at=${new Date(Date.now() + 1000).toISOString()}`)
    expect(state.body.present.wanted.source).toBe(theirs)
  })

  it('name git and its paths', async () => {
    const tenant = await newTenant()
    const repository = await makeRepositoryBody(tenant)
    const { integration_id, repo_url } = repository.source_config
    const path = `/v1/integrations/github/${integration_id}/repos`
    const repositories = await call(tenant, path)
    expect(repositories.body.code).toBe((await tenant.get(path.replace('github', 'forge/githost'))).body.code)
    expect(repositories.headers.get('Vary')).toContain('X-Contract-Words')
    expect((await call(tenant, path, { headers: {} })).status).toBe(404)
    const body = {
      name: 'shop',
      source: 'github',
      source_config: { integration_id, repo_url, deployment_type: 'serverless', build_on_push: false },
      source_revision_config: { repo_ref: 'main', langgraph_config_path: 'langgraph.json' },
      secrets: [],
    }
    const created = await call(tenant, '/api-host/v2/deployments', { method: 'POST', body })
    expect(created.body).toMatchObject({
      source: 'github',
      source_config: { deployment_type: 'dev', resource_spec: { min_scale: 0 } },
      source_revision_config: { langgraph_config_path: 'langgraph.json' },
    })
    const ours = (await tenant.get(`/v2/deployments/${created.body.id}`)).body
    expect(ours).toMatchObject({
      source: 'githost',
      source_revision_config: { platform_config_path: 'langgraph.json' },
    })
  })

  it('name an external image', async () => {
    const app = startApp({ settings: { SLIPWAY_MODE: 'self_hosted' } })
    const tenant = await newTenant({ app })
    const body = theirImageBody({ source: 'external_docker', source_config: { resource_spec: {} } })
    const created = await call(tenant, '/v2/deployments', { method: 'POST', body, app: () => app })
    expect([created.status, created.body.source]).toEqual([201, 'external_docker'])
    expect((await tenant.get(`/v2/deployments/${created.body.id}`)).body.source).toBe('external_container')
  })

  it.each([
    ['serverless', 'dev', true],
    ['dev_zero', 'dev', true],
    ['dedicated', 'prod', false],
    ['dev', 'dev', false],
  ])('name the type %s, which is %s here', async (theirs, ours, isWarned) => {
    const tenant = await newTenant()
    const body = theirImageBody({ source_config: { deployment_type: theirs } })
    const created = await call(tenant, '/v2/deployments', { method: 'POST', body })
    expect(created.body.source_config.deployment_type).toBe(ours)
    expect(created.headers.has('Slipway-Warnings')).toBe(isWarned)
    const path = `/v2/deployments?deployment_type=${theirs}`
    expect((await call(tenant, path)).body.resources).toHaveLength(1)
    expect((await call(tenant, path.replace('deployments', 'deployment-counts'))).status).toBe(200)
    // It cannot change, and is the same.
    const patch = { source_config: { deployment_type: theirs } }
    const patched = await call(tenant, `/v2/deployments/${created.body.id}`, { method: 'PATCH', body: patch })
    expect(patched.status).toBe(200)
  })

  it('make a deployment that may sleep one with a scale of 0, unless the client says another', async () => {
    const tenant = await newTenant()
    const scaleOf = async (source_config: object) => {
      const created = await call(tenant, '/v2/deployments', { method: 'POST', body: theirImageBody({ source_config }) })
      return created.body.source_config.resource_spec
    }
    expect(await scaleOf({ deployment_type: 'dev_zero' })).toEqual({ min_scale: 0 })
    expect(await scaleOf({ resource_spec: { cpu: 1 }, deployment_type: 'serverless' })).toEqual({
      cpu: 1,
      min_scale: 0,
    })
    expect(await scaleOf({ resource_spec: { min_scale: 1 }, deployment_type: 'dev_zero' })).toEqual({ min_scale: 1 })
    expect(await scaleOf({ resource_spec: { min_scale: null }, deployment_type: 'dev_zero' })).toEqual({ min_scale: 0 })
    expect(await scaleOf({ deployment_type: 'dev' })).toBeNull()
  })

  it('let one from a folder sleep, whose graphs say when, unless its listener cannot', async () => {
    const tenant = await newTenant()
    const made = async (engine: 'process' | 'kubernetes', over: object = {}, headers: object = {}) => {
      const { listener, key } = await newListener(tenant)
      await makeSyncAgent(tenant, key).poll({ policy: { ...CLOSED_POLICY, engine, features: featuresOf(engine) } })
      const source_config = { deployment_type: 'dev_zero', listener_id: listener.id, ...over }
      const body = { ...theirImageBody(), source: 'internal_source', source_revision_config: {}, source_config }
      const send = () =>
        call(tenant, '/v2/deployments', { method: 'POST', body, headers: { ...THEIR_WORDS, ...headers } })
      return { sent: await send(), send }
    }
    const scaleOf = ({ sent }: Awaited<ReturnType<typeof made>>) => [
      sent.body.source_config.resource_spec,
      sent.headers.get('Slipway-Warnings')?.includes('idle_seconds') ?? false,
    ]
    expect(scaleOf(await made('process'))).toEqual([{ min_scale: 0, idle_seconds: 900 }, false])
    const own = { resource_spec: { idle_seconds: 60, cpu: 1 } }
    expect(scaleOf(await made('process', own))).toEqual([{ min_scale: 0, idle_seconds: 60, cpu: 1 }, false])
    const awake = await made('kubernetes', {}, { 'Idempotency-Key': crypto.randomUUID() })
    expect([awake.sent.status, ...scaleOf(awake)]).toEqual([201, { min_scale: 0 }, true])
    const again = await awake.send()
    expect([again.status, again.body.id]).toEqual([201, awake.sent.body.id])
    // It asks for that itself.
    expect((await made('kubernetes', own)).sent.body.code).toBe('not_allowed_by_listener')
  })

  it('end the wait of a client for a revision that is not served, with the reason in its build log', async () => {
    const tenant = await newTenant()
    const { listener, key } = await newListener(tenant)
    const { id } = await newDeployment(tenant, makeListenerDeployment(listener))
    const agent = makeSyncAgent(tenant, key)
    const [work] = (await agent.poll()).changes as [Work]
    const path = `/v2/deployments/${id}`
    const urls = { url: 'http://shop.localhost:1', local_url: 'http://127.0.0.1:2' }
    await agent.report(work, { state: 'deployed', ...urls })
    const read = await call(tenant, path)
    expect(read.body).toMatchObject({ ...urls, source_config: { custom_url: urls.local_url } })
    expect((await tenant.get(path)).body.source_config.custom_url).toBeNull()

    const next = (await tenant.post(`${path}/revisions`)).body
    const [newer] = (await agent.poll()).changes as [Work]
    await agent.report(newer, { state: 'deploying' })
    await agent.report(newer, { state: 'failed', message: 'It never listened.\nError: no port' })
    expect((await tenant.get(`${path}/revisions/${next.id}`)).body.status).toBe('DEPLOY_FAILED')
    expect((await call(tenant, `${path}/revisions/${next.id}`)).body.status).toBe('BUILD_FAILED')
    const messages = async (order: string) => {
      const logs = `/v1/projects/${id}/revisions/${next.id}/build_logs`
      const { body } = await call(tenant, logs, { method: 'POST', body: { order, limit: 30 } })
      return body.logs.map(({ message }: { message: string }) => message)
    }
    expect(await messages('asc')).toEqual(['It never listened.', 'Error: no port'])
    expect(await messages('desc')).toEqual(['Error: no port', 'It never listened.'])
  })

  it('name the source of a revision, in plans too', async () => {
    const tenant = await newTenant()
    const { body } = await tenant.post('/v2/deployments', {
      ...makeImageBody(),
      source: 'internal_source',
      source_revision_config: {},
    })
    const patch = {
      revision_source: 'internal_docker',
      source_revision_config: { image_uri: 'registry.example.com/app:second' },
    }
    const path = `/v2/deployments/${body.id}`
    const plan = await call(tenant, `${path}?dry_run=true`, { method: 'PATCH', body: patch })
    expect(plan.text).not.toContain('internal_container')
    const patched = await call(tenant, path, { method: 'PATCH', body: patch })
    expect(patched.status).toBe(200)
    const [newest] = (await tenant.get(`${path}/revisions`)).body.resources
    expect(newest.source).toBe('internal_container')
    const created = await call(tenant, '/v2/deployments?dry_run=true', {
      method: 'POST',
      body: { ...theirImageBody({ source_revision_config: {} }), source: 'internal_source' },
    })
    expect(created.status).toBe(200)
    const image = await call(tenant, '/v2/deployments?dry_run=true', { method: 'POST', body: theirImageBody() })
    expect(image.body.changes).toContainEqual(expect.objectContaining({ path: 'source', after: 'internal_docker' }))
  })

  it('stand in errors, where they name members', async () => {
    const tenant = await newTenant()
    const refused = await call(tenant, '/v2/deployments', {
      method: 'POST',
      body: theirImageBody({ source_revision_config: { langgraph_config_path: 7 }, source: 'githost_' }),
    })
    expect(refused.status).toBe(422)
    const places = refused.body.errors.map(({ loc }: { loc: string[] }) => loc.join('.'))
    expect(places).toContain('body.source_revision_config.langgraph_config_path')
    expect(refused.text).toContain('external_docker')
    expect(refused.text).not.toMatch(/platform_config_path|internal_container/)
    expect(refused.headers.get('Content-Type')).toBe('application/problem+json')
  })

  it('say to published clients what they look for', async () => {
    const tenant = await newTenant()
    const { body } = await tenant.post('/v2/deployments', {
      ...makeImageBody(),
      source: 'internal_source',
      source_revision_config: {},
    })
    const token = await call(tenant, `/v2/deployments/${body.id}/push-token`, { method: 'POST' })
    expect([token.status, token.body.detail]).toEqual([
      400,
      expect.stringContaining("only available for 'internal_docker' source deployments"),
    ])
  })

  it('change nothing that a person wrote', async () => {
    const tenant = await newTenant()
    const words = [
      'github',
      'internal_docker',
      'langgraph_config_path',
      'githost',
      'platform_config_path',
      'serverless',
    ]
    const secrets = words.map(value => ({ name: `A_${value.toUpperCase()}`, value }))
    const labels = { source: 'github', deployment_type: 'serverless', other: 'githost' }
    const body = theirImageBody({ name: 'github', secrets, source_config: { resource_spec: { labels } } })
    const created = await call(tenant, '/v2/deployments', { method: 'POST', body })
    expect(created.body).toMatchObject({ name: 'github', source_config: { resource_spec: { labels } } })
    const shown = await call(tenant, `/v2/deployments/${created.body.id}?reveal=true`)
    const byName = (one: { name: string }, other: { name: string }) => (one.name < other.name ? -1 : 1)
    expect(shown.body.secrets.toSorted(byName)).toEqual(secrets.toSorted(byName))
    expect((await tenant.get(`/v2/deployments/${created.body.id}?reveal=true`)).body.secrets).toEqual(
      shown.body.secrets,
    )
  })

  it('change no name in an error, a plan or a comparison that a person chose', async () => {
    const tenant = await newTenant()
    const sidecar = { name: 'githost', image: 'envoy' }
    const body = theirImageBody({
      source: 'githost_',
      source_config: { resource_spec: { sidecars: [sidecar, sidecar], labels: { platform_config_path: '!' } } },
    })
    const { body: refused } = await call(tenant, '/v2/deployments', { method: 'POST', body })
    const faultAt = (place: string) =>
      refused.errors.find(({ loc }: { loc: (string | number)[] }) => loc.join('.') === `body.${place}`)?.msg
    expect(faultAt('source_config.resource_spec.sidecars.1.name')).toContain('`githost`')
    expect(faultAt('source_config.resource_spec.labels.platform_config_path')).toBeTruthy()
    expect(faultAt('source')).toContain('`github`, `external_docker`')
    const volumes = [{ name: 'githost', persistentVolumeClaim: { claimName: 'a' } }]
    const sent = theirImageBody({ source_config: { resource_spec: { volumes } } })
    const { id } = (await call(tenant, '/v2/deployments', { method: 'POST', body: sent })).body
    const path = `/v2/deployments/${id}?clear=resource_spec.volumes&dry_run=true`
    const plan = await call(tenant, path, { method: 'PATCH', body: {} })
    expect(plan.body.warnings).toContainEqual(expect.stringContaining('`githost`'))
  })

  it('refuse two words for one member by both', async () => {
    const tenant = await newTenant()
    const source_revision_config = { platform_config_path: 'a.json', langgraph_config_path: 'b.json' }
    const body = theirImageBody({ source_revision_config, agent: { agent_id: 'a' } })
    const refused = await call(tenant, '/v2/deployments', { method: 'POST', body })
    expect(refused.status).toBe(422)
    expect(refused.body.errors).toMatchObject([
      { loc: ['body', 'agent'] },
      {
        loc: ['body', 'source_revision_config', 'langgraph_config_path'],
        msg: expect.stringContaining('`platform_config_path`'),
      },
    ])
  })

  it('leave a body beyond the limit of values to its route', async () => {
    const tenant = await newTenant()
    const source_config = Object.fromEntries(Array.from({ length: 10_001 }, (_, i) => [`a${i}`, 1]))
    const body = theirImageBody({ source_config, agent: { agent_id: 'a' } })
    const refused = await call(tenant, '/v2/deployments', { method: 'POST', body })
    expect(refused.body.errors).toMatchObject([{ type: 'too_many_values', loc: ['body'] }])
  })

  it('have the same ETags, keys of idempotency and stored answers as our own', async () => {
    const tenant = await newTenant()
    const sent = theirImageBody()
    const key = { 'Idempotency-Key': 'a' }
    const created = await call(tenant, '/v2/deployments', {
      method: 'POST',
      body: sent,
      headers: { ...THEIR_WORDS, ...key },
    })
    const ours = await tenant.post('/v2/deployments', { ...sent, source: 'internal_container' }, key)
    expect([ours.status, ours.body.id, ours.body.source]).toEqual([201, created.body.id, 'internal_container'])
    expect(ours.headers.get('Idempotency-Replayed')).toBe('true')
    const again = await call(tenant, '/v2/deployments', {
      method: 'POST',
      body: sent,
      headers: { ...THEIR_WORDS, ...key },
    })
    expect([again.body.source, again.headers.get('Idempotency-Replayed')]).toEqual(['internal_docker', 'true'])

    const path = `/v2/deployments/${created.body.id}`
    const [inTheirs, inOurs] = [await call(tenant, path), await tenant.get(path)]
    const tag = inTheirs.headers.get('ETag')!
    expect(inOurs.headers.get('ETag')).toBe(tag)
    expect([inTheirs.headers.get('Vary'), inOurs.headers.get('Vary')]).toEqual([
      expect.stringContaining('X-Contract-Words'),
      expect.not.stringContaining('X-Contract-Words'),
    ])
    const unchanged = await call(tenant, path, { headers: { ...THEIR_WORDS, 'If-None-Match': tag } })
    expect([unchanged.status, unchanged.text]).toEqual([304, ''])
    const patch = { source_config: { custom_url: null } }
    const matched = await tenant.patch(path, patch, { 'If-Match': tag })
    expect(matched.status).toBe(200)
  })

  it('keep every byte of a body that is not a word', async () => {
    const tenant = await newTenant()
    const name = `app-${crypto.randomUUID()}`
    const make = (source: string, member: string) =>
      [
        ` {"name":"${name}" ,\n"s\\u006furce" : "${source}", "source_config":{ }, `,
        `"source_revision_config" : { "${member}": null},\t"secrets": [ ] } `,
      ].join('')
    const key = { 'Idempotency-Key': 'a' }
    const text = make('internal_docker', 'langgraph_config_path')
    const theirs = await call(tenant, '/v2/deployments', { method: 'POST', text, headers: { ...THEIR_WORDS, ...key } })
    expect(theirs.status).toBe(201)
    const own = make('internal_container', 'platform_config_path')
    const ours = await call(tenant, '/v2/deployments', { method: 'POST', text: own, headers: key })
    expect([ours.status, ours.headers.get('Idempotency-Replayed')]).toEqual([201, 'true'])
  })

  it.each([
    ['{"source": "github"', 422],
    ['[]', 422],
    ['"github"', 422],
    ['null', 422],
    ['', 422],
    [`{"name": "${'a'.repeat(1024 * 1024)}"}`, 413],
    [`${'['.repeat(50_000)}${']'.repeat(50_000)}`, 422],
  ])('refuse a body as before: %.20s', async (text, status) => {
    const tenant = await newTenant()
    const [theirs, ours] = [
      await call(tenant, '/v2/deployments', { method: 'POST', text }),
      await call(tenant, '/v2/deployments', { method: 'POST', text, headers: {} }),
    ]
    expect([theirs.status, theirs.body.code]).toEqual([status, ours.body.code])
  })

  it('leave other routes, uploads and streams alone', async () => {
    const tenant = await newTenant()
    const created = await call(tenant, '/v2/deployments', {
      method: 'POST',
      body: theirImageBody({ source: 'internal_source', source_revision_config: {} }),
    })
    const { upload_url } = (await call(tenant, `/v2/deployments/${created.body.id}/upload-url`, { method: 'POST' }))
      .body
    const { pathname, search } = new URL(upload_url)
    const put = new Request(`http://slipway.test${pathname}${search}`, {
      method: 'PUT',
      headers: { 'Content-Type': 'application/gzip', ...THEIR_WORDS },
      body: await gzip(makeTar('github')),
    })
    expect((await getApp().fetch(put)).status).toBe(200)
    const stream = await call(tenant, `/v2/deployments/${created.body.id}/logs/stream`)
    expect([stream.status, stream.headers.get('Content-Type')]).toEqual([
      200,
      expect.stringContaining('text/event-stream'),
    ])
    const start_time = new Date().toISOString()
    const run = { id: unusedId(), name: 'github', run_type: 'chain', start_time, inputs: { source: 'github' } }
    expect((await call(tenant, '/runs', { method: 'POST', body: run })).status).toBe(202)
    const read = await call(tenant, `/runs/${run.id}`)
    expect(read.body.inputs).toEqual({ source: 'github' })
  })

  it.each([
    [
      'GET',
      '/v2/deployments?agent_id=a&agent_environment=staging',
      undefined,
      ['query.agent_id', 'query.agent_environment'],
    ],
    ['POST', '/v2/deployments', { ...theirImageBody(), agent: { agent_id: 'a' } }, ['body.agent']],
  ])('refuse by name what would act on another deployment: %s %s', async (method, path, body, places) => {
    const tenant = await newTenant()
    const refused = await call(tenant, path, { method, body })
    expect(refused.status).toBe(422)
    expect(refused.body.errors.map(({ loc }: { loc: string[] }) => loc.join('.'))).toEqual(places)
    expect(refused.headers.get('X-Request-Id')).toBeTruthy()
  })
})

describe('the words of a request', () => {
  const types = { body: { ...theirImageBody(), name: 'shop' }, method: 'POST' }

  it('are ours, unless it or the setting says otherwise', async () => {
    const tenant = await newTenant()
    const app = () => installation
    const installation = startApp({ settings: { CONTRACT_WORDS: 'langgraph' } })
    expect((await call(tenant, '/v2/deployments', { ...types, headers: {} })).status).toBe(422)
    const agent = { 'User-Agent': 'langgraph-cli/0.4.40' }
    expect((await call(tenant, '/v2/deployments', { ...types, headers: agent })).status).toBe(422)
    const created = await call(tenant, '/v2/deployments', { ...types, headers: {}, app })
    expect([created.status, created.body.source]).toEqual([201, 'internal_docker'])
    const own = await call(tenant, `/v2/deployments/${created.body.id}`, {
      app,
      headers: { 'X-Contract-Words': 'contract' },
    })
    expect(own.body.source).toBe('internal_container')
  })

  it.each(['github', '', 'LANGGRAPH', 'constructor', '__proto__'])(
    'are refused by name if unknown: %j',
    async words => {
      const refused = await call(await newTenant(), '/v2/me', { headers: { 'X-Contract-Words': words } })
      expect([refused.status, refused.body.errors[0].loc]).toEqual([422, ['header', 'X-Contract-Words']])
      expect(refused.headers.get('X-Request-Id')).toBeTruthy()
    },
  )

  it('are ours in tools of assistants and in the client, also where the installation speaks others', async () => {
    const installation = startApp({ settings: { CONTRACT_WORDS: 'langgraph' } })
    const tenant = await newTenant({ app: installation })
    const { createClient } = await import('../../../src/client/client.ts')
    const client = createClient({
      url: 'http://slipway.test',
      key: tenant.key,
      fetch: (input, init) => Promise.resolve(installation.fetch(new Request(input, init))),
    })
    const reply = await client.call('POST /v2/deployments', { body: makeImageBody() as never })
    expect(reply.source).toBe('internal_container')
    const answer = await installation.fetch(
      new Request('http://slipway.test/mcp', {
        method: 'POST',
        headers: {
          'X-Api-Key': tenant.key,
          'Content-Type': 'application/json',
          Accept: 'application/json, text/event-stream',
        },
        body: JSON.stringify({
          jsonrpc: '2.0',
          id: 1,
          method: 'tools/call',
          params: { name: 'find_deployments', arguments: {} },
        }),
      }),
    )
    expect(await answer.text()).toContain('internal_container')
  })
})

type Schema = {
  $ref?: string
  enum?: unknown[]
  properties?: Record<string, Schema>
  items?: Schema
  [key: string]: unknown
}
type Methods = Record<string, { responses?: Record<string, { content?: Record<string, { schema: Schema }> }> }>
type Place = { path: string[]; value: string }

/** Finds our words in values of a schema: the members that lead there, `[]` for each item. */
function findWords(schema: Schema, refs: Record<string, Schema>, path: string[] = [], seen: string[] = []): Place[] {
  const name = schema.$ref?.split('/').at(-1)
  if (name !== undefined) return seen.includes(name) ? [] : findWords(refs[name]!, refs, path, [...seen, name])
  const here = schema.enum?.includes('internal_container') ? [{ path, value: 'internal_container' }] : []
  const variants = ['anyOf', 'oneOf', 'allOf'].flatMap(kind => (schema[kind] as Schema[] | undefined) ?? [])
  const members = Object.entries(schema.properties ?? {}).flatMap(([member, value]) => [
    ...(member === 'platform_config_path' ? [{ path: [...path, member], value: 'a' }] : []),
    ...findWords(value, refs, [...path, member], seen),
  ])
  const items = schema.items ? findWords(schema.items, refs, [...path, '[]'], seen) : []
  return [...here, ...variants.flatMap(one => findWords(one, refs, path, seen)), ...members, ...items]
}
const makeSample = ([step, ...rest]: string[], value: string): unknown =>
  step === undefined ? value : step === '[]' ? [makeSample(rest, value)] : { [step]: makeSample(rest, value) }

it('the table has every place where an answer of the document names a source or the configuration', async () => {
  const { paths, components } = await (await getApp().fetch(new Request('http://slipway.test/openapi.json'))).json()
  const places: [method: string, path: string, Place][] = []
  for (const [path, item] of Object.entries<Methods>(paths))
    for (const method of ['get', 'post', 'put', 'patch', 'delete'])
      for (const [status, { content }] of Object.entries(item[method]?.responses ?? {}))
        if (status < '300' && content?.['application/json'])
          for (const place of findWords(content['application/json'].schema, components.schemas))
            places.push([method, path, place])
  // Agents speak their own protocol.
  const found = places.filter(([, path]) => !path.startsWith('/v1/sync/'))
  expect(found.length).toBeGreaterThan(20)
  for (const [method, path, place] of found) {
    const request = new Request(`http://slipway.test${path.replace(/\{\w+\}/g, 'id')}`, {
      method: method.toUpperCase(),
    })
    const translated = await translate(request, () => Response.json(makeSample(place.path, place.value)))
    expect(await translated.text(), `${method} ${path}`).toMatch(/internal_docker|langgraph_config_path/)
  }
})
