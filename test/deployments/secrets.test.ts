// Secrets: sealed when written, masked when read, shown to whom may see them, and never anywhere else.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db.ts'
import { getApp, logLines, newTenant, readEvents, type Tenant, unusedId } from '../support/app.ts'

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
const keyWith = async (tenant: Tenant, ...permissions: string[]) =>
  tenant.as((await tenant.post('/workspaces/current/api-keys', { description: 'x', permissions })).body.key)

/** Every table in which a text stands, in any column. */
async function tablesThatHold(text: string): Promise<string[]> {
  const { database } = getApp()
  const [names] = await runAsSystem(
    database,
    sql`select relname from pg_class where relkind = 'r' and relnamespace = 'public'::regnamespace
      and has_table_privilege('slipway_system', oid, 'select')`,
  )
  const holding = (names as string[][]).map(async ([name]) => {
    const count = sql`select count(*) from ${sql.identifier(name!)} t where strpos(t::text, ${text}) > 0`
    const [[[found]]] = (await runAsSystem(database, count)) as [[[string]]]
    return Number(found) > 0 ? [name!] : []
  })
  return (await Promise.all(holding)).flat()
}

/** Versions that are sealed, by name. */
async function versionsOf(id: string) {
  const [rows] = await runAsSystem(
    getApp().database,
    sql`select name, version, sealed from deployment_secrets where deployment_id = ${id}::uuid order by name, version`,
  )
  return (rows as [string, number, string][]).map(([name, version]) => `${name} ${version}`)
}

describe('secrets', () => {
  it('are masked in every answer except a revealing one, which is journaled', async () => {
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

    const shown = await tenant.get(`${path}?reveal=true`)
    expect(shown.body).toEqual({ ...body, secrets })
    expect(shown.headers.get('Cache-Control')).toBe('no-store')
    const events = await readEvents(shown.headers.get('X-Request-Id')!)
    expect(events).toMatchObject([
      { type: 'deployment.secrets_revealed', subject_id: body.id, tenant_id: tenant.tenant_id },
    ])
    const masking = await tenant.get(path)
    expect(await readEvents(masking.headers.get('X-Request-Id')!)).toEqual([])
    // Known or not, it is shown and told: what the ETag names is masked.
    const again = await tenant.get(`${path}?reveal=true`, { 'If-None-Match': masking.headers.get('ETag')! })
    expect([again.status, again.headers.has('ETag')]).toEqual([200, false])
  })

  it.each([
    ['reads deployments', ['deployments:read'], 'permission_missing'],
    ['reads secrets only', ['secrets:read'], 'permission_missing'],
    ['may do all but that', ['deployments:read', 'deployments:update', 'deployments:create'], 'permission_missing'],
  ])('stay hidden from a key that %s, and no event is written', async (_, permissions, code) => {
    const tenant = await newTenant()
    const { body } = await createWithSecrets(tenant, { TOKEN: 'hush' })
    const reply = await (await keyWith(tenant, ...permissions)).get(`/v2/deployments/${body.id}?reveal=true`)
    expect([reply.status, reply.body.code]).toEqual([403, code])
    expect(reply.text).not.toContain('hush')
    expect(await readEvents(reply.headers.get('X-Request-Id')!)).toEqual([])
  })

  it('are revealed only to a key with both permissions, in its own workspace', async () => {
    const [tenant, stranger] = [await newTenant(), await newTenant()]
    const { body } = await createWithSecrets(tenant, { TOKEN: 'hush' })
    const reader = await keyWith(tenant, 'deployments:read', 'secrets:read')
    expect(await reveal(reader, body.id)).toEqual(toSecretList({ TOKEN: 'hush' }))
    const reply = await stranger.get(`/v2/deployments/${body.id}?reveal=true`)
    expect([reply.status, reply.body.code]).toEqual([404, 'deployment_not_found'])
  })

  it('keep their value when the mask is sent, and get a new version when replaced', async () => {
    const tenant = await newTenant()
    const { body } = await createWithSecrets(tenant, { TOKEN: 'one', OTHER: 'two', THIRD: 'three' })
    const path = `/v2/deployments/${body.id}`
    await tenant.patch(path, { secrets: toSecretList({ TOKEN: MASK, OTHER: MASK, THIRD: MASK }) })
    await tenant.patch(path, { secrets: [] })
    expect(await reveal(tenant, body.id)).toEqual(toSecretList({ TOKEN: 'one', OTHER: 'two', THIRD: 'three' }))
    expect(await versionsOf(body.id)).toEqual(['OTHER 1', 'THIRD 1', 'TOKEN 1'])

    await tenant.patch(path, { secrets: toSecretList({ OTHER: MASK, TOKEN: 'new', FOURTH: 'four' }) })
    expect(await reveal(tenant, body.id)).toEqual(toSecretList({ OTHER: 'two', TOKEN: 'new', FOURTH: 'four' }))
    expect(await versionsOf(body.id)).toEqual(['FOURTH 2', 'OTHER 1', 'THIRD 1', 'TOKEN 1', 'TOKEN 2'])
  })

  it('survive a client that reads a deployment, changes one member and sends everything back', async () => {
    const tenant = await newTenant()
    const { body } = await createWithSecrets(tenant, { TOKEN: 'one', OTHER: 'two' })
    const path = `/v2/deployments/${body.id}`
    for (const build_command of ['make', 'make all']) {
      const whole = (await tenant.get(path)).body
      const sent = { ...whole, source_config: { ...whole.source_config, build_command } }
      const patched = await tenant.patch(path, sent)
      expect(patched.status).toBe(200)
      expect(patched.body.source_config.build_command).toBe(build_command)
    }
    expect(await reveal(tenant, body.id)).toEqual(toSecretList({ TOKEN: 'one', OTHER: 'two' }))
    expect(await versionsOf(body.id)).toEqual(['OTHER 1', 'TOKEN 1'])
  })

  it('are only sealed in the database, and never in a log line', async () => {
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
      expect(await tablesThatHold(plain)).toEqual([])
      expect(await tablesThatHold(Buffer.from(plain).toString('base64').slice(0, 40))).toEqual([])
      expect(JSON.stringify(logLines)).not.toContain(plain)
    }
    // The search does find what is there.
    expect(await tablesThatHold(body.id)).toEqual(expect.arrayContaining(['deployments', 'events', 'revisions']))
  })
})
