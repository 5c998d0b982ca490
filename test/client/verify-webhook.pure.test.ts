import { describe, expect, it } from 'vitest'
import { verifyWebhook } from '../../src/client/verify-webhook.ts'
import { messageHeaders, newKeyPair, newSecret, signByKey, signBySecret } from '../../src/protocol/webhook-signing.ts'

const now = Math.floor(Date.now() / 1000)
const message = { id: 'evt_1', timestamp: now, body: '{"type":"deployment.created","timestamp":"…","data":{"id":"ö"}}' }
const [secret, otherSecret] = [newSecret(), newSecret()]
const [keys, otherKeys] = [await newKeyPair(), await newKeyPair()]

const sign = async (changed: Partial<typeof message> = {}) => {
  const signed = { ...message, ...changed }
  const signatures = [await signBySecret(secret, signed), await signByKey(keys.privateKey, signed)]
  return messageHeaders(signed, signatures)
}
const headers = await sign()
const [old, early, noJson] = [
  await sign({ timestamp: now - 400 }),
  await sign({ timestamp: now + 400 }),
  await sign({ body: 'x' }),
]

describe('a message of a webhook', () => {
  it.each([
    ['by its secret', { key: secret }],
    ['by its public key', { key: keys.publicKey }],
    ['by one of several keys', { key: [otherSecret, otherKeys.publicKey, secret] }],
    ['as bytes', { key: secret, body: new TextEncoder().encode(message.body) }],
    ['with the headers of a Request', { key: keys.publicKey, headers: new Headers(headers) }],
    ['with headers in other case and as lists', { key: secret, headers: { ...headers, 'Webhook-Id': ['evt_1'] } }],
  ])('is accepted %s', async (_, given) => {
    const received = await verifyWebhook({ body: message.body, headers, ...given })
    expect(received).toEqual({ ...JSON.parse(message.body), id: 'evt_1' })
  })

  it('is accepted by a secret without the prefix, such as that of a preview hook', async () => {
    const signed = messageHeaders(message, [await signBySecret('hush', message)])
    await expect(verifyWebhook({ ...message, headers: signed, key: 'hush' })).resolves.toMatchObject({ id: 'evt_1' })
  })

  it('looks at the first signatures only, and takes the id from the header', async () => {
    const body = '{"type":"a","timestamp":"b","id":"evt_2","data":{}}'
    const signed = await sign({ body })
    await expect(verifyWebhook({ body, headers: signed, key: secret })).resolves.toMatchObject({ id: 'evt_1' })
    const signature = `${'v1,AA== '.repeat(16)}${headers['webhook-signature']}`
    const many = { ...headers, 'webhook-signature': signature }
    await expect(verifyWebhook({ body: message.body, headers: many, key: secret })).rejects.toMatchObject({
      code: 'signature_mismatch',
    })
  })

  it.each([
    ['by another secret', { key: otherSecret }, 'signature_mismatch'],
    ['by another public key', { key: otherKeys.publicKey }, 'signature_mismatch'],
    ['with another body', { body: `${message.body} ` }, 'signature_mismatch'],
    ['with another id', { headers: { ...headers, 'webhook-id': 'evt_2' } }, 'signature_mismatch'],
    ['with another time', { headers: { ...headers, 'webhook-timestamp': `${now - 1}` } }, 'signature_mismatch'],
    [
      'by a signature of the other version',
      { headers: { ...headers, 'webhook-signature': headers['webhook-signature']!.replaceAll('v1,', 'v1a,') } },
      'signature_mismatch',
    ],
    [
      'by a signature that is no base64',
      { headers: { ...headers, 'webhook-signature': 'v1,ö v1' } },
      'signature_mismatch',
    ],
    ['that is too old', { headers: old }, 'timestamp_outside_tolerance'],
    ['of the future', { headers: early }, 'timestamp_outside_tolerance'],
    ['without a time', { headers: { ...headers, 'webhook-timestamp': 'soon' } }, 'timestamp_outside_tolerance'],
    ['without its headers', { headers: {} }, 'headers_missing'],
    ['that is no JSON', { body: 'x', headers: noJson }, 'body_not_json'],
  ])('is refused %s', async (_, given, code) => {
    await expect(verifyWebhook({ body: message.body, headers, key: secret, ...given })).rejects.toMatchObject({ code })
  })

  it('can be older with a larger tolerance', async () => {
    const received = { body: message.body, headers: old, key: secret, toleranceSeconds: 600 }
    await expect(verifyWebhook(received)).resolves.toMatchObject({ id: 'evt_1' })
  })

  it.each(['', 'whsec_', 'whpk_*'])('is not compared with the key "%s"', async key => {
    await expect(verifyWebhook({ body: message.body, headers, key })).rejects.toThrow(TypeError)
  })
})
