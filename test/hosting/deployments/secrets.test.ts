import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, logLines, newTenant, readEvents, send, startApp, type Tenant, unusedId } from '../../support/app.ts'

const MASK = '********'
type Secrets = Record<string, string>
const toSecretList = (secrets: Secrets) => Object.entries(secrets).map(([name, value]) => ({ name, value }))
const createWithSecrets = async (tenant: Tenant, secrets: Secrets, headers?: Record<string, string>) =>
  tenant.post(
    '/v2/deployments',
    {
      name: `a${unusedId()}`,
      source: 'internal_container',
      source_config: {},
      source_revision_config: { image_uri: 'registry.example.com/app:1.0' },
      secrets: toSecretList(secrets),
    },
    headers,
  )
const reveal = async (tenant: Pick<Tenant, 'get'>, id: string) =>
  (await tenant.get(`/v2/deployments/${id}?reveal=true`)).body.secrets
const createKeyWith = async (tenant: Tenant, ...permissions: string[]) =>
  tenant.as((await tenant.post('/workspaces/current/api-keys', { description: 'x', permissions })).body.key)

/** The tables with a column that contains the text. */
async function findTablesWith(text: string): Promise<string[]> {
  const { database } = getApp()
  const [names] = await runAsSystem(
    database,
    sql`select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
      and has_table_privilege('slipway_system', oid, 'select')`,
  )
  const matches = (names as string[][]).map(async ([name]) => {
    const count = sql`select count(*) from ${sql.identifier(name!)} t where strpos(t::text, ${text}) > 0`
    const [[[rowCount]]] = (await runAsSystem(database, count)) as [[[string]]]
    return Number(rowCount) > 0 ? [name!] : []
  })
  return (await Promise.all(matches)).flat()
}

/** The stored versions, by name. */
async function readVersions(id: string) {
  const [rows] = await runAsSystem(
    getApp().database,
    sql`select name, version, sealed from deployment_secrets where deployment_id = ${id}::uuid order by name, version`,
  )
  return (rows as [string, number, string][]).map(([name, version]) => `${name} ${version}`)
}

describe('secrets', () => {
  it('are masked in every response except with reveal=true, which is journaled', async () => {
    const tenant = await newTenant()
    const secrets = toSecretList({ TOKEN: 'hush-ü-𝄞', EMPTY: '', LONG: 'x'.repeat(20_000) })
    const { body } = await createWithSecrets(
      tenant,
      Object.fromEntries(secrets.map(({ name, value }) => [name, value])),
    )
    const path = `/v2/deployments/${body.id}`
    const masked = secrets.map(({ name }) => ({ name, value: MASK }))
    expect(body.secrets).toEqual(masked)
    expect((await tenant.get(path)).body).toEqual(body)
    expect((await tenant.get(`${path}?reveal=false`)).body).toEqual(body)
    expect((await tenant.get('/v2/deployments?reveal=true')).body.resources).toEqual([body])

    const revealed = await tenant.get(`${path}?reveal=true`)
    expect(revealed.body).toEqual({ ...body, secrets })
    expect(revealed.headers.get('Cache-Control')).toBe('no-store')
    const events = await readEvents(revealed.headers.get('X-Request-Id')!)
    expect(events).toMatchObject([
      { type: 'deployment.secrets_revealed', subject_id: body.id, tenant_id: tenant.tenant_id },
    ])
    const maskedReply = await tenant.get(path)
    expect(await readEvents(maskedReply.headers.get('X-Request-Id')!)).toEqual([])
    // The ETag belongs to the masked representation, so a reveal is never answered with 304.
    const conditional = await tenant.get(`${path}?reveal=true`, { 'If-None-Match': maskedReply.headers.get('ETag')! })
    expect([conditional.status, conditional.headers.has('ETag')]).toEqual([200, false])
  })

  it('are revealed by their names alone, and the event has those', async () => {
    const tenant = await newTenant()
    const { body } = await createWithSecrets(tenant, { TOKEN: 'hush', OTHER: 'two' })
    const path = `/v2/deployments/${body.id}?reveal=true&reveal_only=TOKEN`
    const revealed = await tenant.get(path)
    expect(revealed.body).toEqual({ ...body, secrets: toSecretList({ TOKEN: 'hush', OTHER: MASK }) })
    const events = await readEvents(revealed.headers.get('X-Request-Id')!)
    expect(events).toMatchObject([{ type: 'deployment.secrets_revealed', data: '{"names":["TOKEN"]}' }])
    for (const query of ['reveal_only=TOKEN', 'reveal=true&reveal_only=a-b'])
      expect((await tenant.get(`/v2/deployments/${body.id}?${query}`)).status).toBe(422)
  })

  it.each([
    ['can only read deployments', ['deployments:read'], 'permission_missing'],
    ['can only read secrets', ['secrets:read'], 'permission_missing'],
    [
      'can do everything with deployments but read secrets',
      ['deployments:read', 'deployments:update', 'deployments:create'],
      'permission_missing',
    ],
  ])('are not revealed to a key that %s, and no event is written', async (_, permissions, code) => {
    const tenant = await newTenant()
    const { body } = await createWithSecrets(tenant, { TOKEN: 'hush' })
    const reply = await (await createKeyWith(tenant, ...permissions)).get(`/v2/deployments/${body.id}?reveal=true`)
    expect([reply.status, reply.body.code]).toEqual([403, code])
    expect(reply.text).not.toContain('hush')
    expect(await readEvents(reply.headers.get('X-Request-Id')!)).toEqual([])
  })

  it('are revealed to a key with both permissions, but not in another workspace', async () => {
    const [tenant, foreign] = [await newTenant(), await newTenant()]
    const { body } = await createWithSecrets(tenant, { TOKEN: 'hush' })
    const reader = await createKeyWith(tenant, 'deployments:read', 'secrets:read')
    expect(await reveal(reader, body.id)).toEqual(toSecretList({ TOKEN: 'hush' }))
    const reply = await foreign.get(`/v2/deployments/${body.id}?reveal=true`)
    expect([reply.status, reply.body.code]).toEqual([404, 'deployment_not_found'])
  })

  it('keep their value if the mask is sent, and get a new version if another value is sent', async () => {
    const tenant = await newTenant()
    const { body } = await createWithSecrets(tenant, { TOKEN: 'one', OTHER: 'two', THIRD: 'three' })
    const path = `/v2/deployments/${body.id}`
    await tenant.patch(path, { secrets: toSecretList({ TOKEN: MASK, OTHER: MASK, THIRD: MASK }) })
    await tenant.patch(path, { secrets: [] })
    expect(await reveal(tenant, body.id)).toEqual(toSecretList({ TOKEN: 'one', OTHER: 'two', THIRD: 'three' }))
    expect(await readVersions(body.id)).toEqual(['OTHER 1', 'THIRD 1', 'TOKEN 1'])

    await tenant.patch(path, { secrets: toSecretList({ OTHER: MASK, TOKEN: 'new', FOURTH: 'four' }) })
    expect(await reveal(tenant, body.id)).toEqual(toSecretList({ OTHER: 'two', TOKEN: 'new', FOURTH: 'four' }))
    expect(await readVersions(body.id)).toEqual(['FOURTH 2', 'OTHER 1', 'THIRD 1', 'TOKEN 1', 'TOKEN 2'])
  })

  it('that are sent with the value they have change nothing, and the plan says so', async () => {
    const tenant = await newTenant()
    const secrets = { TOKEN: 'one', OTHER: 'two', EMPTY: '', UNICODE: 'hush-ü-𝄞', LONG: 'x'.repeat(20_000) }
    const before = await createWithSecrets(tenant, secrets)
    const path = `/v2/deployments/${before.body.id}`
    const reversed = Object.fromEntries(Object.entries(secrets).reverse())
    for (const sent of [secrets, reversed, { ...secrets, TOKEN: MASK }]) {
      const patch = { secrets: toSecretList(sent) }
      const plan = await tenant.patch(`${path}?dry_run=true`, patch)
      expect(plan.body).toMatchObject({ creates_revision: false, reasons: [], changes: [], secrets: [] })
      const patched = await tenant.patch(path, patch)
      expect(patched.body).toEqual(before.body)
      expect(patched.headers.get('ETag')).toMatch(/^"1\./)
    }
    expect(await readVersions(before.body.id)).toEqual(
      Object.keys(secrets)
        .sort()
        .map(name => `${name} 1`),
    )
  })

  it.each<[string, Secrets, object[]]>([
    ['one value is another', { A: 'one', B: 'new' }, [{ name: 'B', change: 'changed' }]],
    [
      'two values are swapped',
      { A: 'two', B: 'one' },
      [
        { name: 'A', change: 'changed' },
        { name: 'B', change: 'changed' },
      ],
    ],
    ['one is added', { A: 'one', B: 'two', C: 'one' }, [{ name: 'C', change: 'added' }]],
    ['one is removed', { A: 'one' }, [{ name: 'B', change: 'removed' }]],
    [
      'one is renamed',
      { A: MASK, C: 'two' },
      [
        { name: 'C', change: 'added' },
        { name: 'B', change: 'removed' },
      ],
    ],
  ])('get a new version only where they change, if %s', async (_, sent, changes) => {
    const tenant = await newTenant()
    const { id } = (await createWithSecrets(tenant, { A: 'one', B: 'two' })).body
    const path = `/v2/deployments/${id}`
    const patch = { secrets: toSecretList(sent) }
    const { body: plan } = await tenant.patch(`${path}?dry_run=true`, patch)
    expect(plan).toMatchObject({ reasons: ['secrets'], secrets: changes })
    expect(plan.changes).toEqual([
      { path: 'secrets', before: ['A', 'B'], after: Object.keys(sent), effect: 'revision' },
    ])
    expect((await tenant.patch(path, patch, { 'Plan-Digest': plan.plan_digest })).status).toBe(200)
    const [revision] = (await tenant.get(`${path}/revisions`)).body.resources
    const isChanged = (name: string) => changes.some(one => (one as { name: string }).name === name)
    expect(revision.secrets).toEqual(Object.keys(sent).map(name => ({ name, version: isChanged(name) ? 2 : 1 })))
    const expected = Object.entries(sent).map(([name, value]) => [name, value === MASK ? 'one' : value])
    expect(await reveal(tenant, id)).toEqual(toSecretList(Object.fromEntries(expected)))
  })

  it('are all removed by clear=secrets, as planned and journaled, and come back with a rollback', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id: revision_id } = (await createWithSecrets(tenant, { A: 'one', B: 'two' })).body
    const path = `/v2/deployments/${id}`
    const both = await tenant.patch(`${path}?clear=secrets`, { secrets: toSecretList({ A: MASK }) })
    expect([both.status, both.body.code]).toEqual([400, 'source_rule'])
    expect(both.body.errors).toMatchObject([{ loc: ['body', 'secrets'] }])
    const { body: plan } = await tenant.patch(`${path}?clear=secrets&dry_run=true`, { secrets: [] })
    expect(plan).toMatchObject({
      reasons: ['secrets'],
      secrets: ['A', 'B'].map(name => ({ name, change: 'removed' })),
      changes: [{ path: 'secrets', before: ['A', 'B'], after: [], effect: 'revision' }],
    })
    const digest = { 'Plan-Digest': plan.plan_digest }
    expect((await tenant.patch(path, { secrets: [] }, digest)).body.code).toBe('plan_stale')
    const cleared = await tenant.patch(`${path}?clear=secrets`, { secrets: [] }, digest)
    expect(cleared.body.secrets).toEqual([])
    const [event] = await readEvents(cleared.headers.get('X-Request-Id')!)
    expect(JSON.parse(event!.changes as string)).toEqual(
      ['A', 'B'].map(name => ({ path: `secrets.${name}`, before: 1, after: null })),
    )
    const again = await tenant.patch(`${path}?clear=secrets`, {})
    expect(again.body.latest_revision_id, 'no secrets, no revision').toBe(cleared.body.latest_revision_id)
    expect((await tenant.post(`${path}/rollback`, { revision_id })).status).toBe(200)
    expect(await reveal(tenant, id)).toEqual(toSecretList({ A: 'one', B: 'two' }))
  })

  it('keep their version in a revision that has another reason, and after a rollback', async () => {
    const tenant = await newTenant()
    const { id, latest_revision_id } = (await createWithSecrets(tenant, { TOKEN: 'one' })).body
    const path = `/v2/deployments/${id}`
    const patch = async (value: string, more = {}) => {
      await tenant.patch(path, { secrets: toSecretList({ TOKEN: value }), ...more })
      const [{ number, reasons, secrets }] = (await tenant.get(`${path}/revisions`)).body.resources
      return [number, reasons, secrets[0].version]
    }
    const config = { source_config: { resource_spec: { cpu: 2 } } }
    expect(await patch('one', config)).toEqual([2, ['source_config.resource_spec.cpu'], 1])
    expect(await patch('two')).toEqual([3, ['secrets'], 3])
    await tenant.post(`${path}/rollback`, { revision_id: latest_revision_id })
    expect(await patch('one')).toEqual([4, ['rolled_back'], 1])
    expect(await patch('two')).toEqual([5, ['secrets'], 5])
    expect(await patch('one')).toEqual([6, ['secrets'], 6])
    expect(await reveal(tenant, id)).toEqual(toSecretList({ TOKEN: 'one' }))
  })

  it('are recognized after a rotation of the sealing keys; without their key or fingerprint they are new', async () => {
    const [oldKey, newKey] = [1, 2].map(byte => `key${byte}:${Buffer.alloc(32, byte).toString('base64url')}`)
    const apps = [oldKey!, `${newKey},${oldKey}`, newKey!].map(SEALING_KEYS => startApp({ settings: { SEALING_KEYS } }))
    const [before, rotating, after] = apps as [(typeof apps)[0], (typeof apps)[0], (typeof apps)[0]]
    const tenant = await newTenant({ app: before })
    const { id } = (await createWithSecrets(tenant, { TOKEN: 'one' })).body
    const path = `/v2/deployments/${id}`
    const sendAgain = async (app = before) => {
      const headers = { 'X-Api-Key': tenant.key }
      await send('PATCH', path, { app, headers, body: { secrets: toSecretList({ TOKEN: 'one' }) } })
      return (await readVersions(id)).at(-1)
    }
    expect(await sendAgain()).toBe('TOKEN 1')
    expect(await sendAgain(rotating)).toBe('TOKEN 1')
    expect(await sendAgain(after)).toBe('TOKEN 2')
    expect(await sendAgain(rotating)).toBe('TOKEN 2')
    await runAsSystem(
      getApp().database,
      sql`update deployment_secrets set fingerprint = null where deployment_id = ${id}::uuid`,
    )
    expect(await sendAgain(rotating)).toBe('TOKEN 3')
    expect(await sendAgain(rotating)).toBe('TOKEN 3')
  })

  it('do not show by their fingerprints that two names or two deployments have the same value', async () => {
    const tenant = await newTenant()
    const value = `same-${unusedId()}`
    const ids = [
      (await createWithSecrets(tenant, { A: value, B: value })).body.id,
      (await createWithSecrets(tenant, { A: value })).body.id,
    ]
    const [rows] = await runAsSystem(
      getApp().database,
      sql`select fingerprint from deployment_secrets where deployment_id::text in ${ids}`,
    )
    const fingerprints = (rows as string[][]).map(([fingerprint]) => fingerprint!)
    expect(new Set(fingerprints).size).toBe(3)
    const answers = [await tenant.get('/v2/deployments'), await tenant.get(`/v2/deployments/${ids[0]}?reveal=true`)]
    for (const fingerprint of fingerprints) {
      expect(await findTablesWith(fingerprint)).toEqual(['deployment_secrets'])
      for (const text of [...answers.map(answer => answer.text), JSON.stringify(logLines)])
        expect(text).not.toContain(fingerprint)
    }
  })

  it('keep their values if a client reads a deployment, changes one member and sends everything back', async () => {
    const tenant = await newTenant()
    const { body } = await createWithSecrets(tenant, { TOKEN: 'one', OTHER: 'two' })
    const path = `/v2/deployments/${body.id}`
    for (const build_command of ['make', 'make all']) {
      const deployment = (await tenant.get(path)).body
      const request = { ...deployment, source_config: { ...deployment.source_config, build_command } }
      const patched = await tenant.patch(path, request)
      expect(patched.status).toBe(200)
      expect(patched.body.source_config.build_command).toBe(build_command)
    }
    expect(await reveal(tenant, body.id)).toEqual(toSecretList({ TOKEN: 'one', OTHER: 'two' }))
    expect(await readVersions(body.id)).toEqual(['OTHER 1', 'TOKEN 1'])
  })

  it('are in plain text neither in the database nor in the log', async () => {
    const tenant = await newTenant()
    const [first, second] = [`plain-${unusedId()}`, `plain-${unusedId()}`]
    const { body } = await createWithSecrets(tenant, { TOKEN: first }, { 'Idempotency-Key': 'make' })
    const path = `/v2/deployments/${body.id}`
    const patch = { secrets: toSecretList({ TOKEN: second }) }
    await tenant.patch(`${path}?dry_run=true`, patch)
    await tenant.patch(path, patch, { 'Idempotency-Key': 'patch' })
    const replayed = await tenant.patch(path, patch, { 'Idempotency-Key': 'patch' })
    expect(replayed.headers.get('Idempotency-Replayed')).toBe('true')
    expect(await reveal(tenant, body.id)).toEqual(toSecretList({ TOKEN: second }))
    for (const plain of [first, second]) {
      expect(await findTablesWith(plain)).toEqual([])
      expect(await findTablesWith(Buffer.from(plain).toString('base64').slice(0, 40))).toEqual([])
      expect(JSON.stringify(logLines)).not.toContain(plain)
    }
    // Proves that the search finds a text that is stored.
    expect(await findTablesWith(body.id)).toEqual(expect.arrayContaining(['deployments', 'events', 'revisions']))
  })
})
