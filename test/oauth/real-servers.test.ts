// Recorded metadata of real servers with their deviations: the result for each, and the requests to it.
import { describe, expect, it } from 'vitest'
import {
  type DiscoveryScenario,
  discoverAndRegister,
  RESOURCE_METADATA_PATH,
  SERVER_METADATA_PATH,
} from '../support/mcp-sites.ts'
import { realServers } from '../support/real-servers.ts'

type Case = [
  name: string,
  server: { server: string; sites: Parameters<typeof discoverAndRegister>[0] },
  out: object,
  way?: DiscoveryScenario,
]
const { github, atlassian, slack, google, sentry, figma, entra, cognito, retool, linear, ...others } = realServers
const DOCUMENT = 'https://slipway.example.com/.well-known/oauth-client.json/p'
const ownClient = { wish: { client_id: 'ours', client_secret: 'hush' } }
const assumeS256At = (host: string): DiscoveryScenario => ({
  ...ownClient,
  options: { assumeS256: one => one === host },
})

const cases: Case[] = [
  ['GitHub registers nobody', github, { code: 'registration_unsupported' }],
  [
    'GitHub takes a client of ours',
    github,
    {
      ...{ issuer: 'https://github.com/login/oauth', resource: 'https://api.githubcopilot.com/mcp' },
      ...{ token_url: 'https://github.com/login/oauth/access_token', scopes: ['repo', 'read:org'] },
      ...{ registration: 'given', client_id: 'ours', token_endpoint_auth_method: 'client_secret_basic' },
    },
    ownClient,
  ],
  ['Atlassian names an issuer without its path', atlassian, { code: 'issuer_mismatch' }],
  [
    'Atlassian, the older way, names another host',
    atlassian,
    { code: 'issuer_mismatch' },
    { server: 'https://mcp.atlassian.com/v1/mcp' },
  ],
  ['Slack names the issuer of another host', slack, { code: 'issuer_mismatch' }, ownClient],
  ['Google registers nobody', google, { code: 'registration_unsupported' }],
  [
    'Google is listed with a slash, and has its tokens elsewhere',
    google,
    {
      ...{ issuer: 'https://accounts.google.com', token_url: 'https://oauth2.googleapis.com/token' },
      ...{ token_endpoint_auth_method: 'client_secret_post', warnings: ['issuer_slash'] },
    },
    ownClient,
  ],
  ['Sentry names two places, of which the first is none', sentry, { resource: sentry.server, registration: 'dynamic' }],
  ['Figma does not know us', figma, { code: 'registration_rejected', about: '403 “Forbidden”' }],
  [
    'Figma knows a client, and says 200',
    figma,
    { registration: 'dynamic', client_id: 'made', scopes: ['mcp:connect'] },
    { wish: { name: 'Known' } },
  ],
  ['Entra lists no methods of PKCE', entra, { code: 'pkce_unsupported' }, ownClient],
  [
    'Entra, where the organization assumes them',
    entra,
    { registration: 'given', scopes: ['offline_access'], uses_pkce: true, warnings: ['pkce_assumed'] },
    assumeS256At('login.microsoftonline.com'),
  ],
  ['Cognito lists no methods of PKCE', cognito, { code: 'pkce_unsupported' }, ownClient],
  [
    'Cognito, where the organization assumes them',
    cognito,
    { auth_url: 'https://acme.auth.us-east-1.amazoncognito.com/oauth2/authorize', warnings: ['pkce_assumed'] },
    assumeS256At('cognito-idp.us-east-1.amazonaws.com'),
  ],
  ['Retool keeps one document to itself, and shows the other', retool, { resource: retool.server, warnings: [] }],
  [
    'Linear takes our document',
    linear,
    { registration: 'metadata_document', client_id: DOCUMENT, client_secret: null, token_endpoint_auth_method: 'none' },
    { wish: { document_url: DOCUMENT } },
  ],
  [
    'Linear registers, by the method that was asked for',
    linear,
    { registration: 'dynamic', client_secret: 'hush', token_endpoint_auth_method: 'client_secret_post' },
    { wish: { document_url: DOCUMENT, registration: 'dynamic' } },
  ],
  ['a single-page app answers everything', others.singlePage, { code: 'oauth_not_required' }],
  ['Todoist has its authorization server elsewhere', others.todoist, { issuer: 'https://todoist.com', warnings: [] }],
  [
    'Supabase has its authorization server elsewhere',
    others.supabase,
    { issuer: 'https://api.supabase.com', warnings: [] },
  ],
  ['an open server', others.open, { code: 'oauth_not_required' }, ownClient],
]

describe('real servers', () => {
  it.each(cases)('%s', async (_, { server, sites }, out, way) => {
    const { found, asked, world } = discoverAndRegister(sites, { server, ...way })
    const outcome = await found.catch(({ code, extra }) => ({ code, about: extra.about }))
    const { about = '', ...rest } = out as { about?: string }
    expect(outcome).toMatchObject(rest)
    if (about) expect(outcome).toMatchObject({ about: expect.stringContaining(about) })
    expect(world.requests.filter(({ refused }) => refused)).toEqual([])
    const registers = (outcome as { registration?: string }).registration === 'dynamic' || about !== ''
    expect(asked().filter(one => /^POST .*register$/.test(one))).toHaveLength(registers ? 1 : 0)
  })

  it('GitHub gets requests below its path only', async () => {
    const { found, asked } = discoverAndRegister(github.sites, { server: github.server, ...ownClient })
    await found
    expect(asked()).toEqual([
      'POST https://api.githubcopilot.com/mcp/',
      `GET https://api.githubcopilot.com${RESOURCE_METADATA_PATH}/mcp/`,
      `GET https://github.com${SERVER_METADATA_PATH}/login/oauth`,
    ])
  })
})
