// The metadata is recorded, with its deviations from the standards.
import { describe, expect, it } from 'vitest'
import {
  type DiscoveryScenario,
  discoverAndRegister,
  RESOURCE_METADATA_PATH,
  SERVER_METADATA_PATH,
} from '../../support/mcp-sites.ts'
import { realServers } from '../../support/real-servers.ts'

type Case = [
  name: string,
  server: { server: string; sites: Parameters<typeof discoverAndRegister>[0] },
  expected: object,
  scenario?: DiscoveryScenario,
]
const { github, atlassian, slack, google, sentry, figma, entra, cognito, retool, linear, ...others } = realServers
const DOCUMENT = 'https://slipway.example.com/.well-known/oauth-client.json/p'
const ownClient = { wish: { client_id: 'ours', client_secret: 'hush' } }
const assumeS256At = (host: string): DiscoveryScenario => ({
  ...ownClient,
  options: { assumeS256: one => one === host },
})

const cases: Case[] = [
  ['GitHub offers no registration of clients', github, { code: 'registration_unsupported' }],
  [
    'GitHub accepts a given client',
    github,
    {
      issuer: 'https://github.com/login/oauth',
      resource: 'https://api.githubcopilot.com/mcp',
      token_url: 'https://github.com/login/oauth/access_token',
      scopes: ['repo', 'read:org'],
      registration: 'given',
      client_id: 'ours',
      token_endpoint_auth_method: 'client_secret_basic',
    },
    ownClient,
  ],
  ['Atlassian is refused, because its issuer lacks the path', atlassian, { code: 'issuer_mismatch' }],
  [
    'the older server of Atlassian is refused, because its issuer has another host',
    atlassian,
    { code: 'issuer_mismatch' },
    { server: 'https://mcp.atlassian.com/v1/mcp' },
  ],
  ['Slack is refused, because its issuer has another host', slack, { code: 'issuer_mismatch' }, ownClient],
  ['Google offers no registration of clients', google, { code: 'registration_unsupported' }],
  [
    'Google accepts a given client, with a slash after its issuer and tokens at another host',
    google,
    {
      issuer: 'https://accounts.google.com',
      token_url: 'https://oauth2.googleapis.com/token',
      token_endpoint_auth_method: 'client_secret_post',
      warnings: ['issuer_slash'],
    },
    ownClient,
  ],
  [
    'Sentry registers a client, though its first metadata URL does not exist',
    sentry,
    { resource: sentry.server, registration: 'dynamic' },
  ],
  ['Figma registers no unknown client', figma, { code: 'registration_rejected', about: '403 “Forbidden”' }],
  [
    'Figma registers a known client, with status 200',
    figma,
    { registration: 'dynamic', client_id: 'made', scopes: ['mcp:connect'] },
    { wish: { name: 'Known' } },
  ],
  ['Entra is refused, because it lists no PKCE methods', entra, { code: 'pkce_unsupported' }, ownClient],
  [
    'Entra accepts a given client if the organization assumes S256',
    entra,
    { registration: 'given', scopes: ['offline_access'], uses_pkce: true, warnings: ['pkce_assumed'] },
    assumeS256At('login.microsoftonline.com'),
  ],
  ['Cognito is refused, because it lists no PKCE methods', cognito, { code: 'pkce_unsupported' }, ownClient],
  [
    'Cognito accepts a given client if the organization assumes S256',
    cognito,
    { auth_url: 'https://acme.auth.us-east-1.amazoncognito.com/oauth2/authorize', warnings: ['pkce_assumed'] },
    assumeS256At('cognito-idp.us-east-1.amazonaws.com'),
  ],
  [
    'Retool can be discovered, though one of its metadata documents is private',
    retool,
    { resource: retool.server, warnings: [] },
  ],
  [
    'Linear accepts a client metadata document',
    linear,
    { registration: 'metadata_document', client_id: DOCUMENT, client_secret: null, token_endpoint_auth_method: 'none' },
    { wish: { document_url: DOCUMENT } },
  ],
  [
    'Linear registers a client with the requested authentication method',
    linear,
    { registration: 'dynamic', client_secret: 'hush', token_endpoint_auth_method: 'client_secret_post' },
    { wish: { document_url: DOCUMENT, registration: 'dynamic' } },
  ],
  [
    'a single-page app that answers every path with a page requires no OAuth',
    others.singlePage,
    { code: 'oauth_not_required' },
  ],
  [
    'Todoist has its authorization server at another host',
    others.todoist,
    { issuer: 'https://todoist.com', warnings: [] },
  ],
  [
    'Supabase has its authorization server at another host',
    others.supabase,
    { issuer: 'https://api.supabase.com', warnings: [] },
  ],
  ['a server without authorization requires no OAuth', others.open, { code: 'oauth_not_required' }, ownClient],
]

describe('discovery of real servers:', () => {
  it.each(cases)('%s', async (_, { server, sites }, expected, scenario) => {
    const { result: found, listRequests: asked, fakeFetch: world } = discoverAndRegister(sites, { server, ...scenario })
    const outcome = await found.catch(({ code, extra }) => ({ code, about: extra.about }))
    const { about = '', ...rest } = expected as { about?: string }
    expect(outcome).toMatchObject(rest)
    if (about) expect(outcome).toMatchObject({ about: expect.stringContaining(about) })
    expect(world.requests.filter(({ refused }) => refused)).toEqual([])
    const isRegistered = (outcome as { registration?: string }).registration === 'dynamic' || about !== ''
    expect(asked().filter(one => /^POST .*register$/.test(one))).toHaveLength(isRegistered ? 1 : 0)
  })

  it('GitHub gets requests only for the metadata of its own path', async () => {
    const { result: found, listRequests: asked } = discoverAndRegister(github.sites, {
      server: github.server,
      ...ownClient,
    })
    await found
    expect(asked()).toEqual([
      'POST https://api.githubcopilot.com/mcp/',
      `GET https://api.githubcopilot.com${RESOURCE_METADATA_PATH}/mcp/`,
      `GET https://github.com${SERVER_METADATA_PATH}/login/oauth`,
    ])
  })
})
