// The credentials with which an agent pulls and pushes images.
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { type App, clock, logLines, newTenant, readEvents, startApp, type Tenant, unusedId } from '../../support/app.ts'
import { makeEnvelopeOpener } from '../../support/envelope-opener.ts'
import { makeSigningRegistry } from '../../support/signing-registry.ts'
import { makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const HOST = 'registry.example.com:5000'
const MINUTE = 60_000
let app: App
let registry: Awaited<ReturnType<typeof makeSigningRegistry>>
beforeAll(async () => {
  registry = await makeSigningRegistry(`${HOST}/apps`)
  app = startApp({ settings: registry.settings })
})
afterEach(() => {
  clock.ahead = 0
})

type WorkOptions = {
  image?: (tenant: string) => string
  source?: string
  config?: object
  tenant?: Tenant
  instance?: App
}
/** A deployment with its agent, and the agent's request for a credential. */
async function createRegistryWork({
  image,
  source = 'internal_container',
  config = {},
  instance = app,
  ...options
}: WorkOptions = {}) {
  const tenant = options.tenant ?? (await newTenant({ app: instance }))
  const { listener, key, key_id } = await newListener(tenant)
  const image_uri = (image ?? (() => 'docker.io/library/nginx:1'))(tenant.tenant_id)
  const { body } = await tenant.post('/v2/deployments', {
    name: `app-${unusedId()}`,
    source,
    secrets: [],
    source_config: { listener_id: listener.id, ...config },
    source_revision_config: source === 'internal_template' ? {} : { image_uri },
  })
  const agent = makeSyncAgent(tenant, key)
  const [work] = (await agent.poll()).changes
  const { public_key, open } = makeEnvelopeOpener()
  const revisionIds = { deployment_id: body.id as string, revision_id: body.latest_revision_id as string }
  const requestCredential = async (over: object = {}, as = key, headers = {}) => {
    const request = {
      ...revisionIds,
      agent_id: agent.agent_id,
      fence: agent.fence,
      public_key,
      for: 'registry',
      ...over,
    }
    const reply = await tenant.as(as).post('/v1/sync/credentials', request, headers)
    const context = `${listener.id}/${revisionIds.deployment_id}/${revisionIds.revision_id}/registry`
    // biome-ignore lint/suspicious/noExplicitAny: the tests assert its members
    return { ...reply, opened: reply.body.credential && (open(reply.body.credential, context) as any) }
  }
  return {
    tenant,
    listener,
    key,
    key_id,
    agent,
    work: work!,
    requestCredential,
    ...revisionIds,
    path: `${tenant.tenant_id}/${body.id}`,
  }
}
/** The actions that the token service grants, of all actions on these repositories. */
async function listAccess(password: string, ...paths: string[]) {
  const scopes = paths.map(path => `repository:apps/${path}/web:pull,push,delete`)
  const { status, body } = await registry.ask(app, password, scopes)
  expect([status, body.code]).toEqual([200, undefined])
  const { access } = await registry.claimsOf(body.token)
  return access.map(({ name, actions }: { name: string; actions: string[] }) => `${name} ${actions}`)
}

describe('a registry credential', () => {
  it('can pull from the repository of its deployment for an hour, and is journaled', async () => {
    const { listener, revision_id, path, requestCredential } = await createRegistryWork()
    const { status, opened, headers } = await requestCredential()
    expect([status, opened]).toEqual([
      200,
      {
        registry: HOST,
        repository: `apps/${path}`,
        username: 'slipway',
        password: expect.stringMatching(/^slwr\./),
        expires_at: expect.any(String),
      },
    ])
    expect(Math.abs(Date.parse(opened.expires_at) - Date.now() - 60 * MINUTE)).toBeLessThan(MINUTE)
    const foreignPath = `${unusedId()}/${unusedId()}`
    expect(await listAccess(opened.password, path, foreignPath, path.replace(/.{36}$/, unusedId))).toEqual([
      `apps/${path}/web pull`,
    ])
    const events = await readEvents(headers.get('X-Request-Id')!, app)
    expect(events).toMatchObject([
      { type: 'revision.credential_revealed', subject_id: revision_id, actor_kind: 'listener', actor_id: listener.id },
    ])
    expect(JSON.parse(events[0]!.data as string)).toMatchObject({ for: 'registry' })
    expect(JSON.stringify([events, logLines])).not.toContain(opened.password)
  })

  it('costs one database round trip', async () => {
    const { key, requestCredential } = await createRegistryWork()
    const id = `trip-${unusedId()}`
    expect((await requestCredential({}, key, { 'X-Request-Id': id })).status).toBe(200)
    expect(await countTrips(id)).toBe(1)
  })

  it('can also push if the agent builds the image', async () => {
    const { path, requestCredential } = await createRegistryWork({
      source: 'internal_template',
      config: { template_id: 'web-service' },
    })
    expect(await listAccess((await requestCredential()).opened.password, path)).toEqual([`apps/${path}/web pull,push`])
  })

  it('can pull from the repository of another deployment of its workspace if the revision has its image', async () => {
    const tenant = await newTenant({ app })
    const other = `${tenant.tenant_id}/${unusedId()}`
    const { path, requestCredential } = await createRegistryWork({
      tenant,
      image: () => `${HOST}/apps/${other}/web:1.0`,
    })
    const { opened } = await requestCredential()
    expect(opened.repository).toBe(`apps/${other}`)
    expect(await listAccess(opened.password, path, other)).toEqual([`apps/${other}/web pull`])
  })

  it.each([
    ['an image of another workspace', () => `${HOST}/apps/${unusedId()}/${unusedId()}/web:1`],
    ['an image at a path of no deployment', (tenant: string) => `${HOST}/apps/${tenant}/library/web:1`],
    ['an image of another registry', (tenant: string) => `registry.example.org/apps/${tenant}/${unusedId()}/web:1`],
  ])('is for the repository of its deployment if the revision has %s', async (_, image) => {
    const { path, requestCredential } = await createRegistryWork({ image })
    expect((await requestCredential()).opened.repository).toBe(`apps/${path}`)
  })

  it('is not for the image that the agent reports', async () => {
    const tenant = await newTenant({ app })
    const work = await createRegistryWork({ tenant, image: id => `${HOST}/apps/${id}/${unusedId()}/web:1` })
    const { repository } = (await work.requestCredential()).opened
    const pinned = `${HOST}/${repository}/web@sha256:${'0'.repeat(64)}`
    const otherImage = `${HOST}/apps/${tenant.tenant_id}/${unusedId()}/web:1`
    await work.agent.report(work.work, { state: 'deploying', image_uri: otherImage })
    expect((await work.requestCredential()).opened.repository).toBe(repository)
    const readImage = async () =>
      (await tenant.get(`/v2/deployments/${work.deployment_id}/revisions/${work.revision_id}`)).body
        .source_revision_config.image_uri
    expect(await readImage()).not.toBe(otherImage)
    await work.agent.report(work.work, { state: 'deployed', image_uri: pinned })
    expect(await readImage()).toBe(pinned)
  })

  it('is null without a registry, and nothing is journaled', async () => {
    const instance = startApp({ overrides: { registry: undefined } })
    const { requestCredential } = await createRegistryWork({ instance })
    const { status, body, headers } = await requestCredential()
    expect([status, body]).toEqual([200, { credential: null }])
    expect(await readEvents(headers.get('X-Request-Id')!, instance)).toEqual([])
  })

  it('is refused to a caller that does not serve the deployment or does not have the lease', async () => {
    const { tenant, deployment_id, requestCredential } = await createRegistryWork()
    const codeOf = async (over = {}, as?: string) => (await requestCredential(over, as)).body.code
    expect(await codeOf({ revision_id: unusedId() })).toBe('revision_not_found')
    expect(await codeOf({ deployment_id: unusedId() })).toBe('revision_not_found')
    expect(await codeOf({ fence: 4711 })).toBe('fence_stale')
    expect(await codeOf({ for: 'everything' })).toBe('invalid_request')
    expect(await codeOf({}, tenant.key)).toBe('listener_not_found')
    const { key } = await newListener(tenant)
    const agent = makeSyncAgent(tenant, key)
    await agent.poll()
    expect(await codeOf({ agent_id: agent.agent_id, fence: agent.fence }, key)).toBe('revision_not_found')
    await tenant.delete(`/v2/deployments/${deployment_id}`)
    expect(await codeOf()).toBe('revision_not_found')
  })
})

describe('a registry credential at the token service', () => {
  const codeOf = async (password: string) => (await registry.ask(app, password, [])).body.code

  it('costs one database round trip, and none if its signature is invalid', async () => {
    const { opened } = await (await createRegistryWork()).requestCredential()
    const [validId, invalidId] = [`trip-${unusedId()}`, `trip-${unusedId()}`]
    await registry.ask(app, opened.password, [], validId)
    const refused = await registry.ask(app, `${opened.password.slice(0, -4)}AAAA`, [], invalidId)
    expect([refused.status, refused.body.code]).toEqual([401, 'push_token_invalid'])
    expect([await countTrips(validId), await countTrips(invalidId)]).toEqual([1, 0])
  })

  it('is refused after an hour', async () => {
    const { opened } = await (await createRegistryWork()).requestCredential()
    clock.ahead = 59 * MINUTE
    expect(await codeOf(opened.password)).toBeUndefined()
    clock.ahead = 61 * MINUTE
    expect(await codeOf(opened.password)).toBe('registry_credential_ended')
  })

  it('is refused when the key that requested it is revoked, even if the listener has another key', async () => {
    const { tenant, listener, key_id, requestCredential } = await createRegistryWork()
    const { opened } = await requestCredential()
    await tenant.post(`/v2/listeners/${listener.id}/keys`, {})
    expect(await codeOf(opened.password)).toBeUndefined()
    expect((await tenant.delete(`/workspaces/current/api-keys/${key_id}`)).status).toBe(204)
    expect(await codeOf(opened.password)).toBe('registry_credential_ended')
  })

  it('is refused when the deployment is deleted', async () => {
    const { tenant, deployment_id, requestCredential } = await createRegistryWork()
    const { opened } = await requestCredential()
    await tenant.delete(`/v2/deployments/${deployment_id}`)
    expect(await codeOf(opened.password)).toBe('registry_credential_ended')
  })
})
