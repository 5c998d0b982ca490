// Rotating SEALING_KEYS: everything that the old key sealed is opened by the new one alone.
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { createHost } from '../../src/host/host.ts'
import type { SealingKeys } from '../../src/host/operate/manifest.ts'
import { resealDatabase } from '../../src/host/operate/reseal-database.ts'
import { createSealer } from '../../src/kernel/crypto/crypto.ts'
import { sealedFingerprint } from '../../src/kernel/crypto/digest.ts'
import { bootstrap } from '../../src/people/access/bootstrap.ts'
import { startCommand, stopCommands } from '../support/commands.ts'
import { makeImageBody } from '../support/deployment-bodies.ts'
import { fillEveryTable, FILLED_ID as ID } from '../support/every-table.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { connect, query } from '../support/postgres.ts'

const [old, next] = [7, 8].map((byte, i) => [`k${i}`, Buffer.alloc(32, byte).toString('base64url')]) as SealingKeys
const both = [next!, old!]
const third = ['k2', Buffer.alloc(32, 9).toString('base64url')] as SealingKeys[number]
const toSetting = (keys: SealingKeys) => keys.map(key => key.join(':')).join(',')
const PLAIN = 'hunter2'
/** A text of a workspace. */
const LOOKS_SEALED = `k0.${'A'.repeat(16)}.${'B'.repeat(30)}`
const log = () => {}
let url: string
let api_key: string
let deployment: string
/** The deployment has one secret. */
let small: string
let values: [table: string, column: string, owner: string, place: string][]

const NAME = 'SOME_NAME'
/** Owner and place of each value as they were sealed by earlier versions, so they must never change. */
const SEALED = (): typeof values => [
  ['deployment_secrets', 'sealed', ID, NAME],
  ['deployments', 'rollout_secret', ID, 'rollout webhook'],
  ['integrations', 'credentials', ID, `integrations.credentials github https://git.example.com 17`],
  ['integrations', 'token', ID, `integrations.token github https://git.example.com 17`],
  ['model_configurations', 'secret', ID, 'model_secret'],
  ['oauth_flows', 'verifier', ID, 'oauth_flows.verifier'],
  ['oauth_providers', 'client_secret', NAME, 'oauth_providers.client_secret'],
  ['oauth_providers', 'registration_access_token', NAME, 'oauth_providers.registration_access_token'],
  ['oauth_tokens', 'access_token', ID, `oauth_tokens.access_token ${ID} ${NAME}`],
  ['oauth_tokens', 'refresh_token', ID, `oauth_tokens.refresh_token ${ID} ${NAME}`],
  ['preview_policies', 'hook_secret', ID, 'preview hooks'],
  ['preview_policies', 'secrets', ID, `preview ${NAME}`],
  ['run_rules', 'webhook_secret', ID, 'rule webhook secret'],
  ['run_rules', 'webhooks', ID, 'rule webhook header'],
  ['run_rules', 'alerts', ID, 'rule alert routing key'],
  ['channels', 'credentials', ID, 'channel credentials'],
  ['drains', 'headers', ID, 'drain headers'],
  ['webhooks', 'secret', ID, 'webhook secret'],
  ['webhooks', 'previous_secret', ID, 'webhook secret'],
  ['webhooks', 'signing_key', ID, 'webhook signing key'],
]
/** Deployments that the API has made are in these tables, too. */
const rowsOf = (table: string): string => {
  if (table === 'deployments') return `where id = '${ID}'`
  return table === 'deployment_secrets' ? `where deployment_id = '${ID}'` : ''
}
/** The JSON around a sealed value, by column. */
const IN_JSON: Record<string, (sealed: string) => unknown> = {
  secrets: sealed => [{ name: NAME, sealed }],
  webhooks: sealed => [{ id: ID, url: 'https://example.com', headers: { 'X-Token': sealed } }],
  alerts: sealed => [{ id: ID, routing_key: sealed, summary: LOOKS_SEALED, severity: 'error' }],
}
const FROM_JSON: Record<string, (value: never) => string> = {
  secrets: ([{ sealed }]: [{ sealed: string }]) => sealed,
  webhooks: ([{ headers }]: [{ headers: Record<string, string> }]) => headers['X-Token']!,
  alerts: ([{ routing_key }]: [{ routing_key: string }]) => routing_key,
}

const hostOf = (keys: SealingKeys) => {
  const settings = { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS: toSetting(keys), DATABASE_URL: url }
  const { app, close } = createHost(settings, { log })
  const send = async (method: string, path: string, body?: unknown, more: Record<string, string> = {}) => {
    const headers = { 'X-Api-Key': api_key, 'Content-Type': 'application/json', ...more }
    const response = await app.request(path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return response.json()
  }
  return { app, close, send }
}

beforeAll(async () => {
  url = await createMigratedDatabase()
  values = SEALED()
  const { app, send, close } = hostOf([old!])
  api_key = (await bootstrap(app.database, { organization: 'Acme' })).api_key
  const secrets = Array.from({ length: 450 }, (_, i) => ({ name: `TOKEN_${i}`, value: `value ${i}` }))
  deployment = (await send('POST', '/v2/deployments', makeImageBody({ name: 'billing', secrets }))).id
  const one = [{ name: 'TOKEN', value: 'value 449' }]
  small = (await send('POST', '/v2/deployments', makeImageBody({ name: 'small', secrets: one }))).id
  await send('POST', '/v2/tag-keys', { key: LOOKS_SEALED }, { 'Idempotency-Key': 'kept' })
  await app.housekeep()
  await close()

  const client = await connect(url)
  await fillEveryTable(client)
  await client.query(`
    delete from webhook_deliveries;
    delete from idempotency_keys where key <> 'kept';
    update deployment_secrets set name = '${NAME}' where deployment_id = '${ID}';
    update integrations set host = 'github', base_url = 'https://git.example.com', account_id = '17';
    update oauth_providers set provider_id = '${NAME}', client_secret_urls = '{https://old.example.com}';
    update oauth_tokens set user_id = '${NAME}'`)
  const sealer = createSealer([old!])
  for (const [table, column, owner, place] of values) {
    const sealed = await sealer.seal(PLAIN, owner, place)
    const value = IN_JSON[column] ? JSON.stringify(IN_JSON[column](sealed)) : sealed
    const only = rowsOf(table)
    await client.query(`update "${table}" set "${column}" = $1 ${only}`, [value])
  }
  await client.end()
})
afterAll(stopCommands)

async function run(args: string[], keys: SealingKeys) {
  const settings = { SEALING_KEYS: toSetting(keys), DATABASE_SYSTEM_URL: url }
  const { exited, output } = startCommand('src/host/main.ts', ['reseal', ...args], settings)
  return { code: await exited, ...output }
}

async function readSealed(): Promise<[table: string, column: string, sealed: string][]> {
  const found: Awaited<ReturnType<typeof readSealed>> = []
  for (const [table, column] of values) {
    const only = rowsOf(table)
    const [row] = await query(url, `select "${column}" as value from "${table}" ${only}`)
    found.push([table, column, FROM_JSON[column]?.(row!.value as never) ?? (row!.value as string)])
  }
  return found
}
const readFingerprints = async () =>
  (await readSealed()).map(([table, column, sealed]) => [table, column, sealedFingerprint(sealed)])

test('every value is sealed again, while requests are answered, and then nothing needs the old key', async () => {
  const check = await run(['--check'], both)
  expect(check.code).toBe(1)
  for (const [table, column] of values) expect(check.out).toMatch(new RegExp(`${table}\\.${column} +k0 `))

  const fingerprints = await readFingerprints()
  const { send, close } = hostOf(both)
  const answers: string[] = []
  let isDone = false
  const reading = (async () => {
    while (!isDone) {
      const { secrets } = await send('GET', `/v2/deployments/${small}?reveal=true`)
      answers.push(secrets.at(-1).value)
    }
  })()
  expect(await resealDatabase({ url, keys: both, log })).toBe(true)
  isDone = true
  await reading
  await close()
  expect(new Set(answers)).toEqual(new Set(['value 449']))

  const sealer = createSealer([next!])
  for (const [i, [table, column, sealed]] of (await readSealed()).entries()) {
    const [, , owner, place] = values[i]!
    expect([table, column, await sealer.open(sealed, owner, place)]).toEqual([table, column, PLAIN])
  }
  expect(await readFingerprints()).toEqual(fingerprints)
  // A trigger binds a new client secret to the present endpoints. This one is not new.
  expect(await query(url, 'select client_secret_urls from oauth_providers')).toEqual([
    { client_secret_urls: ['https://old.example.com'] },
  ])
  const { out, code } = await run(['--check'], [next!])
  expect(code).toBe(0)
  expect(out).toContain('Signatures of the journal are of k0')
})

test('fingerprints are computed again, so that the same secrets make no new revision', async () => {
  const { send, close } = hostOf([next!])
  const revisions = async () => (await send('GET', `/v2/deployments/${deployment}/revisions`)).resources.length
  const before = await revisions()
  const { secrets } = await send('GET', `/v2/deployments/${deployment}?reveal=true`)
  await send('PATCH', `/v2/deployments/${deployment}`, { secrets })
  expect(await revisions()).toBe(before)
  await close()
})

test('a repeated run writes nothing', async () => {
  const versions = () => query(url, 'select xmin::text, name from deployment_secrets order by name')
  const before = await versions()
  expect(await resealDatabase({ url, keys: both, log })).toBe(true)
  expect(await versions()).toEqual(before)
})

test('the fingerprint that an answer shows stays', async () => {
  const provider_id = 'calendar'
  const read = async (keys: SealingKeys) => {
    const { send, close } = hostOf(keys)
    const { client_secret_fingerprint } = await send('GET', `/v2/auth/providers/${provider_id}`)
    await close()
    return client_secret_fingerprint
  }
  const { send, close } = hostOf([next!])
  await send('POST', '/v2/auth/providers', {
    provider_id,
    name: 'Calendar',
    client_id: 'client',
    client_secret: 'hush',
    auth_url: 'https://auth.example.com/authorize',
    token_url: 'https://auth.example.com/token',
  })
  await close()
  const before = await read([next!])
  expect(before).toMatch(/^[0-9a-f]{16}$/)
  for (const keys of [
    [third, next!],
    [next!, third],
  ]) {
    expect(await resealDatabase({ url, keys, log })).toBe(true)
    expect(await read(keys)).toBe(before)
  }
})

describe('another key of the same name', () => {
  const wrong = [[next![0], Buffer.alloc(32, 66).toString('base64url')]] as SealingKeys

  test('is refused by reseal, which changes nothing', async () => {
    const before = await readSealed()
    await expect(resealDatabase({ url, keys: wrong, log })).rejects.toThrow('another key k1')
    await expect(resealDatabase({ url, keys: [third, ...wrong], log })).rejects.toThrow('another key k1')
    expect(await readSealed()).toEqual(before)
  })

  test('is refused by a control plane that starts', async () => {
    const settings = { PUBLIC_URL: 'http://slipway.test', DATABASE_URL: url, DATABASE_SYSTEM_URL: url, PORT: '0' }
    const { exited, output } = startCommand('src/host/main.ts', ['start'], {
      ...settings,
      SEALING_KEYS: toSetting(wrong),
    })
    expect(await exited).toBe(1)
    expect(output.err).toContain('another key k1')
    expect(output.err).not.toContain(wrong[0]![1])
  })

  test('is noticed by a value that it has sealed beside values of the right key', async () => {
    const [webhook] = await query(url, 'select secret from webhooks')
    const sealed = await createSealer(wrong).seal(PLAIN, ID, 'webhook secret')
    await query(url, `update webhooks set secret = '${sealed}'`)
    const lines: string[] = []
    expect(await resealDatabase({ url, keys: [next!], isCheck: true, log: line => lines.push(line) })).toBe(false)
    expect(lines.join('\n')).toContain('webhooks: 1 rows have values that SEALING_KEYS cannot open')
    await query(url, `update webhooks set secret = '${webhook!.secret}'`)
  })
})

test('a value that no key opens is named, and the others are sealed', async () => {
  const lines: string[] = []
  await query(url, `update webhooks set signing_key = 'lost.${'A'.repeat(16)}.${'A'.repeat(30)}'`)
  expect(await resealDatabase({ url, keys: [third, next!], log: line => lines.push(line) })).toBe(false)
  expect(lines.join('\n')).toContain('webhooks: 1 rows have values')
  expect(lines.join('\n')).toContain('Values need lost, which SEALING_KEYS does not have')
  expect(lines.join('\n')).not.toContain('Values still need')
})
