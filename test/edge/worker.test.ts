import { neonConfig } from '@neondatabase/serverless'
import { expect, it, onTestFinished } from 'vitest'
import worker from '../../src/host/workers.ts'
import { newApiKey } from '../../src/kernel/crypto/crypto.ts'
import { ROWS_PATH } from '../../src/kernel/db/gateway.ts'
import { newTenant, readEvents, SEALING_KEYS } from '../support/app.ts'
import { database } from '../support/worker-database.ts'

it('a Worker with missing or invalid settings answers not_configured and does not name them', async () => {
  const context = { waitUntil() {}, passThroughOnException() {}, props: {} }
  const reply = await worker.fetch(
    new Request('http://slipway.test/healthz'),
    { DATABASE_URL: 'mysql://secret' },
    context,
  )
  expect([reply.status, reply.headers.get('Content-Type')]).toEqual([503, 'application/problem+json'])
  const body = (await reply.json()) as { code: string }
  expect(body.code).toBe('not_configured')
  expect(JSON.stringify(body)).not.toMatch(/DATABASE_URL|mysql/)
})

const { url, connectionString } = database.gateway
const settings = { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, UNKNOWN_KEYS_PER_MINUTE: '3' }
const env = { DATABASE_URL: connectionString, DATABASE_GATEWAY_URL: url + ROWS_PATH, ...settings }
const context = { waitUntil() {}, passThroughOnException() {}, props: {} }

it('the Worker limits by CF-Connecting-IP and ignores X-Forwarded-For', async () => {
  const statusOf = async (address: string, forwarded: string, key?: string) => {
    const headers = { 'CF-Connecting-IP': address, 'X-Forwarded-For': forwarded, ...(key && { 'X-Api-Key': key }) }
    return (await worker.fetch(new Request('http://slipway.test/workspaces', { headers }), env, context)).status
  }
  for (let i = 0; i < 3; i++) expect(await statusOf('192.0.2.1', `198.51.100.${i}`)).toBe(401)
  expect(await statusOf('192.0.2.1', '198.51.100.9', newApiKey())).toBe(429)
  expect(await statusOf('192.0.2.2', '192.0.2.1', newApiKey())).toBe(401)
})

it('a Worker without a gateway sends its statements with the driver of Neon', async () => {
  const { fetchEndpoint } = neonConfig
  onTestFinished(() => {
    neonConfig.fetchEndpoint = fetchEndpoint
  })
  neonConfig.fetchEndpoint = url
  const { key } = await newTenant()
  const request = new Request('http://slipway.test/v2/deployments', { headers: { 'X-Api-Key': key } })
  const reply = await worker.fetch(request, { ...env, DATABASE_GATEWAY_URL: undefined }, context)
  expect([reply.status, await reply.json()]).toEqual([200, { resources: [], offset: 0 }])
})

it('events record CF-Connecting-IP as the address of the client', async () => {
  const { key } = await newTenant()
  const headers = { 'X-Api-Key': key, 'CF-Connecting-IP': '203.0.113.4', 'X-Forwarded-For': '198.51.100.4' }
  const request = new Request('http://slipway.test/v2/tag-keys', { method: 'POST', headers, body: '{"key":"team"}' })
  request.headers.set('Content-Type', 'application/json')
  const reply = await worker.fetch(request, env, context)
  expect(reply.status).toBe(201)
  const [event] = await readEvents(reply.headers.get('X-Request-Id')!)
  expect(JSON.parse(event!.request as string)).toMatchObject({ client_address: '203.0.113.4' })
})
