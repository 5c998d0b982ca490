import { describe, expect, it } from 'vitest'
import { readConfig, readTrustedProxies, SettingsError } from '../../src/env.ts'
import { logLines, SEALING_KEYS, send, startApp } from '../support/app.ts'
import { PKCS1, PKCS8 } from '../support/github-app-key.ts'

const required = {
  PUBLIC_URL: 'https://slipway.example.com',
  DATABASE_URL: 'postgres://user@localhost/slipway',
  DATABASE_SYSTEM_URL: 'postgres://system@localhost/slipway',
  SEALING_KEYS,
}

const SIGNING_JWK = { kty: 'OKP', crv: 'Ed25519', d: 'A'.repeat(43), kid: 'same' }

function readError(settings: Record<string, unknown>): string {
  try {
    readConfig({ ...required, ...settings })
  } catch (error) {
    if (error instanceof SettingsError) return error.message
    throw error
  }
  return ''
}

describe('settings', () => {
  it('turn access policies and the audit log on by default', () => {
    expect(readConfig(required)).toMatchObject({ abac: true, auditLogs: true })
  })

  it('have defaults', () => {
    const { database, corsOrigins, rateLimits, unknownKeysPerMinute, instanceAdmins, notices } = readConfig(required)
    expect(database).toEqual({
      url: required.DATABASE_URL,
      systemUrl: required.DATABASE_SYSTEM_URL,
      gateway: undefined,
    })
    expect({ corsOrigins, rateLimits, unknownKeysPerMinute, instanceAdmins, notices }).toEqual({
      corsOrigins: ['*'],
      rateLimits: { key: 1200, ingestion: 5000, deployment: 5000 },
      unknownKeysPerMinute: 60,
      instanceAdmins: [],
      notices: [],
    })
  })

  it.each<[string, unknown]>([
    ['DATABASE_URL', undefined],
    ['DATABASE_URL', ''],
    ['DATABASE_URL', 'mysql://localhost/x'],
    ['DATABASE_URL', 'postgres://'],
    ['DATABASE_GATEWAY_URL', 'localhost'],
    ['SEALING_KEYS', undefined],
    ['SEALING_KEYS', 'first'],
    ['SEALING_KEYS', 'first:short'],
    ['SEALING_KEYS', `${SEALING_KEYS},`],
    ['SEALING_KEYS', `${SEALING_KEYS};${SEALING_KEYS}`],
    ['SEALING_KEYS', SEALING_KEYS.replace('first', 'First.1')],
    ['SEALING_KEYS', `${SEALING_KEYS},${SEALING_KEYS}`],
    ['CORS_ORIGINS', 'example.com'],
    ['CORS_ORIGINS', 'https://example.com/'],
    ['PUBLIC_URL', undefined],
    ['PUBLIC_URL', 'slipway.example.com'],
    ['PUBLIC_URL', 'https://example.com/api'],
    ['PUBLIC_URL', 'ftp://example.com'],
    ['ALLOW_LOOPBACK', 'yes'],
    ['ALLOW_LOOPBACK', '1'],
    ['RATE_LIMIT_PER_MINUTE', '-1'],
    ['RATE_LIMIT_PER_MINUTE', '1.5'],
    ['RATE_LIMIT_PER_MINUTE', 'many'],
    ['RATE_LIMIT_PER_MINUTE', '3000000000'],
    ['UNKNOWN_KEYS_PER_MINUTE', '-1'],
    ['UNKNOWN_KEYS_PER_MINUTE', 'few'],
    ['CONTRACT_WORDS', 'github'],
    ['DEPLOYMENT_MODELS', 'true'],
    ['SIGNING_JWKS', 'first'],
    ['SIGNING_JWKS', '{"keys":[]}'],
    ['SIGNING_JWKS', JSON.stringify({ keys: [{ ...SIGNING_JWK, d: undefined }] })],
    ['SIGNING_JWKS', JSON.stringify({ keys: [{ ...SIGNING_JWK, d: `${SIGNING_JWK.d}A` }] })],
    ['SIGNING_JWKS', JSON.stringify({ keys: [{ ...SIGNING_JWK, crv: 'X25519' }] })],
    ['SIGNING_JWKS', JSON.stringify({ keys: [SIGNING_JWK, SIGNING_JWK] })],
    ['SIGNING_JWKS', JSON.stringify({ keys: [SIGNING_JWK, { ...SIGNING_JWK, d: 'B'.repeat(43) }] })],
    ['MODEL_PROXY_ISSUER', 'a b'],
    ['MODEL_PROXY_HEADER', 'X-LLM Auth'],
    ['MODEL_PROXY_HEADER', 'authorization'],
    ['MODEL_PROXY_HEADER', 'Content-Length'],
    ['MODEL_PRIVATE_ADDRESSES', 'on'],
    ['DRAIN_PRIVATE_ADDRESSES', 'on'],
    ['CLIO_SCHEDULE_MIN_INTERVAL_SECONDS', '59'],
    ['CLIO_SCHEDULE_MIN_INTERVAL_SECONDS', '1h'],
  ])('refuse %s with the value %j, with an error that has the name and not the value', (name, value) => {
    const message = readError({ [name]: value })
    expect(message).toContain(name)
    for (const validSetting of ['DATABASE_URL', 'SEALING_KEYS'].filter(one => one !== name))
      expect(message).not.toContain(validSetting)
    for (const secret of [SEALING_KEYS.slice(10), SIGNING_JWK.d]) expect(message).not.toContain(secret)
  })

  it('accept trusted proxies as addresses and ranges', () => {
    const read = (TRUSTED_PROXIES: string) => readTrustedProxies({ TRUSTED_PROXIES }, text => text !== '1.2.3')
    expect(read('')).toEqual([])
    expect(read(' 10.0.0.1, 10.1.0.0/16,2001:db8::/32 ')).toEqual(['10.0.0.1', '10.1.0.0/16', '2001:db8::/32'])
    for (const text of ['proxy.example.com', '10.0.0.0/8/9', '10.0.0.1;10.0.0.2', '1.2.3'])
      expect(() => read(text)).toThrow(/TRUSTED_PROXIES/)
  })

  describe('for a GitHub App', () => {
    const app = {
      GITHUB_APP_ID: '1',
      GITHUB_APP_SLUG: 'slipway',
      GITHUB_APP_PRIVATE_KEY: PKCS1,
      GITHUB_APP_CLIENT_ID: 'Iv1.a',
      GITHUB_APP_CLIENT_SECRET: 'secret',
      GITHUB_APP_WEBHOOK_SECRET: 'other',
    }

    it('must be all set or all missing, and the error names every missing one', () => {
      expect(readConfig(required).github).toBeUndefined()
      const { github } = readConfig({ ...required, ...app })
      expect(github).toMatchObject({ baseUrl: 'https://github.com', appId: '1', slug: 'slipway', clientId: 'Iv1.a' })
      const message = readError({ GITHUB_APP_ID: '1' })
      for (const name of Object.keys(app).slice(1)) expect(message).toContain(name)
    })

    it.each([
      ['in PKCS#1, as GitHub’s file has it', PKCS1],
      ['in PKCS#1 in one line, with \\n for newlines', PKCS1.replaceAll('\n', '\\n')],
      ['in PKCS#8', PKCS8],
    ])('accept the private key %s', (_, key) => {
      const { github } = readConfig({ ...required, ...app, GITHUB_APP_PRIVATE_KEY: key })
      expect(github?.privateKey).toBe(key === PKCS8 ? PKCS8 : PKCS1)
    })

    it.each([
      ['GITHUB_APP_ID', 'slipway'],
      ['GITHUB_APP_SLUG', 'My App'],
      ['GITHUB_APP_PRIVATE_KEY', 'key.pem'],
      ['GITHUB_APP_PRIVATE_KEY', PKCS1.slice(0, -10)],
      ['GITHUB_APP_CLIENT_SECRET', 'a b'],
      ['GITHUB_BASE_URL', 'github.com'],
      ['GITHUB_BASE_URL', 'https://github.com/acme'],
    ])('refuse %s with the value %j, with an error that has the name and not the value', (name, value) => {
      const message = readError({ ...app, [name]: value })
      expect(message).toContain(name)
      expect(message).not.toContain('MII')
    })
  })

  it('block external servers on this machine by default', () => {
    const allowed = ['', 'false', 'true'].map(
      ALLOW_LOOPBACK => readConfig({ ...required, ALLOW_LOOPBACK }).allowLoopback,
    )
    expect([readConfig(required).allowLoopback, ...allowed]).toEqual([false, false, false, true])
  })

  it('are all named in one error when several are invalid', () => {
    const message = readError({ DATABASE_URL: undefined, SEALING_KEYS: 'x', RATE_LIMIT_PER_MINUTE: 'x' })
    for (const name of ['DATABASE_URL', 'SEALING_KEYS', 'RATE_LIMIT_PER_MINUTE']) expect(message).toContain(name)
  })

  const s3 = {
    UPLOADS_S3_ENDPOINT: 'https://s3.example.com',
    UPLOADS_S3_BUCKET: 'archives',
    UPLOADS_S3_ACCESS_KEY_ID: 'id',
    UPLOADS_S3_SECRET_ACCESS_KEY: 'secret',
  }

  it('for an S3 store must be all set or all missing', () => {
    expect(readConfig(required).s3).toBe(undefined)
    const store = {
      endpoint: 'https://s3.example.com',
      bucket: 'archives',
      accessKeyId: 'id',
      secretAccessKey: 'secret',
    }
    expect(readConfig({ ...required, ...s3 }).s3).toEqual(store)
    const optional = { UPLOADS_S3_ENDPOINT: 'https://s3.example.com/storage/', UPLOADS_S3_REGION: 'eu-central-1' }
    expect(readConfig({ ...required, ...s3, ...optional }).s3).toEqual({
      ...store,
      endpoint: 'https://s3.example.com/storage',
      region: 'eu-central-1',
    })
    for (const setting of [...Object.keys(s3), 'UPLOADS_S3_REGION']) {
      const message = readError({ DATABASE_URL: undefined, [setting]: { ...s3, UPLOADS_S3_REGION: 'auto' }[setting] })
      for (const name of ['DATABASE_URL', ...Object.keys(s3)].filter(name => name !== setting))
        expect(message).toContain(name)
    }
  })

  it.each([
    ['UPLOADS_S3_ENDPOINT', 's3.example.com'],
    ['UPLOADS_S3_ENDPOINT', 'http://s3.example.com'],
    ['UPLOADS_S3_ENDPOINT', 'http://127.0.0.1.example.com'],
    ['UPLOADS_S3_ENDPOINT', 'https://user:hunter2@s3.example.com'],
    ['UPLOADS_S3_ENDPOINT', 'https://s3.example.com/?x=hunter2'],
    ['UPLOADS_S3_ENDPOINT', 'file:///hunter2'],
    ['UPLOADS_S3_BUCKET', 'hunter2/x'],
    ['UPLOADS_S3_BUCKET', '..'],
    ['UPLOADS_S3_REGION', 'hunter2/x'],
  ])('refuse %s with the value %j, with an error that begins with the name and has no secret', (name, value) => {
    expect(readError({ ...s3, [name]: value })).toMatch(new RegExp(`^${name} [^.]`))
    expect(readError({ ...s3, [name]: value })).not.toContain('hunter2')
  })

  it.each(['http://localhost:9000', 'http://127.0.0.1:9000', 'http://[::1]:9000'])(
    'accept the loopback address %s as the endpoint of an S3 store',
    endpoint => {
      expect(readConfig({ ...required, ...s3, UPLOADS_S3_ENDPOINT: endpoint }).s3!.endpoint).toBe(endpoint)
    },
  )

  const registry = {
    REGISTRY_URL: 'registry.example.com:5000/apps',
    REGISTRY_SIGNING_KEY: `-----BEGIN PRIVATE KEY-----
AAAA
BBBB
-----END PRIVATE KEY-----
-----BEGIN CERTIFICATE-----
CCCC
-----END CERTIFICATE-----
`,
  }

  it('for a registry must include both its URL and its key', () => {
    expect(readConfig(required).registry).toBe(undefined)
    const parsed = { url: registry.REGISTRY_URL, key: 'AAAABBBB', certificate: 'CCCC' }
    expect(readConfig({ ...required, ...registry }).registry).toEqual(parsed)
    const inOneLine = registry.REGISTRY_SIGNING_KEY.replaceAll('\n', '\\n')
    expect(readConfig({ ...required, ...registry, REGISTRY_SIGNING_KEY: inOneLine }).registry).toEqual(parsed)
    for (const name of Object.keys(registry)) expect(readError({ ...registry, [name]: undefined })).toContain(name)
  })

  it.each([
    ['REGISTRY_URL', 'https://registry.example.com'],
    ['REGISTRY_URL', 'registry.example.com/'],
    ['REGISTRY_URL', 'registry.example.com/Apps'],
    ['REGISTRY_URL', 'hunter2:x/../y'],
    ['REGISTRY_SIGNING_KEY', 'hunter2'],
    ['REGISTRY_SIGNING_KEY', registry.REGISTRY_SIGNING_KEY.slice(0, 70)],
  ])('refuse %s with the value %j, with an error that begins with the name and has no secret', (name, value) => {
    expect(readError({ ...registry, [name]: value })).toMatch(new RegExp(`^${name} [^.]`))
    expect(readError({ ...registry, [name]: value })).not.toMatch(/hunter2|AAAA/)
  })

  const oidc = {
    OIDC_ISSUER: 'https://login.example.com',
    OIDC_CLIENT_ID: 'slipway',
    OIDC_CLIENT_SECRET: 'hunter2',
  }

  it('describe an identity provider, whose three settings belong together', () => {
    const id = '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11'
    const more = { OIDC_ALLOWED_DOMAINS: `example.com=${id}`, OIDC_GROUP_ROLES: `the admins=${id}, all=${id}` }
    expect(readConfig({ ...required, ...oidc, ...more }).oidc).toMatchObject({
      issuer: 'https://login.example.com',
      domains: [['example.com', id]],
      groupRoles: [
        ['the admins', id],
        ['all', id],
      ],
      groupsClaim: 'groups',
      scopes: 'openid email profile',
    })
    expect(readConfig(required).oidc).toBeUndefined()
    for (const name of Object.keys(oidc)) expect(readError({ ...oidc, [name]: undefined })).toContain(name)
  })

  it.each([
    ['OIDC_ISSUER', 'login.example.com'],
    ['OIDC_ISSUER', 'https://ada:hunter2@login.example.com'],
    ['OIDC_CLIENT_ID', 'two words'],
    ['OIDC_SCOPES', 'email'],
    ['OIDC_ALLOWED_DOMAINS', 'example.com'],
    ['OIDC_ALLOWED_DOMAINS', 'example.com=Acme'],
    ['OIDC_GROUP_ROLES', 'admins=Admin'],
  ])('refuse %s with the value %j, with an error that begins with the name', (name, value) => {
    expect(readError({ ...oidc, [name]: value })).toMatch(new RegExp(`^${name} [^.]`))
    expect(readError({ ...oidc, [name]: value })).not.toContain('hunter2')
  })

  it('keep the order of several sealing keys', () => {
    const second = SEALING_KEYS.replace('first', 'second')
    expect(
      readConfig({ ...required, SEALING_KEYS: `${second},${SEALING_KEYS}` }).sealingKeys.map(([kid]) => kid),
    ).toEqual(['second', 'first'])
  })

  it('accept instance admins under the new name and the old name', () => {
    const { instanceAdmins } = readConfig({
      ...required,
      INSTANCE_ADMIN_EMAILS: 'Ada@example.com, , grace@example.com',
      USAGE_EXPORT_ADMIN_EMAILS: 'OLD@example.com',
    })
    expect(instanceAdmins).toEqual(['ada@example.com', 'grace@example.com', 'old@example.com'])
  })

  it.each(['INSTANCE_ADMIN_EMAILS', 'USAGE_EXPORT_ADMIN_EMAILS'])('accept %s as a JSON array', name => {
    const { instanceAdmins } = readConfig({ ...required, [name]: ' ["Ada@example.com", "grace@example.com"] ' })
    expect(instanceAdmins).toEqual(['ada@example.com', 'grace@example.com'])
    expect(readConfig({ ...required, [name]: '[]' }).instanceAdmins).toEqual([])
  })

  it.each([
    '["ada@example.com"',
    "['ada@example.com']",
    '["ada@example.com", 1]',
    '{"0": "ada@example.com"}',
    'ada@example.com; grace@example.com',
    'hunter2',
    '@example.com',
  ])('refuse instance admins with the value %j, by the name of the setting', value => {
    for (const name of ['INSTANCE_ADMIN_EMAILS', 'USAGE_EXPORT_ADMIN_EMAILS']) {
      expect(readError({ [name]: value })).toMatch(new RegExp(`^${name} [^.]`))
      expect(readError({ [name]: value })).not.toContain('hunter2')
    }
  })

  it('with the old name are logged as deprecated once per instance', async () => {
    const countNotices = () => logLines.filter(line => String(line.notice).includes('USAGE_EXPORT_ADMIN_EMAILS')).length
    const before = countNotices()
    const app = startApp({ settings: { USAGE_EXPORT_ADMIN_EMAILS: 'old@example.com' } })
    for (let i = 0; i < 3; i++) await send('GET', '/healthz', { app })
    expect(countNotices()).toBe(before + 1)
    await send('GET', '/healthz', { app: startApp({ settings: { INSTANCE_ADMIN_EMAILS: 'new@example.com' } }) })
    expect(countNotices()).toBe(before + 1)
  })
})
