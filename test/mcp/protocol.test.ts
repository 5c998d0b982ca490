// The protocol at /mcp: both eras, who may call, and what is refused before a tool runs.
import { describe, expect, it } from 'vitest'
import { newApiKey } from '../../src/kernel/crypto.ts'
import { newTenant } from '../support/app.ts'
import { connectMcp, type Era, postMcp } from '../support/mcp.ts'

const ERAS: Era[] = ['2026-07-28', '2025-11-25', '2025-06-18', '2025-03-26']
const initialize = (protocolVersion: string) => ({
  jsonrpc: '2.0',
  id: 1,
  method: 'initialize',
  params: { protocolVersion, capabilities: {}, clientInfo: { name: 'test', version: '1' } },
})

describe.each(ERAS)('the protocol of %s', era => {
  it('begins, lists tools, and calls one', async () => {
    const tenant = await newTenant()
    const client = connectMcp(tenant.key, { era })
    if (era === '2026-07-28') {
      const { result } = (await client.request('server/discover')).body
      expect(result.supportedVersions).toEqual([era])
    } else {
      const reply = await postMcp(initialize(era), { 'X-Api-Key': tenant.key })
      expect(reply.body.result).toMatchObject({ protocolVersion: era, serverInfo: { name: 'slipway' } })
      expect(reply.headers.has('Mcp-Session-Id')).toBe(false)
      const done = await postMcp(
        { jsonrpc: '2.0', method: 'notifications/initialized' },
        { 'X-Api-Key': tenant.key, 'MCP-Protocol-Version': era },
      )
      expect([done.status, done.body]).toEqual([202, ''])
    }
    expect((await client.listTools()).map(({ name }) => name)).toContain('whoami')
    const { data } = await client.call('whoami')
    expect(data.workspaces).toMatchObject([{ id: tenant.tenant_id }])
  })
})

describe('a request without a valid key', () => {
  it.each(['tools/call', 'tools/list', 'resources/read'])(
    'is answered 401 by %s, with where to sign in',
    async method => {
      const params = method === 'resources/read' ? { uri: 'slipway://deployments/any' } : { name: 'whoami' }
      for (const era of ERAS) {
        const { status, headers, body } = await connectMcp(newApiKey(), { era }).request(method, params)
        expect([status, body.code]).toEqual([401, 'key_unknown'])
        expect(headers.get('WWW-Authenticate')).toBe(
          'Bearer error="invalid_token", resource_metadata="http://slipway.test/.well-known/oauth-protected-resource/mcp"',
        )
      }
    },
  )

  it('that names none is answered 401, too', async () => {
    const { status, headers, body } = await postMcp(initialize('2025-11-25'), {})
    expect([status, body.code]).toEqual([401, 'key_missing'])
    expect(headers.get('WWW-Authenticate')).toMatch(/^Bearer resource_metadata="http:/)
  })
})
