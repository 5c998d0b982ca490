// The SDKs' own clients of both eras at /mcp, over HTTP and through the proxy of `slipway mcp`.
import { PassThrough } from 'node:stream'
import type { Transport } from '@modelcontextprotocol/client'
import { describe, expect, it, onTestFinished } from 'vitest'
import { runProxy } from '../../../src/cli/mcp-proxy.ts'
import { getApp, newTenant, type Tenant } from '../../support/app.ts'
import { serveApp } from '../../support/cli.ts'
import { makeImageBody } from '../../support/deployment-bodies.ts'
import { type Answer, CLIENTS, canBeAsked, connect, type Server } from '../../support/mcp-clients.ts'

const overHttp = async ({ key }: Tenant): Promise<Server> => ({
  url: 'http://slipway.test/mcp',
  headers: { Authorization: `Bearer ${key}` },
  fetch: async (input, init) => getApp().fetch(new Request(input, init)),
})

async function throughProxy({ key }: Tenant): Promise<Server> {
  const { url } = await serveApp()
  const input = new PassThrough()
  const transport: Transport = {
    async start() {
      const write = (message: unknown) => transport.onmessage?.(message as never)
      const login = () => ({ url, key, from: 'the test' })
      const { signal } = new AbortController()
      const ended = runProxy({ input, write, note: () => {}, login, userAgent: 'slipway-cli/test', signal })
      onTestFinished(() => ended)
    },
    send: async message => void input.write(`${JSON.stringify(message)}\n`),
    async close() {
      input.end()
      transport.onclose?.()
    },
  }
  return { transport }
}

describe.each([
  ['HTTP', overHttp],
  ['slipway mcp', throughProxy],
])('over %s', (_, open) => {
  it.each(CLIENTS)('%s plans, is asked if it can be, applies, and reads the result', async name => {
    const tenant = await newTenant()
    let answer: Answer = 'decline'
    const client = await connect(name, await open(tenant), () => answer)
    onTestFinished(() => client.close())
    expect(client.protocol).toMatch(canBeAsked(name) ? /^2026/ : /^2025/)
    const { structuredContent: me } = await client.call('whoami')
    expect(me.workspaces).toMatchObject([{ id: tenant.tenant_id }])

    const body = { ...makeImageBody({ name: 'shop' }), secrets: [{ name: 'TOKEN', value: 'hush-hush' }] }
    const change = { change: 'create', body }
    const { plan_digest } = (await client.call('plan_change', change)).structuredContent
    const count = async () => (await tenant.get('/v2/deployments')).body.resources.length
    if (canBeAsked(name)) {
      const { isError, structuredContent } = await client.call('apply_plan', { ...change, plan_digest })
      expect([isError, structuredContent.code, await count()]).toEqual([true, 'not_confirmed', 0])
      expect(client.questions).toEqual([expect.stringContaining('shop')])
      answer = 'accept'
    }
    const applied = await client.call('apply_plan', { ...change, plan_digest })
    expect([applied.isError, await count()]).toEqual([false, 1])
    const resource = await client.resourceText('slipway://deployments/shop')
    expect(resource).toContain(applied.structuredContent.deployment_id)
    expect(resource).not.toContain('hush-hush')
    expect(await client.complete('sh')).toEqual(['shop'])
    expect(await client.promptText('explain_failed_revision', { deployment: 'shop' })).toContain('shop')
  })
})

it('refuses a page of a name that leads here, also where CORS allows every page', async () => {
  const { key } = await newTenant()
  const message = { jsonrpc: '2.0', id: 1, method: 'ping' }
  const send = async (host: string, origin: string) => {
    const headers = { 'X-Api-Key': key, Origin: origin, 'Content-Type': 'application/json', Accept: '*/*' }
    const init = { method: 'POST', headers, body: JSON.stringify(message) }
    const { status } = await getApp().fetch(new Request(`http://${host}/mcp`, init))
    return status
  }
  expect(await send('rebound.example.com', 'http://rebound.example.com')).toBe(403)
  expect(await send('slipway.test', 'http://inspector.example.com')).not.toBe(403)
})
