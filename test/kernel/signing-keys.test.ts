import * as jose from 'jose'
import { describe, expect, it } from 'vitest'
import { readConfig } from '../../src/env.ts'
import { publicJwks, type SigningSettings, signJwt, verifyJwt } from '../../src/kernel/crypto/signing-keys.ts'
import { clock, send, startApp, withClockAhead } from '../support/app.ts'

const required = {
  PUBLIC_URL: 'https://slipway.example.com',
  DATABASE_URL: 'postgres://user@localhost/slipway',
}
const sealingKey = (kid: string, byte: number) => `${kid}:${Buffer.alloc(32, byte).toString('base64url')}`
const toSettings = (env: Record<string, string>) =>
  readConfig({ ...required, SEALING_KEYS: sealingKey('k1', 1), ...env })

async function newPrivateJwk(): Promise<jose.JWK> {
  const { privateKey } = await jose.generateKeyPair('Ed25519', { extractable: true })
  return jose.exportJWK(privateKey)
}
const toJwks = (...keys: jose.JWK[]) => JSON.stringify({ keys })

const ISSUER = 'https://slipway.example.com'
const AUDIENCE = 'https://models.example.com'
const TYP = 'test+jwt'
const expected = { typ: TYP, issuer: ISSUER, audience: AUDIENCE }
const verifyNow = (settings: SigningSettings, token: string) =>
  verifyJwt(settings, token, { ...expected, at: Date.now() + clock.ahead })
const newClaims = (changes: object = {}) => {
  const iat = Math.floor((Date.now() + clock.ahead) / 1000)
  return { iss: ISSUER, aud: AUDIENCE, sub: 's', iat, nbf: iat - 5, exp: iat + 300, ...changes }
}

/** Verifies with the published keys, like the operator of a proxy in front of models. */
const verifyByJwks = async (settings: SigningSettings, token: string) =>
  jose.jwtVerify(token, jose.createLocalJWKSet(await publicJwks(settings)), { issuer: ISSUER, audience: AUDIENCE })

describe.each<[string, (keys: string[]) => Promise<SigningSettings[]>]>([
  [
    'SIGNING_JWKS',
    async () => {
      const [older, newer] = [await newPrivateJwk(), await newPrivateJwk()]
      return [[older], [newer, older], [newer]].map(keys => toSettings({ SIGNING_JWKS: toJwks(...keys) }))
    },
  ],
  [
    'SEALING_KEYS alone',
    async () => {
      const [older, newer] = [sealingKey('k1', 1), sealingKey('k2', 2)]
      return [older, `${newer},${older}`, newer].map(SEALING_KEYS => toSettings({ SEALING_KEYS }))
    },
  ],
])('with %s', (_, newSettings) => {
  it('tokens verify by the published keys, also of the key before, until that is removed', async () => {
    const [before, during, after] = (await newSettings([])) as [SigningSettings, SigningSettings, SigningSettings]
    const [old, fresh] = [await signJwt(before, newClaims()), await signJwt(during, newClaims())]
    for (const token of [old, fresh]) {
      expect((await verifyByJwks(during, token)).payload.sub).toBe('s')
    }
    expect((await verifyByJwks(after, fresh)).payload.sub).toBe('s')
    await expect(verifyByJwks(after, old)).rejects.toMatchObject({ code: 'ERR_JWKS_NO_MATCHING_KEY' })

    const own = await signJwt(before, newClaims(), TYP)
    expect(await verifyNow(during, own)).toMatchObject({ claims: { sub: 's' } })
    expect(await verifyNow(after, own)).toEqual({ refusal: 'untrusted' })
  })

  it('keys are named by their thumbprint, and nothing private is published', async () => {
    const [, settings] = (await newSettings([])) as [SigningSettings, SigningSettings]
    const { keys } = await publicJwks(settings)
    expect(keys).toHaveLength(2)
    for (const key of keys) {
      expect(Object.keys(key).sort()).toEqual(['alg', 'crv', 'kid', 'kty', 'use', 'x'])
      expect(key.kid).toBe(await jose.calculateJwkThumbprint(key as jose.JWK))
    }
    expect(jose.decodeProtectedHeader(await signJwt(settings, newClaims()))).toEqual({
      alg: 'EdDSA',
      typ: 'JWT',
      kid: keys[0]!.kid,
    })
  })
})

it('the public half of a key of SIGNING_JWKS is its own, and a kid stays', async () => {
  const { d, x } = await newPrivateJwk()
  const settings = toSettings({ SIGNING_JWKS: toJwks({ kty: 'OKP', crv: 'Ed25519', d: d!, kid: 'mine' }) })
  expect((await publicJwks(settings)).keys).toMatchObject([{ x, kid: 'mine' }])
})

it('derived keys do not change from one release to the next', async () => {
  const { keys } = await publicJwks(toSettings({}))
  expect(keys.map(({ kid }) => kid)).toEqual(['HS8omJ-F33MERUnjshJk9bmUSqzSni08B6c03k7NTMU'])
})

it('the keys are published without an API key, for five minutes', async () => {
  const jwk = await newPrivateJwk()
  const app = startApp({ settings: { SIGNING_JWKS: toJwks(jwk) } })
  const { status, headers, body } = await send('GET', '/.well-known/jwks.json', { app })
  expect([status, headers.get('Cache-Control')]).toEqual([200, 'public, max-age=300'])
  expect(body.keys).toMatchObject([{ kty: 'OKP', crv: 'Ed25519', x: jwk.x }])
  expect(JSON.stringify(body)).not.toContain(jwk.d)
})

describe('a token is refused', () => {
  const settings = toSettings({})
  const refusalOf = async (token: string, by: SigningSettings = settings) => {
    const outcome = await verifyNow(by, token)
    return 'refusal' in outcome ? outcome.refusal : 'accepted'
  }
  const encode = (part: object) => Buffer.from(JSON.stringify(part)).toString('base64url')
  /** Signs any header by our own key, as a mistake of ours could. */
  async function signWith(header: object): Promise<string> {
    const jwk = await newPrivateJwk()
    const own = toSettings({ SIGNING_JWKS: toJwks(jwk) })
    const key = await crypto.subtle.importKey('jwk', jwk as JsonWebKey, 'Ed25519', false, ['sign'])
    const { kid } = (await publicJwks(own)).keys[0]!
    const text = `${encode({ alg: 'EdDSA', typ: TYP, kid, ...header })}.${encode(newClaims())}`
    const signature = Buffer.from(await crypto.subtle.sign('Ed25519', key, Buffer.from(text))).toString('base64url')
    return refusalOf(`${text}.${signature}`, own)
  }

  it('unless it is whole', async () => {
    expect(await refusalOf(await signJwt(settings, newClaims(), TYP))).toBe('accepted')
  })

  it.each<[string, string, object]>([
    ['of another kind', 'not_for_us', { typ: 'JWT' }],
    ['of another issuer', 'not_for_us', { iss: 'https://other.example.com' }],
    ['for another audience', 'not_for_us', { aud: 'https://other.example.com' }],
    ['for several audiences', 'not_for_us', { aud: [AUDIENCE] }],
    ['that never expires', 'expired', { exp: undefined }],
    ['whose expiry is text', 'expired', { exp: '9999999999' }],
    ['that has expired', 'expired', { exp: Math.floor(Date.now() / 1000) }],
    ['that is valid later', 'expired', { nbf: Math.floor(Date.now() / 1000) + 60 }],
    ['without a start', 'expired', { nbf: undefined }],
  ])('%s', async (_, refusal, { typ = TYP, ...changes }: { typ?: string }) => {
    expect(await refusalOf(await signJwt(settings, newClaims(changes), typ))).toBe(refusal)
  })

  it('once its time is over', async () => {
    const token = await signJwt(settings, newClaims(), TYP)
    expect(await withClockAhead(299_000, () => refusalOf(token))).toBe('accepted')
    expect(await withClockAhead(300_000, () => refusalOf(token))).toBe('expired')
  })

  it('whose header, claims or signature are not what we signed', async () => {
    const token = await signJwt(settings, newClaims(), TYP)
    const [head, body, signature] = token.split('.') as [string, string, string]
    const last = signature.at(-1)!
    const respelled = 'ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_'
    const sameBytes = respelled[respelled.indexOf(last) ^ 1]!
    const outcomes = {
      'a header of ours': await signWith({}),
      'alg none': await refusalOf(`${encode({ alg: 'none', typ: TYP })}.${body}.`),
      'alg none with a signature': await signWith({ alg: 'none' }),
      'alg HS256': await signWith({ alg: 'HS256' }),
      'a critical extension': await signWith({ crit: ['exp'] }),
      'no kid': await signWith({ kid: undefined }),
      'changed claims': await refusalOf([head, encode(newClaims({ sub: 'other' })), signature].join('.')),
      'another spelling of the signature': await refusalOf(`${head}.${body}.${signature.slice(0, -1)}${sameBytes}`),
      'no signature': await refusalOf(`${head}.${body}`),
      'four parts': await refusalOf(`${token}.${signature}`),
      'claims that are no object': await refusalOf(await signJwt(settings, [] as never, TYP)),
      nothing: await refusalOf(''),
    }
    expect(outcomes).toEqual({
      'a header of ours': 'accepted',
      'alg none': 'malformed',
      'alg none with a signature': 'untrusted',
      'alg HS256': 'untrusted',
      'a critical extension': 'untrusted',
      'no kid': 'untrusted',
      'changed claims': 'untrusted',
      'another spelling of the signature': 'malformed',
      'no signature': 'malformed',
      'four parts': 'malformed',
      'claims that are no object': 'malformed',
      nothing: 'malformed',
    })
  })

  it('that another installation has signed, also under the kid of our key', async () => {
    const [ours] = (await publicJwks(settings)).keys
    const foreign = toSettings({ SIGNING_JWKS: toJwks({ ...(await newPrivateJwk()), kid: ours!.kid }) })
    expect(await refusalOf(await signJwt(foreign, newClaims(), TYP))).toBe('untrusted')
    const other = toSettings({ SEALING_KEYS: sealingKey('k1', 9) })
    expect(await refusalOf(await signJwt(other, newClaims(), TYP))).toBe('untrusted')
  })
})
