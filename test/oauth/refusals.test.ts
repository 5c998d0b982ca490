// Every refusal of a discovery as whoever asked has it: its code, the stage and the host, and what was asked of whom; never a secret.
import { afterEach, describe, expect, it } from 'vitest'
import { abroad, eventsOf, lines, newTenant } from '../support/app.ts'
import { foreign } from '../support/foreign.ts'
import {
  AUTH,
  challenged,
  json,
  MCP,
  ofResource,
  RESOURCE,
  type Sites,
  sound,
  speaking,
  status,
} from '../support/mcp.ts'
import { DISCOVER, discovery, PROVIDERS } from '../support/providers.ts'

afterEach(() => {
  abroad.fetch = foreign({})
})

const HUSH = 'hush-5512'
const register = (answer: unknown): Sites => sound({}, { 'POST /register': answer })
const hostile = { 'POST /mcp': challenged(`Bearer realm="${HUSH}"`) }

const cases: [code: string, status: number, about: string, Sites, more?: Record<string, unknown>][] = [
  ['blocked_url', 422, 'MCP server: 10.0.0.1: ', {}, { mcp_server_url: 'https://10.0.0.1/mcp' }],
  ['oauth_not_required', 422, 'MCP server: mcp.example.com: ', { [MCP]: { 'POST /mcp': 200 } }],
  [
    'resource_mismatch',
    422,
    'protected resource metadata: mcp.example.com: ',
    sound({ ...hostile, [`${RESOURCE}/mcp`]: ofResource('https://mcp.example.net/mcp', AUTH) }),
  ],
  [
    'issuer_mismatch',
    422,
    'authorization server metadata: auth.example.com: ',
    speaking({ issuer: `https://a:${HUSH}@auth.example.net/?${HUSH}` }),
  ],
  [
    'pkce_unsupported',
    422,
    'authorization server metadata: auth.example.com: ',
    speaking({ code_challenge_methods_supported: undefined }),
  ],
  ['metadata_invalid', 422, 'authorization server metadata: auth.example.com: ', speaking({ token_endpoint: null })],
  [
    'unsafe_endpoint',
    422,
    'authorization server metadata: auth.example.com: ',
    speaking({ token_endpoint: `http://auth.example.com/t?${HUSH}` }),
  ],
  [
    'grant_unsupported',
    422,
    'authorization server metadata: auth.example.com: ',
    speaking({ response_types_supported: [] }),
  ],
  ['registration_unsupported', 422, 'registration: auth.example.com: ', speaking({ registration_endpoint: null })],
  [
    'registration_rejected',
    422,
    'registration: auth.example.com: ',
    register(json(400, { error: 'invalid_redirect_uri' })),
  ],
  [
    'registration_invalid_response',
    422,
    'registration: auth.example.com: ',
    register(json(201, { client_id: '', client_secret: HUSH })),
  ],
  ['upstream_error', 502, 'MCP server: mcp.example.com: ', {}],
  ['upstream_error', 502, 'registration: auth.example.com: ', register(status(500, HUSH))],
]

describe('a refusal says where it came to it', () => {
  it.each(cases)('%s %i %s', async (code, wanted, about, sites, more) => {
    abroad.fetch = foreign(sites)
    const tenant = await newTenant()
    const { status, body, text, headers } = await tenant.post(DISCOVER, discovery(more))
    expect([status, body.code]).toEqual([wanted, code])
    expect(body.detail).toContain(about)
    // What never left has no trace.
    if (more) expect(body.trace).toBeUndefined()
    else expect(body.trace.length).toBeGreaterThan(0)
    const [stage, host] = about.split(': ')
    const asked = body.trace?.map((hop: { stage: string; url: string }) => [hop.stage, new URL(hop.url).host])
    if (asked && code !== 'registration_unsupported') expect(asked).toContainEqual([stage, host])
    const events = await eventsOf(headers.get('X-Request-Id')!)
    expect(events).toEqual([])
    expect(text + JSON.stringify(lines)).not.toContain(HUSH)
    expect((await tenant.get(PROVIDERS)).body).toEqual([])
    const dry = await tenant.post(`${DISCOVER}?dry_run=true`, discovery(more))
    if (about.startsWith('registration: ') && code !== 'registration_unsupported') expect(dry.status).toBe(200)
    else expect([dry.body.code, dry.body.trace?.length]).toEqual([code, body.trace?.length])
  })

  it('upstream_timeout 504', async () => {
    abroad.fetch = foreign({ ...sound({}, { 'POST /register': () => new Promise(() => {}) }) })
    const { status, body } = await (await newTenant()).post(DISCOVER, discovery())
    expect([status, body.code]).toEqual([504, 'upstream_timeout'])
    expect(body.detail).toContain('registration: auth.example.com: ')
    expect(body.trace.at(-1)).toMatchObject({ stage: 'registration', outcome: 'upstream_timeout', status: null })
  })

  it('of an address that is none there is no host', async () => {
    const { status, body } = await (await newTenant()).post(DISCOVER, discovery({ mcp_server_url: 'nowhere' }))
    expect([status, body.code, body.trace]).toEqual([422, 'invalid_mcp_server_url', undefined])
  })
})
