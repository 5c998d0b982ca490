// Secrets of a workspace as published clients store them, and the model configurations that they stand for.

import { sql } from 'drizzle-orm'
import { expect, it } from 'vitest'
import { createSealer } from '../../../src/kernel/crypto/crypto.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, newTenant, unusedId } from '../../support/app.ts'

const SECRETS = '/workspaces/current/secrets'

async function readSealed(id: string): Promise<string> {
  const row = sql`select secret from model_configurations where id = ${id}::uuid`
  const [[[sealed]]] = (await runAsSystem(getApp().database, row)) as [[[string]]]
  return createSealer(getApp().config.sealingKeys).open(sealed, id, 'model_secret')
}

it('a key makes the configuration of its provider, and a later one changes its secret', async () => {
  const tenant = await newTenant()
  expect((await tenant.get(SECRETS)).body).toEqual([])
  const stored = await tenant.post(SECRETS, [{ key: 'OPENAI_API_KEY', value: 'sk-first' }])
  expect([stored.status, stored.body]).toEqual([200, [{ key: 'OPENAI_API_KEY' }]])
  const [made] = (await tenant.get('/v1/model-configurations')).body.resources
  expect(made).toMatchObject({ name: 'OPENAI_API_KEY', provider: 'openai', auth_type: 'secret' })
  expect(await readSealed(made.id)).toBe('sk-first')
  const both = ['OPENAI_API_KEY', 'ANTHROPIC_API_KEY'].map(key => ({ key, value: 'sk-second' }))
  const replies = []
  for (let i = 0; i < 2; i++) replies.push(await tenant.post(SECRETS, both, { 'Idempotency-Key': 'once' }))
  expect(replies.map(({ status }) => status)).toEqual([200, 200])
  const configurations = (await tenant.get('/v1/model-configurations')).body.resources
  expect(configurations.map(({ name }: { name: string }) => name).sort()).toEqual([
    'ANTHROPIC_API_KEY',
    'OPENAI_API_KEY',
  ])
  for (const { id } of configurations) expect(await readSealed(id)).toBe('sk-second')
  expect((await tenant.get(SECRETS)).body).toEqual([{ key: 'ANTHROPIC_API_KEY' }, { key: 'OPENAI_API_KEY' }])
})

it('a key never goes to an address that another person chose', async () => {
  const tenant = await newTenant()
  await tenant.post(SECRETS, [{ key: 'OPENAI_API_KEY', value: 'sk-first' }])
  const [{ id }] = (await tenant.get('/v1/model-configurations')).body.resources
  const moved = { base_url: 'https://models.example.com/v1', auth_type: 'secret', secret: 'other' }
  expect((await tenant.patch(`/v1/model-configurations/${id}`, moved)).status).toBe(200)
  const refused = await tenant.post(SECRETS, [{ key: 'OPENAI_API_KEY', value: 'sk-second' }])
  expect([refused.status, refused.body.code]).toEqual([409, 'model_exists'])
  expect(await readSealed(id)).toBe('other')
})

it('other keys, repeated keys and values with spaces are refused', async () => {
  const tenant = await newTenant()
  for (const body of [
    [],
    [{ key: 'AWS_SECRET', value: 'x' }],
    [{ key: 'OPENAI_API_KEY', value: 'two words' }],
    [
      { key: 'OPENAI_API_KEY', value: unusedId() },
      { key: 'OPENAI_API_KEY', value: unusedId() },
    ],
  ])
    expect((await tenant.post(SECRETS, body)).status, JSON.stringify(body)).toBe(422)
  expect((await tenant.get(SECRETS)).body).toEqual([])
})

it('a key is put, listed with its host, paged and deleted, as the newest client does it', async () => {
  const tenant = await newTenant()
  const path = `${SECRETS}/OPENAI_API_KEY`
  const missing = await tenant.put(path, {})
  expect([missing.status, missing.body.errors[0].loc]).toEqual([422, ['body', 'value']])
  const host = { host_pattern: 'api.openai.com', source: 'DEFAULT' }
  const put = await tenant.put(path, { value: 'sk-first', configs: [] })
  expect([put.status, put.body]).toEqual([200, { key: 'OPENAI_API_KEY', configs: [host] }])
  const [{ id }] = (await tenant.get('/v1/model-configurations')).body.resources
  await tenant.put(path, { value: null })
  expect(await readSealed(id)).toBe('sk-first')
  await tenant.put(path, { value: 'sk-second' })
  expect(await readSealed(id)).toBe('sk-second')
  const elsewhere = await tenant.put(path, { value: 'sk-third', configs: [{ host_pattern: 'example.com' }] })
  expect([elsewhere.status, elsewhere.body.errors[0].loc]).toEqual([422, ['body', 'configs']])
  expect(await readSealed(id)).toBe('sk-second')
  expect((await tenant.put(`${SECRETS}/AWS_SECRET`, { value: 'x' })).status).toBe(404)

  await tenant.put(`${SECRETS}/ANTHROPIC_API_KEY`, { value: 'sk-other' })
  const listed = (await tenant.get(`${SECRETS}?include_configs=true`)).body
  expect(listed).toContainEqual({ key: 'OPENAI_API_KEY', configs: [host] })

  for (let i = 0; i < 2; i++) expect((await tenant.delete(path)).status).toBe(204)
  expect((await tenant.get(SECRETS)).body).toEqual([{ key: 'ANTHROPIC_API_KEY' }])
})

it('a deletion leaves a configuration that a person pointed elsewhere', async () => {
  const tenant = await newTenant()
  await tenant.put(`${SECRETS}/OPENAI_API_KEY`, { value: 'sk-first' })
  const [{ id }] = (await tenant.get('/v1/model-configurations')).body.resources
  const moved = { base_url: 'https://models.example.com/v1', auth_type: 'secret', secret: 'other' }
  await tenant.patch(`/v1/model-configurations/${id}`, moved)
  expect((await tenant.delete(`${SECRETS}/OPENAI_API_KEY`)).status).toBe(204)
  expect((await tenant.get(`/v1/model-configurations/${id}`)).status).toBe(200)
})
