import * as jose from 'jose'
import { describe, expect, it } from 'vitest'
import { type ModelActor, type ModelCall, signModelCall } from '../../../src/connect/models/model-jwt.ts'
import { publicJwks } from '../../../src/kernel/crypto/signing-keys.ts'
import { getApp } from '../../support/app.ts'

const call: ModelCall = {
  issuer: 'https://slipway.example.com',
  audience: 'https://models.example.com',
  actor: { type: 'api_key', id: '7d3c' },
  organization: { id: 'o1', name: 'Ürün & Co' },
  workspace: { id: 'w1', name: 'Search' },
  request_id: 'r1',
  provider: 'openai',
  model: 'small',
  streaming: true,
  body_sha256: 'e3b0',
}

describe('the token of a call to a model', () => {
  it.each<ModelActor>([
    { type: 'user', id: 'u1' },
    { type: 'api_key', id: 'k1' },
    { type: 'deployment', id: 'd1' },
    { type: 'evaluator', id: 'e1' },
    { type: 'insights', id: 'i1' },
  ])('by $type has exactly the claims of the contract', async actor => {
    const app = getApp()
    const token = await signModelCall(app, { ...call, actor })
    const keys = jose.createLocalJWKSet(await publicJwks(app.config))
    const { payload } = await jose.jwtVerify(token, keys, { algorithms: ['EdDSA'], typ: 'JWT' })
    const { iat, jti } = payload
    expect(Math.abs(iat! - Date.now() / 1000)).toBeLessThan(5)
    expect(payload).toEqual({
      iss: 'https://slipway.example.com',
      aud: 'https://models.example.com',
      sub: actor.id,
      iat,
      nbf: iat! - 5,
      exp: iat! + 300,
      jti: expect.stringMatching(/^[0-9a-f-]{36}$/),
      actor_type: actor.type,
      request_id: 'r1',
      organization_id: 'o1',
      organization_name: 'Ürün & Co',
      workspace_id: 'w1',
      workspace_name: 'Search',
      ...(actor.type === 'user' && { ls_user_id: 'u1' }),
      model_provider: 'openai',
      model_name: 'small',
      streaming: true,
      body_sha256: 'e3b0',
    })
    const again = jose.decodeJwt(await signModelCall(app, { ...call, actor }))
    expect(again.jti).not.toBe(jti)
  })
})
