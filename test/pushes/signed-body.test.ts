// The limits of a delivery's body before its signature is verified.
import { expect, it } from 'vitest'
import { MAX_BODY_BYTES, withSignedBody } from '../../src/pushes/signed-body.ts'
import { send, unusedId } from '../support/app.ts'
import { signBody } from '../support/pushes.ts'

const MIB = 1024 * 1024
const bytesOf = (text: string) => new TextEncoder().encode(text)
/** Emits the chunks one per pull. `hanging` keeps the stream open after them. */
function streamOf(chunks: Uint8Array[], hanging = false) {
  const left = [...chunks]
  const state = { pulls: 0, cancelled: false }
  const source = {
    pull(controller: ReadableStreamDefaultController<Uint8Array>) {
      state.pulls++
      const chunk = left.shift()
      if (chunk) controller.enqueue(chunk)
      else if (hanging) return new Promise<void>(() => {})
      else controller.close()
    },
    cancel() {
      state.cancelled = true
    },
  }
  return { stream: new ReadableStream(source, { highWaterMark: 0 }), state }
}
const signedBody = (stream: ReadableStream<Uint8Array>, signature: string, length: number | null = null) => ({
  ...{ stream, length, secret: 'hush-webhook', signature },
})
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'accepted',
    error => error.code,
  )
const text = (body: string) => body

it('a body is read correctly in single bytes, and rejected with a wrong signature', async () => {
  const body = '{"message":"🚀 größer"}'
  const chunks = [...bytesOf(body)].map(byte => Uint8Array.of(byte))
  const signature = await signBody(body)
  expect(await withSignedBody(signedBody(streamOf(chunks).stream, signature), text)).toBe(body)
  for (const wrong of [await signBody(`${body} `), '00', ''])
    expect(await codeOf(withSignedBody(signedBody(streamOf(chunks).stream, wrong), text))).toBe('delivery_unsigned')
})

it('a body over the size limit is rejected as early as possible', async () => {
  const declared = streamOf([bytesOf('{}')])
  expect(await codeOf(withSignedBody(signedBody(declared.stream, '', MAX_BODY_BYTES + 1), text))).toBe(
    'delivery_too_large',
  )
  expect(declared.state.pulls).toBe(0)
  const undeclared = streamOf(Array<Uint8Array>(100).fill(new Uint8Array(MIB)))
  expect(await codeOf(withSignedBody(signedBody(undeclared.stream, ''), text))).toBe('delivery_too_large')
  expect(undeclared.state).toEqual({ pulls: 26, cancelled: true })
})

it('a body that is sent too slowly is rejected', async () => {
  const { stream, state } = streamOf([bytesOf('{'), bytesOf('"')], true)
  expect(await codeOf(withSignedBody({ ...signedBody(stream, ''), timeoutMs: 50 }, text))).toBe('body_too_slow')
  expect(state.cancelled).toBe(true)
})

it('all bodies together are limited, and the memory is free again when one ends', async () => {
  const piece = new Uint8Array(MIB).fill(0x20)
  const holding = streamOf(Array<Uint8Array>(24).fill(piece), true)
  const slow = codeOf(withSignedBody({ ...signedBody(holding.stream, ''), timeoutMs: 2000 }, text))
  await expect.poll(() => holding.state.pulls).toBe(25)
  const refused = streamOf([piece])
  expect(await codeOf(withSignedBody(signedBody(refused.stream, '', 20 * MIB), text))).toBe('deliveries_busy')
  expect(refused.state.pulls).toBe(0)
  const growing = streamOf(Array<Uint8Array>(20).fill(piece))
  expect(await codeOf(withSignedBody(signedBody(growing.stream, ''), text))).toBe('deliveries_busy')
  expect(growing.state).toEqual({ pulls: 9, cancelled: true })
  expect(await withSignedBody(signedBody(streamOf([bytesOf('{}')]).stream, await signBody('{}')), text)).toBe('{}')
  expect(await slow).toBe('body_too_slow')
  const after = streamOf(Array<Uint8Array>(20).fill(piece))
  expect(await codeOf(withSignedBody(signedBody(after.stream, '', 20 * MIB), text))).toBe('delivery_unsigned')
})

it.each([
  ['no signature', '', {}],
  ['a garbled signature', '', { 'X-Hub-Signature-256': `sha256=${'g'.repeat(64)}` }],
  ['an unknown integration', `/${unusedId()}`, { 'X-Hub-Signature-256': `sha256=${'0'.repeat(64)}` }],
  ['no integration', '/nonsense', { 'X-Hub-Signature-256': `sha256=${'0'.repeat(64)}` }],
])('the body of a delivery with %s is not read', async (_, path, headers) => {
  const { stream, state } = streamOf(Array<Uint8Array>(100).fill(new Uint8Array(MIB)))
  const at = `/v1/integrations/forge/githost${path}/webhook`
  const reply = await send('POST', at, {
    raw: stream,
    headers: {
      'Content-Type': 'application/json',
      'X-GitHub-Event': 'push',
      'X-GitHub-Delivery': unusedId(),
      ...headers,
    },
  })
  expect([reply.status, reply.body.code, state.pulls]).toEqual([401, 'delivery_unsigned', 0])
})
