import { beforeEach, expect, it } from 'vitest'
import * as as from '../../support/authorization-server.ts'
import { getProviderPath } from '../../support/providers.ts'

const { server, app } = as.makeAuthorizationServer()
beforeEach(() => {
  server.token = () => as.respondWithTokens({ expires_in: 61 })
  server.revocation = () => new Response(null)
})

it('a provider can be deleted while people connect, use tokens and disconnect, without a deadlock', async () => {
  const { tenant } = await as.setUpProvider(app, { provider_id: 'first' })
  const rounds = Array.from({ length: 12 }, async (_, i) => {
    const provider = `p${i}`
    await as.newProvider(tenant, app, { provider_id: provider })
    await as.completeAuthentication(app, tenant, { provider }, { as: provider })
    await as.completeAuthentication(app, tenant, { provider, user_id: 'bob' }, { as: provider })
    const begun = await as.beginAuthentication(tenant, { provider, force_new: true })
    const refused = await as.beginAuthentication(tenant, { provider, force_new: true })
    const authenticate = (over: object) => tenant.post('/v2/auth/authenticate', { provider, user_id: 'ada', ...over })
    const replies = await Promise.all([
      authenticate({ force_new: true }),
      authenticate({ force_new: true, user_id: 'eve' }),
      as.visitCallback(app, begun, {}, { as: provider }),
      as.visitCallback(app, refused, { error: 'access_denied' }, { as: provider }),
      tenant.delete(getProviderPath(provider)),
      authenticate({}),
      authenticate({ force_new: true }),
      tenant.delete(`/v2/auth/tokens?provider=${provider}&user_id=bob`),
    ])
    expect(replies.map(({ status, text }) => (status >= 500 ? text : ''))).toEqual(replies.map(() => ''))
    expect(replies[4]!.status).toBe(204)
    expect((await tenant.get(getProviderPath(provider))).status).toBe(404)
  })
  await Promise.all(rounds)
  expect((await tenant.get('/v2/auth/tokens')).body.resources).toEqual([])
})
