// The tokens by which applications call models, as an agent gets them.
import * as jose from 'jose'
import { expect, it } from 'vitest'
import { countTrips } from '#runtime'
import { publicJwks } from '../../../src/kernel/crypto/signing-keys.ts'
import { getApp, newTenant, startApp, unusedId } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

async function createServed({ app = getApp(), deployments = 2 } = {}) {
  const tenant = await newTenant({ app })
  const { listener, key } = await newListener(tenant)
  const ids: string[] = []
  for (let i = 0; i < deployments; i++)
    ids.push((await newDeployment(tenant, makeListenerDeployment(listener, { name: `a${unusedId()}` }))).id)
  const agent = makeSyncAgent(tenant, key)
  await agent.poll()
  const request = (over: object = {}) => agent.sendModelTokenWish(over)
  return { tenant, listener, agent, ids: ids.sort(), request }
}

it('tokens for all deployments of the listener come sealed in one request, each for its deployment', async () => {
  const { tenant, listener, agent, ids, request } = await createServed()
  await createServed()
  const requestId = `trip-${unusedId()}`
  const reply = await agent.sendModelTokenWish({}, { 'X-Request-Id': requestId })
  expect([reply.status, reply.body.next]).toEqual([200, null])
  const tokens = agent.openModelTokens(listener.id, reply.body)!
  expect(Object.keys(tokens).sort()).toEqual(ids)
  expect(JSON.stringify(reply.body)).not.toContain(tokens[ids[0]!]!.split('.')[2])
  expect(await countTrips(requestId)).toBe(1)
  const keys = jose.createLocalJWKSet(await publicJwks(getApp().config))
  for (const id of ids) {
    const { payload } = await jose.jwtVerify(tokens[id]!, keys, { typ: 'model-token+jwt' })
    const { iat } = payload
    const proxy = 'http://slipway.test/v1/model-proxy'
    expect(payload).toEqual({
      iss: proxy,
      aud: proxy,
      sub: id,
      iat,
      nbf: iat! - 5,
      exp: iat! + 900,
      trace_key_version: 1,
    })
    expect(Math.abs(Date.parse(reply.body.expires_at) / 1000 - payload.exp!)).toBeLessThan(2)
  }
  await tenant.delete(`/v2/deployments/${ids[0]}`)
  expect(Object.keys(agent.openModelTokens(listener.id, (await request()).body)!)).toEqual([ids[1]])
})

it('tokens for some deployments come alone, and never those of another listener', async () => {
  const { listener, agent, ids, request } = await createServed()
  const foreign = await createServed()
  const { body } = await request({ deployment_ids: [ids[1], foreign.ids[0], unusedId()] })
  expect(Object.keys(agent.openModelTokens(listener.id, body)!)).toEqual([ids[1]])
  expect((await request({ after: ids[0] })).status).toBe(200)
  expect(Object.keys(agent.openModelTokens(listener.id, (await request({ after: ids[0] })).body)!)).toEqual([ids[1]])
  expect((await request({ after: ids[1] })).body.next).toBeNull()
})

it('are refused without the lease, and for a key of a person', async () => {
  const { tenant, agent, request } = await createServed({ deployments: 1 })
  expect((await request({ fence: agent.fence! + 1 })).body.code).toBe('fence_stale')
  const asPerson = await tenant.post('/v1/sync/model-tokens', {
    agent_id: agent.agent_id,
    fence: agent.fence,
    public_key: agent.public_key,
  })
  expect([asPerson.status, asPerson.body.code]).toEqual([404, 'listener_not_found'])
})

it('have their address in the answer to each poll, where applications reach it', async () => {
  const { agent } = await createServed({ deployments: 1 })
  expect((await agent.poll()).models_url).toBe('http://slipway.test/v1/model-proxy')
  const control_plane_url = 'http://slipway.internal:8787'
  expect((await agent.poll({ control_plane_url })).models_url).toBe(`${control_plane_url}/v1/model-proxy`)
  expect((await agent.poll({ control_plane_url: null })).models_url).toBeNull()
})

it('do not exist in an installation that is switched off', async () => {
  const app = startApp({ settings: { DEPLOYMENT_MODELS: 'off' } })
  const { agent, request } = await createServed({ app, deployments: 1 })
  expect([(await request()).body.tokens, (await agent.poll()).models_url]).toEqual([null, null])
})
