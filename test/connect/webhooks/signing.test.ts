import { createPublicKey, verify } from 'node:crypto'
import { Webhook } from 'standardwebhooks'
import { expect, it } from 'vitest'
import { parseRetryAfter } from '../../../src/kernel/http/retry-after.ts'
import {
  messageHeaders,
  newKeyPair,
  newSecret,
  signByKey,
  signBySecret,
} from '../../../src/protocol/webhook-signing.ts'

const newMessage = () => ({ id: 'evt_1', timestamp: Math.floor(Date.now() / 1000), body: '{"type":"ö"}' })

it('standardwebhooks accepts the signature v1 with the right secret, among other signatures', async () => {
  const [secret, other, message] = [newSecret(), newSecret(), newMessage()]
  const { privateKey } = await newKeyPair()
  const signatures = [
    await signBySecret(other, message),
    await signBySecret(secret, message),
    await signByKey(privateKey, message),
  ]
  const headers = messageHeaders(message, signatures)
  expect(new Webhook(secret).verify(message.body, headers)).toEqual({ type: 'ö' })
  expect(() => new Webhook(newSecret()).verify(message.body, headers)).toThrow()
  expect(() => new Webhook(secret).verify(`${message.body} `, headers)).toThrow()
})

it('the signature v1a is an Ed25519 signature of id, timestamp and body by the published key', async () => {
  const message = newMessage()
  const { publicKey, privateKey } = await newKeyPair()
  expect(publicKey).toMatch(/^whpk_[A-Za-z0-9+/]{43}=$/)
  const x = Buffer.from(publicKey.slice('whpk_'.length), 'base64').toString('base64url')
  const key = createPublicKey({ key: { kty: 'OKP', crv: 'Ed25519', x }, format: 'jwk' })
  const [, signature] = (await signByKey(privateKey, message)).split('v1a,')
  const isValid = (text: string) => verify(null, Buffer.from(text), key, Buffer.from(signature!, 'base64'))
  expect(isValid(`${message.id}.${message.timestamp}.${message.body}`)).toBe(true)
  expect(isValid(`${message.id}.${message.timestamp}.${message.body} `)).toBe(false)
})

const NOW = Date.parse('2026-11-01T00:00:00Z')
it.each([
  ['120', 120],
  ['Sun, 01 Nov 2026 00:01:00 GMT', 60],
  ['Sat, 31 Oct 2026 00:00:00 GMT', 0],
  ['999999999', 86_400],
  ['-1', 0],
  ['soon', 0],
  [null, 0],
])('Retry-After %s is a wait of %i seconds', (text, seconds) => {
  expect(parseRetryAfter(text, NOW)).toBe(seconds)
})
