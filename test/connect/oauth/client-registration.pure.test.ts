import { describe, expect, it } from 'vitest'
import { chooseRegistration, renewClient, unregisterClient } from '../../../src/connect/oauth/client-registration.ts'
import type { DiscoveredServer } from '../../../src/connect/oauth/mcp-discovery.ts'
import type { Client, ClientRequest } from '../../../src/connect/oauth/oauth-client.ts'
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
} from '../../support/mcp-sites.ts'

type ServerMembers = Record<string, unknown>
const DOCUMENT = 'https://slipway.example.com/.well-known/oauth-client.json/p'
const documents = { client_id_metadata_document_supported: true }
const authMethods = (...token_endpoint_auth_methods_supported: string[]) => ({ token_endpoint_auth_methods_supported })
const obtainFrom = (server: ServerMembers, wish: Partial<ClientRequest> = {}) =>
  discoverAndRegister(makeSitesWithMetadata(server), { wish })
const registerWithResponse = (answer: unknown) => discoverAndRegister(makeValidSites({}, { 'POST /register': answer }))
const lastRequestBody = async ({ result: found, fakeFetch: world }: ReturnType<typeof discoverAndRegister>) => {
  await found
  return JSON.parse(world.requests.at(-1)!.body)
}

describe('the choice of a registration', () => {
  const noEndpoint = { registration_endpoint: undefined }
  it.each<[string, ServerMembers, Partial<ClientRequest>, string | { code: string }]>([
    ['a given client comes first', documents, { client_id: 'ours', document_url: DOCUMENT }, 'given'],
    ['a metadata document comes second', documents, { document_url: DOCUMENT }, 'metadata_document'],
    ['without a document URL, registration is dynamic', documents, {}, 'dynamic'],
    ['at a server without support for documents, registration is dynamic', {}, { document_url: DOCUMENT }, 'dynamic'],
    ['without any possible registration, discovery fails', noEndpoint, {}, { code: 'registration_unsupported' }],
    [
      'dynamic registration can be requested',
      documents,
      { client_id: 'ours', document_url: DOCUMENT, registration: 'dynamic' },
      'dynamic',
    ],
    [
      'a request for dynamic registration fails without an endpoint',
      noEndpoint,
      { client_id: 'ours', registration: 'dynamic' },
      { code: 'registration_unsupported' },
    ],
    [
      'a request for a metadata document fails without support of the server',
      {},
      { document_url: DOCUMENT, registration: 'metadata_document' },
      { code: 'registration_unsupported' },
    ],
    [
      'a request for a given client fails without a client id',
      {},
      { registration: 'given' },
      { code: 'registration_unsupported' },
    ],
    [
      'a server with unsupported authentication methods is refused',
      authMethods('private_key_jwt'),
      {},
      { code: 'registration_unsupported' },
    ],
    [
      'a server with an empty list of authentication methods is refused',
      authMethods(),
      {},
      { code: 'registration_unsupported' },
    ],
    [
      'an empty registration endpoint counts as missing',
      { registration_endpoint: '' },
      {},
      { code: 'registration_unsupported' },
    ],
  ])('%s', async (_, server, wish, out) => {
    const { result: found } = obtainFrom(server, wish)
    if (typeof out === 'string') expect(await found).toMatchObject({ registration: out })
    else await expect(found).rejects.toMatchObject(out)
  })

  it('names the endpoints in its failure, so that a person can register a client manually', async () => {
    const { extra } = await obtainFrom(noEndpoint).result.then(
      () => expect.unreachable(),
      error => error,
    )
    expect(extra.about).toMatch(/^registration: auth\.example\.com: /)
    for (const endpoint of [`${AUTH_ORIGIN}/authorize`, `${AUTH_ORIGIN}/token`]) expect(extra.about).toContain(endpoint)
  })

  it('is made without a request', () => {
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
      'sends its secret in the body if the server accepts that',
      authMethods('client_secret_basic', 'client_secret_post'),
      { client_secret: 'hush' },
      { token_endpoint_auth_method: 'client_secret_post', client_secret: 'hush' },
    ],
    [
      'else sends its secret in the Basic header',
      authMethods('none', 'client_secret_basic'),
      { client_secret: 'hush' },
      { token_endpoint_auth_method: 'client_secret_basic' },
    ],
    [
      'sends its secret in the Basic header if no methods are listed',
      { token_endpoint_auth_methods_supported: null },
      { client_secret: 'hush' },
      { token_endpoint_auth_method: 'client_secret_basic' },
    ],
    [
      'sends its secret in the body if only unsupported methods are listed',
      authMethods('private_key_jwt'),
      { client_secret: 'hush' },
      { token_endpoint_auth_method: 'client_secret_post' },
    ],
    [
      'uses no authentication if it has no secret',
      authMethods('client_secret_post'),
      {},
      { token_endpoint_auth_method: 'none', client_secret: null },
    ],
  ])('%s', async (_, server, wish, out) => {
    const { result: found, listRequests: asked } = obtainFrom(server, { client_id: 'ours', ...wish })
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
    ['contains the whole client', {}, usual],
    ['contains the scopes', { scopes_supported: ['offline_access'] }, { ...usual, scope: 'offline_access' }],
    [
      'omits the refresh grant if the server does not support it',
      { grant_types_supported: ['authorization_code'] },
      { ...usual, grant_types: ['authorization_code'] },
    ],
    [
      'requests client_secret_basic if the server supports that and none',
      authMethods('none', 'client_secret_basic'),
      { ...usual, token_endpoint_auth_method: 'client_secret_basic' },
    ],
    [
      'requests client_secret_basic if no methods are listed',
      { token_endpoint_auth_methods_supported: undefined },
      { ...usual, token_endpoint_auth_method: 'client_secret_basic' },
    ],
    [
      'requests no secret if the server supports nothing else',
      authMethods('private_key_jwt', 'none'),
      { ...usual, token_endpoint_auth_method: 'none' },
    ],
  ])('%s', async (_, server, body) => {
    expect(await lastRequestBody(obtainFrom(server))).toEqual(body)
  })
})

describe('a registration response', () => {
  const rejected = (about: string) => ({ code: 'registration_rejected', about })
  const unusable = { code: 'registration_invalid_response' }
  it.each<[string, unknown, ServerMembers]>([
    [
      'is stored with its secret, expiry and management URL',
      makeRegistrationHandler({
        client_secret_expires_at: 1_900_000_000,
        registration_client_uri: `${AUTH_ORIGIN}/clients/made`,
        registration_access_token: 'manage',
      }),
      {
        registration: 'dynamic',
        client_id: 'made',
        client_secret: 'hush',
        token_endpoint_auth_method: 'client_secret_post',
        client_secret_expires_at: '2030-03-17T17:46:40.000Z',
        registration_client_uri: `${AUTH_ORIGIN}/clients/made`,
        registration_access_token: 'manage',
      },
    ],
    ['can have status 200', makeRegistrationHandler({}, 200), { client_id: 'made' }],
    [
      'decides the authentication method',
      makeRegistrationHandler({ token_endpoint_auth_method: 'client_secret_basic' }),
      { token_endpoint_auth_method: 'client_secret_basic' },
    ],
    [
      'with the method none has its secret dropped',
      makeRegistrationHandler({ token_endpoint_auth_method: 'none' }),
      { token_endpoint_auth_method: 'none', client_secret: null },
    ],
    [
      'without a method means the requested one',
      makeRegistrationHandler({ token_endpoint_auth_method: undefined }),
      { token_endpoint_auth_method: 'client_secret_post' },
    ],
    [
      'without a method and a secret means the method none',
      respondWithJson(201, { client_id: 'made' }),
      { token_endpoint_auth_method: 'none', client_secret: null },
    ],
    [
      'with an empty secret has no secret',
      respondWithJson(201, { client_id: 'made', client_secret: '', client_secret_expires_at: 9 }),
      { client_secret: null, client_secret_expires_at: null },
    ],
    [
      'with the expiry 0 does not expire',
      makeRegistrationHandler({ client_secret_expires_at: 0 }),
      { client_secret_expires_at: null },
    ],
    [
      'with the expiry null does not expire',
      makeRegistrationHandler({ client_secret_expires_at: null }),
      { client_secret_expires_at: null },
    ],
    [
      'with an expiry beyond the range of dates does not expire',
      makeRegistrationHandler({ client_secret_expires_at: 1e18 }),
      { client_secret_expires_at: null },
    ],
    [
      'with a management URL but no management token has neither',
      makeRegistrationHandler({ registration_client_uri: `${AUTH_ORIGIN}/clients/made` }),
      { registration_client_uri: null },
    ],
    [
      'with an internal management URL has no management',
      makeRegistrationHandler({ registration_client_uri: 'https://10.0.0.1/', registration_access_token: 'manage' }),
      { registration_client_uri: null, registration_access_token: null },
    ],
    [
      'with a management URL and token of wrong types has no management',
      makeRegistrationHandler({ registration_client_uri: 1, registration_access_token: ['a'] }),
      { registration_client_uri: null },
    ],
    ['with an expiry in words is refused', makeRegistrationHandler({ client_secret_expires_at: 'never' }), unusable],
    ['with a negative expiry is refused', makeRegistrationHandler({ client_secret_expires_at: -1 }), unusable],
    ['without a client_id is refused', makeRegistrationHandler({ client_id: undefined }), unusable],
    ['with a number as client_id is refused', makeRegistrationHandler({ client_id: 7 }), unusable],
    ['with a NUL in its client_id is refused', makeRegistrationHandler({ client_id: 'a\0b' }), unusable],
    ['with a number as secret is refused', makeRegistrationHandler({ client_secret: 7 }), unusable],
    ['without the secret that its method needs is refused', makeRegistrationHandler({ client_secret: null }), unusable],
    [
      'with an unsupported method is refused',
      makeRegistrationHandler({ token_endpoint_auth_method: 'private_key_jwt' }),
      unusable,
    ],
    [
      'with another redirect URI is refused',
      makeRegistrationHandler({ redirect_uris: ['https://evil.example.com'] }),
      unusable,
    ],
    [
      'with many faults in one member is refused with that member named once',
      makeRegistrationHandler({ redirect_uris: Array(5000).fill(0) }),
      { ...unusable, about: 'registration: auth.example.com: missing or invalid: `redirect_uris`' },
    ],
    ['that is not JSON is refused', respondWithStatus(201, 'made'), unusable],
    ['that is empty is refused', respondWithStatus(204), unusable],
    [
      'with an OAuth error is quoted with code and description',
      respondWithJson(400, { error: 'invalid_redirect_uri', error_description: 'not that one' }),
      rejected('registration: auth.example.com: 400 “invalid_redirect_uri: not that one”'),
    ],
    [
      'with an OAuth error without description is quoted with its code',
      respondWithJson(401, { error: 'invalid_token' }),
      rejected('registration: auth.example.com: 401 “invalid_token”'),
    ],
    [
      'with a message is quoted with that message only',
      respondWithJson(422, { message: 'no', client_secret: 'hush' }),
      rejected('registration: auth.example.com: 422 “no”'),
    ],
    [
      'with other JSON is not quoted',
      respondWithJson(422, { client_secret: 'hush' }),
      rejected('registration: auth.example.com: 422 “”'),
    ],
    [
      'with incomplete JSON is not quoted',
      respondWithStatus(422, '{"client_secret": "hush"'),
      rejected('registration: auth.example.com: 422 “”'),
    ],
    [
      'with plain text is quoted',
      respondWithStatus(403, 'Forbidden'),
      rejected('registration: auth.example.com: 403 “Forbidden”'),
    ],
    [
      'with an error status and no body has nothing to quote',
      respondWithStatus(404),
      rejected('registration: auth.example.com: 404 “”'),
    ],
    [
      'with a long page is quoted in one line, escaped and cut',
      respondWithStatus(403, `<b>no\n\n${'x'.repeat(90_000)}`),
      rejected(`registration: auth.example.com: 403 “\\u{3c}b\\u{3e}no ${'x'.repeat(194)}…”`),
    ],
    [
      'with status 500 is an upstream error',
      respondWithStatus(500, 'at secret.js:1'),
      { code: 'upstream_error', about: 'registration: auth.example.com: it answered 500' },
    ],
    [
      'with a redirect is not followed',
      respondWithStatus(307, null, { Location: `${AUTH_ORIGIN}/elsewhere` }),
      { code: 'upstream_error', about: 'registration: auth.example.com: it answered 307' },
    ],
  ])('%s', async (_, answer, out) => {
    const { result: found } = registerWithResponse(answer)
    expect(await found.catch(({ code, extra }) => ({ code, about: extra.about }))).toMatchObject(out)
  })

  it('that is refused has its client unregistered', async () => {
    const managed = { registration_client_uri: `${AUTH_ORIGIN}/clients/made`, registration_access_token: 'manage' }
    const {
      result: found,
      listRequests: asked,
      fakeFetch: world,
    } = registerWithResponse(makeRegistrationHandler({ client_secret: 7, ...managed }))
    await expect(found).rejects.toMatchObject(unusable)
    expect(asked().at(-1)).toBe(`DELETE ${AUTH_ORIGIN}/clients/made`)
    expect(world.requests.at(-1)!.headers.get('Authorization')).toBe('Bearer manage')
  })
})

describe('a dynamic client', () => {
  const managed = { registration_client_uri: `${AUTH_ORIGIN}/clients/made`, registration_access_token: 'manage' }
  const expiring = { client_secret_expires_at: 1_900_000_000 }
  async function registerClient(more: ServerMembers, put: unknown) {
    const discovery = discoverAndRegister(
      makeValidSites(
        {},
        {
          'POST /register': makeRegistrationHandler({ ...expiring, ...more }),
          'PUT /clients/made': put,
          'DELETE /clients/made': 403,
        },
      ),
    )
    const found = await discovery.result
    const wish = { registration: 'auto', name: 'Ours', redirect_uri: REDIRECT_URI, document_url: null } as const
    return { ...discovery, found, renew: () => renewClient(discovery.client, { ...found, warnings: [] }, found, wish) }
  }

  it('is renewed with a new secret and a new management token', async () => {
    const next = {
      client_id: 'made',
      client_secret: 'new',
      client_secret_expires_at: 1_950_000_000,
      registration_access_token: 'next',
      registration_client_uri: `${AUTH_ORIGIN}/clients/2`,
    }
    const { renew, fakeFetch: world, listRequests: asked } = await registerClient(managed, respondWithJson(200, next))
    expect(await renew()).toMatchObject({
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

  it('keeps the members that the response to a renewal omits', async () => {
    const { renew, found } = await registerClient(managed, respondWithJson(200, { client_id: 'made' }))
    expect(await renew()).toMatchObject({
      client_secret: 'hush',
      client_secret_expires_at: found.client_secret_expires_at,
      ...managed,
    })
  })

  it.each<[string, ServerMembers, unknown, string]>([
    [
      'the response has another client id',
      managed,
      respondWithJson(200, { client_id: 'other', client_secret: 'new' }),
      'registration_invalid_response',
    ],
    ['the server refuses', managed, respondWithJson(401, { error: 'invalid_token' }), 'registration_rejected'],
    ['it has no management URL', {}, 200, 'registration_unsupported'],
  ])('is not renewed if %s', async (_, more, put, code) => {
    await expect((await registerClient(more, put)).renew()).rejects.toMatchObject({ code })
  })

  it('is unregistered without an error if the server refuses, is gone or offers no management', async () => {
    const { client: way, found, listRequests: asked } = await registerClient(managed, 200)
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
    const { result: found, client: way } = discoverAndRegister({
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
