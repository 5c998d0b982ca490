import { expect, it } from 'vitest'
import { MAX_BODY_BYTES, withSignedBody } from '../../../src/hosting/pushes/signed-body.ts'
import { send, unusedId } from '../../support/app.ts'
import { signBody } from '../../support/pushes.ts'

const MIB = 1024 * 1024
const bytesOf = (text: string) => new TextEncoder().encode(text)
/** Emits one chunk per pull. With `staysOpen` the stream does not close after them. */
function streamChunks(chunks: Uint8Array[], staysOpen = false) {
  const remaining = [...chunks]
  const state = { pulls: 0, cancelled: false }
  const source = {
    pull(controller: ReadableStreamDefaultController<Uint8Array>) {
      state.pulls++
      const chunk = remaining.shift()
      if (chunk) controller.enqueue(chunk)
      else if (staysOpen) return new Promise<void>(() => {})
      else controller.close()
    },
    cancel() {
      state.cancelled = true
    },
  }
  return { stream: new ReadableStream(source, { highWaterMark: 0 }), state }
}
const makeSignedBody = (stream: ReadableStream<Uint8Array>, signature: string, length: number | null = null) => ({
  stream,
  length,
  secret: 'hush-webhook',
  proof: { signature },
})
const codeOf = (work: Promise<unknown>) =>
  work.then(
    () => 'accepted',
    error => error.code,
  )
const readText = (body: string) => body

it('a body in chunks of single bytes is decoded, and rejected if its signature is wrong', async () => {
  const body = '{"message":"🚀 größer"}'
  const chunks = [...bytesOf(body)].map(byte => Uint8Array.of(byte))
  const signature = await signBody(body)
  expect(await withSignedBody(makeSignedBody(streamChunks(chunks).stream, signature), readText)).toBe(body)
  for (const wrong of [await signBody(`${body} `), '00', ''])
    expect(await codeOf(withSignedBody(makeSignedBody(streamChunks(chunks).stream, wrong), readText))).toBe(
      'delivery_unsigned',
    )
})

it('a body over the size limit is rejected before it is read, or at the limit if it declares no length', async () => {
  const declared = streamChunks([bytesOf('{}')])
  expect(await codeOf(withSignedBody(makeSignedBody(declared.stream, '', MAX_BODY_BYTES + 1), readText))).toBe(
    'delivery_too_large',
  )
  expect(declared.state.pulls).toBe(0)
  const undeclared = streamChunks(Array<Uint8Array>(100).fill(new Uint8Array(MIB)))
  expect(await codeOf(withSignedBody(makeSignedBody(undeclared.stream, ''), readText))).toBe('delivery_too_large')
  expect(undeclared.state).toEqual({ pulls: 26, cancelled: true })
})

it('a body that is sent too slowly is rejected', async () => {
  const { stream, state } = streamChunks([bytesOf('{'), bytesOf('"')], true)
  expect(await codeOf(withSignedBody({ ...makeSignedBody(stream, ''), timeoutMs: 50 }, readText))).toBe('body_too_slow')
  expect(state.cancelled).toBe(true)
})

it('the memory of all unverified bodies is limited, and is free again when one of them ends', async () => {
  const chunk = new Uint8Array(MIB).fill(0x20)
  const pending = streamChunks(Array<Uint8Array>(24).fill(chunk), true)
  const slow = codeOf(withSignedBody({ ...makeSignedBody(pending.stream, ''), timeoutMs: 2000 }, readText))
  await expect.poll(() => pending.state.pulls).toBe(25)
  const refused = streamChunks([chunk])
  expect(await codeOf(withSignedBody(makeSignedBody(refused.stream, '', 20 * MIB), readText))).toBe('deliveries_busy')
  expect(refused.state.pulls).toBe(0)
  const growing = streamChunks(Array<Uint8Array>(20).fill(chunk))
  expect(await codeOf(withSignedBody(makeSignedBody(growing.stream, ''), readText))).toBe('deliveries_busy')
  expect(growing.state).toEqual({ pulls: 9, cancelled: true })
  expect(
    await withSignedBody(makeSignedBody(streamChunks([bytesOf('{}')]).stream, await signBody('{}')), readText),
  ).toBe('{}')
  expect(await slow).toBe('body_too_slow')
  const after = streamChunks(Array<Uint8Array>(20).fill(chunk))
  expect(await codeOf(withSignedBody(makeSignedBody(after.stream, '', 20 * MIB), readText))).toBe('delivery_unsigned')
})

it.each([
  ['no signature', '', {}],
  ['a malformed signature', '', { 'X-Hub-Signature-256': `sha256=${'g'.repeat(64)}` }],
  ['an unknown integration', `/${unusedId()}`, { 'X-Hub-Signature-256': `sha256=${'0'.repeat(64)}` }],
  ['a malformed integration id', '/nonsense', { 'X-Hub-Signature-256': `sha256=${'0'.repeat(64)}` }],
])('the body of a delivery with %s is not read', async (_, path, headers) => {
  const { stream, state } = streamChunks(Array<Uint8Array>(100).fill(new Uint8Array(MIB)))
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
