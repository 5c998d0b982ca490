// How a client is chosen, registered, renewed and unregistered, and which responses are accepted.
import { describe, expect, it } from 'vitest'
import { chooseRegistration, renewClient, unregisterClient } from '../../src/oauth/client-registration.ts'
import type { DiscoveredServer } from '../../src/oauth/mcp-discovery.ts'
import type { Client, ClientRequest } from '../../src/oauth/oauth-client.ts'
import {
  AUTH_ORIGIN,
  discoverAndRegister,
  makeRegistrationHandler,
  makeServerMetadata,
  makeSitesWithMetadata,
  makeValidSites,
  REDIRECT_URI,
  respondWithJson,
  respondWithStatus,
  SERVER_METADATA_PATH,
} from '../support/mcp-sites.ts'

type ServerMembers = Record<string, unknown>
const DOCUMENT = 'https://slipway.example.com/.well-known/oauth-client.json/p'
const documents = { client_id_metadata_document_supported: true }
const methods = (...token_endpoint_auth_methods_supported: string[]) => ({ token_endpoint_auth_methods_supported })
const obtainFrom = (server: ServerMembers, wish: Partial<ClientRequest> = {}) =>
  discoverAndRegister(makeSitesWithMetadata(server), { wish })
const registerWithAnswer = (answer: unknown) => discoverAndRegister(makeValidSites({}, { 'POST /register': answer }))
const lastRequestBody = async ({ found, world }: ReturnType<typeof discoverAndRegister>) => {
  await found
  return JSON.parse(world.requests.at(-1)!.body)
}

describe('the choice of a registration', () => {
  const none = { registration_endpoint: undefined }
  it.each<[string, ServerMembers, Partial<ClientRequest>, string | { code: string }]>([
    ['given before all', documents, { client_id: 'ours', document_url: DOCUMENT }, 'given'],
    ['then by document', documents, { document_url: DOCUMENT }, 'metadata_document'],
    ['no document without https of ours', documents, {}, 'dynamic'],
    ['no document that is not taken', {}, { document_url: DOCUMENT }, 'dynamic'],
    ['none at all', none, {}, { code: 'registration_unsupported' }],
    ['dynamic as wished', documents, { client_id: 'ours', document_url: DOCUMENT, registration: 'dynamic' }, 'dynamic'],
    [
      'dynamic wished in vain',
      none,
      { client_id: 'ours', registration: 'dynamic' },
      { code: 'registration_unsupported' },
    ],
    [
      'document wished in vain',
      {},
      { document_url: DOCUMENT, registration: 'metadata_document' },
      { code: 'registration_unsupported' },
    ],
    ['given wished in vain', {}, { registration: 'given' }, { code: 'registration_unsupported' }],
    ['authentication that we cannot', methods('private_key_jwt'), {}, { code: 'registration_unsupported' }],
    ['no authentication listed', methods(), {}, { code: 'registration_unsupported' }],
    ['an empty endpoint is none', { registration_endpoint: '' }, {}, { code: 'registration_unsupported' }],
  ])('%s', async (_, server, wish, out) => {
    const { found } = obtainFrom(server, wish)
    if (typeof out === 'string') expect(await found).toMatchObject({ registration: out })
    else await expect(found).rejects.toMatchObject(out)
  })

  it('names the endpoints in its failure, so that a person can register by hand', async () => {
    const { extra } = await obtainFrom(none).found.then(
      () => expect.unreachable(),
      error => error,
    )
    expect(extra.about).toMatch(/^registration: auth\.example\.com: /)
    for (const endpoint of [`${AUTH_ORIGIN}/authorize`, `${AUTH_ORIGIN}/token`]) expect(extra.about).toContain(endpoint)
  })

  it('is previewed without a request', () => {
    const discovered = {
      auth_methods: ['none'],
      registration_url: `${AUTH_ORIGIN}/register`,
    } as unknown as DiscoveredServer
    expect(chooseRegistration(discovered, { registration: 'auto' } as ClientRequest)).toBe('dynamic')
  })
})

describe('a given client', () => {
  it.each<[string, ServerMembers, Partial<ClientRequest>, Partial<Client>]>([
    [
      'posts its secret',
      methods('client_secret_basic', 'client_secret_post'),
      { client_secret: 'hush' },
      { token_endpoint_auth_method: 'client_secret_post', client_secret: 'hush' },
    ],
    [
      'or sends it as basic',
      methods('none', 'client_secret_basic'),
      { client_secret: 'hush' },
      { token_endpoint_auth_method: 'client_secret_basic' },
    ],
    [
      'as basic where nothing is listed',
      { token_endpoint_auth_methods_supported: null },
      { client_secret: 'hush' },
      { token_endpoint_auth_method: 'client_secret_basic' },
    ],
    [
      'posts it where only others are listed',
      methods('private_key_jwt'),
      { client_secret: 'hush' },
      { token_endpoint_auth_method: 'client_secret_post' },
    ],
    [
      'has none without a secret',
      methods('client_secret_post'),
      {},
      { token_endpoint_auth_method: 'none', client_secret: null },
    ],
  ])('%s', async (_, server, wish, out) => {
    const { found, asked } = obtainFrom(server, { client_id: 'ours', ...wish })
    expect(await found).toMatchObject({ registration: 'given', client_id: 'ours', ...out })
    expect(asked().filter(one => /register/.test(one))).toEqual([])
  })
})

describe('a registration request', () => {
  const usual = {
    client_name: 'Ours',
    redirect_uris: [REDIRECT_URI],
    grant_types: ['authorization_code', 'refresh_token'],
    response_types: ['code'],
    token_endpoint_auth_method: 'client_secret_post',
    application_type: 'web',
  }
  it.each<[string, ServerMembers, ServerMembers]>([
    ['all there is to say', {}, usual],
    ['the scopes', { scopes_supported: ['offline_access'] }, { ...usual, scope: 'offline_access' }],
    [
      'no refreshing where there is none',
      { grant_types_supported: ['authorization_code'] },
      { ...usual, grant_types: ['authorization_code'] },
    ],
    [
      'basic, if that is what there is',
      methods('none', 'client_secret_basic'),
      { ...usual, token_endpoint_auth_method: 'client_secret_basic' },
    ],
    [
      'basic, if nothing is listed',
      { token_endpoint_auth_methods_supported: undefined },
      { ...usual, token_endpoint_auth_method: 'client_secret_basic' },
    ],
    ['no secret, if that is all', methods('private_key_jwt', 'none'), { ...usual, token_endpoint_auth_method: 'none' }],
  ])('%s', async (_, server, body) => {
    expect(await lastRequestBody(obtainFrom(server))).toEqual(body)
  })
})

describe('a registration response', () => {
  const rejected = (about: string) => ({ code: 'registration_rejected', about })
  const unusable = { code: 'registration_invalid_response' }
  it.each<[string, unknown, ServerMembers]>([
    [
      'is whole',
      makeRegistrationHandler({
        client_secret_expires_at: 1_900_000_000,
        registration_client_uri: `${AUTH_ORIGIN}/clients/made`,
        registration_access_token: 'manage',
      }),
      {
        ...{
          registration: 'dynamic',
          client_id: 'made',
          client_secret: 'hush',
          token_endpoint_auth_method: 'client_secret_post',
        },
        ...{
          client_secret_expires_at: '2030-03-17T17:46:40.000Z',
          registration_client_uri: `${AUTH_ORIGIN}/clients/made`,
          registration_access_token: 'manage',
        },
      },
    ],
    ['may say 200', makeRegistrationHandler({}, 200), { client_id: 'made' }],
    [
      'its method counts',
      makeRegistrationHandler({ token_endpoint_auth_method: 'client_secret_basic' }),
      { token_endpoint_auth_method: 'client_secret_basic' },
    ],
    [
      'a method without secret leaves it out',
      makeRegistrationHandler({ token_endpoint_auth_method: 'none' }),
      { token_endpoint_auth_method: 'none', client_secret: null },
    ],
    [
      'without a method, the one that was asked for',
      makeRegistrationHandler({ token_endpoint_auth_method: undefined }),
      { token_endpoint_auth_method: 'client_secret_post' },
    ],
    [
      'without a method and a secret, none',
      respondWithJson(201, { client_id: 'made' }),
      { token_endpoint_auth_method: 'none', client_secret: null },
    ],
    [
      'an empty secret is none',
      respondWithJson(201, { client_id: 'made', client_secret: '', client_secret_expires_at: 9 }),
      { client_secret: null, client_secret_expires_at: null },
    ],
    ['0 is never', makeRegistrationHandler({ client_secret_expires_at: 0 }), { client_secret_expires_at: null }],
    ['null is never', makeRegistrationHandler({ client_secret_expires_at: null }), { client_secret_expires_at: null }],
    [
      'what no calendar reaches is never',
      makeRegistrationHandler({ client_secret_expires_at: 1e18 }),
      { client_secret_expires_at: null },
    ],
    [
      'management needs both',
      makeRegistrationHandler({ registration_client_uri: `${AUTH_ORIGIN}/clients/made` }),
      { registration_client_uri: null },
    ],
    [
      'management is not on the inside',
      makeRegistrationHandler({ registration_client_uri: 'https://10.0.0.1/', registration_access_token: 'manage' }),
      { registration_client_uri: null, registration_access_token: null },
    ],
    [
      'management of another shape is none',
      makeRegistrationHandler({ registration_client_uri: 1, registration_access_token: ['a'] }),
      { registration_client_uri: null },
    ],
    ['an expiry that is a text', makeRegistrationHandler({ client_secret_expires_at: 'never' }), unusable],
    ['an expiry before time', makeRegistrationHandler({ client_secret_expires_at: -1 }), unusable],
    ['no client_id', makeRegistrationHandler({ client_id: undefined }), unusable],
    ['a client_id that is a number', makeRegistrationHandler({ client_id: 7 }), unusable],
    ['a client_id that cannot be sent', makeRegistrationHandler({ client_id: 'a\0b' }), unusable],
    ['a secret that is a number', makeRegistrationHandler({ client_secret: 7 }), unusable],
    ['a secret that is missing', makeRegistrationHandler({ client_secret: null }), unusable],
    ['a method that we cannot', makeRegistrationHandler({ token_endpoint_auth_method: 'private_key_jwt' }), unusable],
    ['another redirect URI', makeRegistrationHandler({ redirect_uris: ['https://evil.example.com'] }), unusable],
    [
      'faults at many places, told once',
      makeRegistrationHandler({ redirect_uris: Array(5000).fill(0) }),
      { ...unusable, about: 'registration: auth.example.com: missing or invalid: `redirect_uris`' },
    ],
    ['no JSON', respondWithStatus(201, 'made'), unusable],
    ['nothing', respondWithStatus(204), unusable],
    [
      'an OAuth error',
      respondWithJson(400, { error: 'invalid_redirect_uri', error_description: 'not that one' }),
      rejected('registration: auth.example.com: 400 “invalid_redirect_uri: not that one”'),
    ],
    [
      'a code alone',
      respondWithJson(401, { error: 'invalid_token' }),
      rejected('registration: auth.example.com: 401 “invalid_token”'),
    ],
    [
      'words of its own',
      respondWithJson(422, { message: 'no', client_secret: 'hush' }),
      rejected('registration: auth.example.com: 422 “no”'),
    ],
    [
      'JSON that is not for people',
      respondWithJson(422, { client_secret: 'hush' }),
      rejected('registration: auth.example.com: 422 “”'),
    ],
    [
      'JSON that was cut',
      respondWithStatus(422, '{"client_secret": "hush"'),
      rejected('registration: auth.example.com: 422 “”'),
    ],
    [
      'a plain refusal',
      respondWithStatus(403, 'Forbidden'),
      rejected('registration: auth.example.com: 403 “Forbidden”'),
    ],
    ['a refusal without words', respondWithStatus(404), rejected('registration: auth.example.com: 404 “”')],
    [
      'a page, in one line, escaped and cut',
      respondWithStatus(403, `<b>no\n\n${'x'.repeat(90_000)}`),
      rejected(`registration: auth.example.com: 403 “\\u{3c}b\\u{3e}no ${'x'.repeat(194)}…”`),
    ],
    [
      'a failure',
      respondWithStatus(500, 'at secret.js:1'),
      { code: 'upstream_error', about: 'registration: auth.example.com: it answered 500' },
    ],
    [
      'a redirect is not followed',
      respondWithStatus(307, null, { Location: `${AUTH_ORIGIN}/elsewhere` }),
      { code: 'upstream_error', about: 'registration: auth.example.com: it answered 307' },
    ],
  ])('%s', async (_, answer, out) => {
    const { found } = registerWithAnswer(answer)
    expect(await found.catch(({ code, extra }) => ({ code, about: extra.about }))).toMatchObject(out)
  })

  it('with an unusable client unregisters that client', async () => {
    const managed = { registration_client_uri: `${AUTH_ORIGIN}/clients/made`, registration_access_token: 'manage' }
    const { found, asked, world } = registerWithAnswer(makeRegistrationHandler({ client_secret: 7, ...managed }))
    await expect(found).rejects.toMatchObject(unusable)
    expect(asked().at(-1)).toBe(`DELETE ${AUTH_ORIGIN}/clients/made`)
    expect(world.requests.at(-1)!.headers.get('Authorization')).toBe('Bearer manage')
  })
})

describe('a dynamic client', () => {
  const managed = { registration_client_uri: `${AUTH_ORIGIN}/clients/made`, registration_access_token: 'manage' }
  const expiring = { client_secret_expires_at: 1_900_000_000 }
  async function registered(more: ServerMembers, put: unknown) {
    const made = discoverAndRegister(
      makeValidSites(
        {},
        {
          'POST /register': makeRegistrationHandler({ ...expiring, ...more }),
          'PUT /clients/made': put,
          'DELETE /clients/made': 403,
        },
      ),
    )
    const found = await made.found
    const wish = { registration: 'auto', name: 'Ours', redirect_uri: REDIRECT_URI, document_url: null } as const
    return { ...made, found, renewed: () => renewClient(made.way, { ...found, warnings: [] }, found, wish) }
  }

  it('is renewed, and gets a new management token', async () => {
    const next = {
      client_id: 'made',
      client_secret: 'new',
      client_secret_expires_at: 1_950_000_000,
      registration_access_token: 'next',
      registration_client_uri: `${AUTH_ORIGIN}/clients/2`,
    }
    const { renewed, world, asked } = await registered(managed, respondWithJson(200, next))
    expect(await renewed()).toMatchObject({
      ...next,
      client_secret_expires_at: '2031-10-17T10:40:00.000Z',
      token_endpoint_auth_method: 'client_secret_post',
    })
    expect(asked().at(-1)).toBe(`PUT ${AUTH_ORIGIN}/clients/made`)
    const { headers, body } = world.requests.at(-1)!
    expect(headers.get('Authorization')).toBe('Bearer manage')
    expect(JSON.parse(body)).toMatchObject({ client_id: 'made', redirect_uris: [REDIRECT_URI] })
    expect(body).not.toContain('hush')
  })

  it('keeps the members that the response leaves out', async () => {
    const { renewed, found } = await registered(managed, respondWithJson(200, { client_id: 'made' }))
    expect(await renewed()).toMatchObject({
      client_secret: 'hush',
      client_secret_expires_at: found.client_secret_expires_at,
      ...managed,
    })
  })

  it.each<[string, ServerMembers, unknown, string]>([
    [
      'another client',
      managed,
      respondWithJson(200, { client_id: 'other', client_secret: 'new' }),
      'registration_invalid_response',
    ],
    ['one that is refused', managed, respondWithJson(401, { error: 'invalid_token' }), 'registration_rejected'],
    ['one that cannot be managed', {}, 200, 'registration_unsupported'],
  ])('is not renewed: %s', async (_, more, put, code) => {
    await expect((await registered(more, put)).renewed()).rejects.toMatchObject({ code })
  })

  it('is unregistered, even if the server refuses', async () => {
    const { way, found, asked } = await registered(managed, 200)
    await unregisterClient(way, found)
    expect(asked().at(-1)).toBe(`DELETE ${AUTH_ORIGIN}/clients/made`)
    await unregisterClient(way, { ...managed, registration_client_uri: 'https://gone.example.com/' })
    const before = asked().length
    await unregisterClient(way, { ...managed, registration_access_token: null })
    expect(asked()).toHaveLength(before)
  })
})

it('no error detail and no trace contains a secret', async () => {
  const secret = {
    client_secret: 'hush',
    registration_access_token: 'hush\n',
    registration_client_uri: `${AUTH_ORIGIN}/c?token=hush`,
  }
  for (const more of [{ client_id: 7 }, { client_id: 'made' }, { token_endpoint_auth_method: 'x' }]) {
    const { found, way } = discoverAndRegister({
      ...makeValidSites(
        {},
        {
          [SERVER_METADATA_PATH]: makeServerMetadata(AUTH_ORIGIN),
          '/register': makeRegistrationHandler({ ...secret, ...more }),
        },
      ),
    })
    const failure = await found.catch(error => error.extra)
    if (!('client_id' in failure)) expect(JSON.stringify(failure)).not.toContain('hush')
    expect(JSON.stringify(way.trace)).not.toContain('hush')
  }
})
