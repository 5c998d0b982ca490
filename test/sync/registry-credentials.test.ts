// What an agent pulls and pushes images with: the registry's own token service takes it, for as much as it says.
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { type App, clock, logLines, newTenant, readEvents, startApp, type Tenant, unusedId } from '../support/app.ts'
import { makeEnvelopeOpener } from '../support/envelope-opener.ts'
import { makeSigningRegistry } from '../support/signing-registry.ts'
import { makeSyncAgent, newListener } from '../support/sync-agent.ts'

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

type WorkOptions = { image?: (tenant: string) => string; source?: string; config?: object; tenant?: Tenant; on?: App }
/** A deployment that a listener's agent serves, and how it asks. */
async function createRegistryWork({
  image,
  source = 'internal_container',
  config = {},
  on = app,
  ...given
}: WorkOptions = {}) {
  const tenant = given.tenant ?? (await newTenant({ app: on }))
  const { listener, key, key_id } = await newListener(tenant)
  const image_uri = (image ?? (() => 'docker.io/library/nginx:1'))(tenant.tenant_id)
  const { body } = await tenant.post('/v2/deployments', {
    ...{ name: `app-${unusedId()}`, source, secrets: [], source_config: { listener_id: listener.id, ...config } },
    source_revision_config: source === 'internal_template' ? {} : { image_uri },
  })
  const agent = makeSyncAgent(tenant, key)
  const [work] = (await agent.poll()).changes
  const { public_key, open } = makeEnvelopeOpener()
  const of = { deployment_id: body.id as string, revision_id: body.latest_revision_id as string }
  const ask = async (over: object = {}, as = key, headers = {}) => {
    const wish = { ...of, agent_id: agent.agent_id, fence: agent.fence, public_key, for: 'registry', ...over }
    const reply = await tenant.as(as).post('/v1/sync/credentials', wish, headers)
    const place = `${listener.id}/${of.deployment_id}/${of.revision_id}/registry`
    // biome-ignore lint/suspicious/noExplicitAny: as the test expects it
    return { ...reply, opened: reply.body.credential && (open(reply.body.credential, place) as any) }
  }
  return { tenant, listener, key, key_id, agent, work: work!, ask, ...of, path: `${tenant.tenant_id}/${body.id}` }
}
/** What the registry would let its bearer do, of all that it may ask for. */
async function accessOf(password: string, ...paths: string[]) {
  const scopes = paths.map(path => `repository:apps/${path}/web:pull,push,delete`)
  const { status, body } = await registry.ask(app, password, scopes)
  expect([status, body.code]).toEqual([200, undefined])
  const { access } = await registry.claimsOf(body.token)
  return access.map(({ name, actions }: { name: string; actions: string[] }) => `${name} ${actions}`)
}

describe('a registry credential', () => {
  it('pulls from the deployment’s own repository for an hour, and is journaled', async () => {
    const { listener, revision_id, path, ask } = await createRegistryWork()
    const { status, opened, headers } = await ask()
    expect([status, opened]).toEqual([
      200,
      {
        ...{ registry: HOST, repository: `apps/${path}`, username: 'slipway' },
        ...{ password: expect.stringMatching(/^slwr\./), expires_at: expect.any(String) },
      },
    ])
    expect(Math.abs(Date.parse(opened.expires_at) - Date.now() - 60 * MINUTE)).toBeLessThan(MINUTE)
    const theirs = `${unusedId()}/${unusedId()}`
    expect(await accessOf(opened.password, path, theirs, path.replace(/.{36}$/, unusedId))).toEqual([
      `apps/${path}/web pull`,
    ])
    const events = await readEvents(headers.get('X-Request-Id')!, app)
    expect(events).toMatchObject([
      { type: 'revision.credential_revealed', subject_id: revision_id, actor_kind: 'listener', actor_id: listener.id },
    ])
    expect(JSON.parse(events[0]!.data as string)).toMatchObject({ for: 'registry' })
    expect(JSON.stringify([events, logLines])).not.toContain(opened.password)
  })

  it('costs one trip', async () => {
    const { key, ask } = await createRegistryWork()
    const id = `trip-${unusedId()}`
    expect((await ask({}, key, { 'X-Request-Id': id })).status).toBe(200)
    expect(await countTrips(id)).toBe(1)
  })

  it('of what the agent builds pushes there too', async () => {
    const { path, ask } = await createRegistryWork({
      source: 'internal_template',
      config: { template_id: 'web-service' },
    })
    expect(await accessOf((await ask()).opened.password, path)).toEqual([`apps/${path}/web pull,push`])
  })

  it('pulls the image of another deployment of its workspace, where it was told to run that one', async () => {
    const tenant = await newTenant({ app })
    const other = `${tenant.tenant_id}/${unusedId()}`
    const { path, ask } = await createRegistryWork({ tenant, image: () => `${HOST}/apps/${other}/web:1.0` })
    const { opened } = await ask()
    expect(opened.repository).toBe(`apps/${other}`)
    expect(await accessOf(opened.password, path, other)).toEqual([`apps/${other}/web pull`])
  })

  it.each([
    ['another workspace', () => `${HOST}/apps/${unusedId()}/${unusedId()}/web:1`],
    ['a path that is no deployment’s', (tenant: string) => `${HOST}/apps/${tenant}/library/web:1`],
    ['another registry', (tenant: string) => `registry.example.org/apps/${tenant}/${unusedId()}/web:1`],
  ])('is for its own repository where it was told to run the image of %s', async (_, image) => {
    const { path, ask } = await createRegistryWork({ image })
    expect((await ask()).opened.repository).toBe(`apps/${path}`)
  })

  it('is not for what an agent says that it runs', async () => {
    const tenant = await newTenant({ app })
    const own = await createRegistryWork({ tenant, image: id => `${HOST}/apps/${id}/${unusedId()}/web:1` })
    const { repository } = (await own.ask()).opened
    const pinned = `${HOST}/${repository}/web@sha256:${'0'.repeat(64)}`
    const said = [`${HOST}/apps/${tenant.tenant_id}/${unusedId()}/web:1`, pinned]
    const [first] = said
    await own.agent.report(own.work, { state: 'deploying', image_uri: first! })
    expect((await own.ask()).opened.repository).toBe(repository)
    const imageOf = async () =>
      (await tenant.get(`/v2/deployments/${own.deployment_id}/revisions/${own.revision_id}`)).body
        .source_revision_config.image_uri
    expect(await imageOf()).not.toBe(first)
    await own.agent.report(own.work, { state: 'deployed', image_uri: pinned })
    expect(await imageOf()).toBe(pinned)
  })

  it('is none where there is no registry, and nothing is journaled', async () => {
    const on = startApp({ overrides: { registry: undefined } })
    const { ask } = await createRegistryWork({ on })
    const { status, body, headers } = await ask()
    expect([status, body]).toEqual([200, { credential: null }])
    expect(await readEvents(headers.get('X-Request-Id')!, on)).toEqual([])
  })

  it('is refused to whoever does not serve the deployment, or no longer has the lease', async () => {
    const { tenant, deployment_id, ask } = await createRegistryWork()
    const codeOf = async (over = {}, as?: string) => (await ask(over, as)).body.code
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

describe('at the registry’s token service', () => {
  const codeOf = async (password: string) => (await registry.ask(app, password, [])).body.code

  it('it costs one trip, and nothing where it is not signed', async () => {
    const { opened } = await (await createRegistryWork()).ask()
    const [good, bad] = [`trip-${unusedId()}`, `trip-${unusedId()}`]
    await registry.ask(app, opened.password, [], good)
    const wrong = await registry.ask(app, `${opened.password.slice(0, -4)}AAAA`, [], bad)
    expect([wrong.status, wrong.body.code]).toEqual([401, 'push_token_invalid'])
    expect([await countTrips(good), await countTrips(bad)]).toEqual([1, 0])
  })

  it('is of no use after its hour', async () => {
    const { opened } = await (await createRegistryWork()).ask()
    clock.ahead = 59 * MINUTE
    expect(await codeOf(opened.password)).toBeUndefined()
    clock.ahead = 61 * MINUTE
    expect(await codeOf(opened.password)).toBe('registry_credential_ended')
  })

  it('is of no use once the key that asked for it was revoked, though the listener has another', async () => {
    const { tenant, listener, key_id, ask } = await createRegistryWork()
    const { opened } = await ask()
    await tenant.post(`/v2/listeners/${listener.id}/keys`, {})
    expect(await codeOf(opened.password)).toBeUndefined()
    expect((await tenant.delete(`/workspaces/current/api-keys/${key_id}`)).status).toBe(204)
    expect(await codeOf(opened.password)).toBe('registry_credential_ended')
  })

  it('is of no use once the deployment ends', async () => {
    const { tenant, deployment_id, ask } = await createRegistryWork()
    const { opened } = await ask()
    await tenant.delete(`/v2/deployments/${deployment_id}`)
    expect(await codeOf(opened.password)).toBe('registry_credential_ended')
  })
})
