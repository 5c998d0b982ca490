// The tokens by which applications call models: requested for all at once, renewed, and given to the engine.
import { randomUUID } from 'node:crypto'
import { afterEach, beforeEach, expect, test, vi } from 'vitest'
import { RequestRefused } from '../../src/agent/control-plane/client.ts'
import { makeAgentKeys } from '../../src/agent/control-plane/envelope.ts'
import { ModelTokens } from '../../src/agent/control-plane/model-tokens.ts'
import { createSeal } from '../../src/hosting/sync/envelope.ts'

const URL = 'https://slipway.example.com/v1/model-proxy'
const MINUTE = 60_000
beforeEach(() => vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] }))
afterEach(() => void vi.useRealTimers())
/** The default of a second is too short for other threads of a busy machine. */
const until = (check: () => void) => vi.waitFor(check, 20_000)

/** A control plane with deployments in pages of two, which fails as often as `left` says. */
function createTokens(deployments: string[]) {
  const keys = makeAgentKeys()
  const shutdown = new AbortController()
  const requests: object[] = []
  const written: [id: string, token: string | undefined][] = []
  const hidden = new Set<string>()
  const lines: string[] = []
  const faults = { left: 0, error: new Error('fetch failed') as Error, hasLease: true, isOff: false }
  let issued = 0
  const tokens = new ModelTokens({
    control: {
      async modelTokens({ public_key, agent_id, fence, ...wish }) {
        requests.push(wish)
        if (faults.left-- > 0) throw faults.error
        expect([agent_id, fence]).toEqual(['agent', 7])
        const wanted = deployments.filter(id => wish.deployment_ids?.includes(id) ?? id > (wish.after ?? ''))
        const page = wish.deployment_ids ? wanted : wanted.slice(0, 2)
        const given = Object.fromEntries(page.map(id => [id, `eyJ.${++issued}.signature-${issued}`]))
        const seal = await createSeal(public_key)
        return {
          tokens: faults.isOff ? null : await seal(given, 'listener/models'),
          expires_at: new Date().toISOString(),
          next: page.length < wanted.length ? page.at(-1)! : null,
        }
      },
    },
    engine: {
      renewModelToken: async id => {
        expect(hidden).toContain(tokens.of(id))
        written.push([id, tokens.of(id)])
      },
    },
    keys,
    currentLease: () => (faults.hasLease ? { agent_id: 'agent', fence: 7, listener: 'listener' } : undefined),
    signal: shutdown.signal,
    hide: (_, token) => void hidden.add(token),
    logEvent: event => void lines.push(event),
  })
  /** Until everything that was started has ended. Keys are derived on other threads. */
  const settle = (count: number) => until(() => expect(requests.length).toBe(count))
  return { tokens, requests, written, lines, faults, settle, shutDown: () => shutdown.abort() }
}
const newIds = (count: number) => Array.from({ length: count }, () => randomUUID()).sort()

test('tokens are requested in pages, masked, and then passed to the engine', async () => {
  const ids = newIds(5)
  const { tokens, requests, written, settle } = createTokens(ids)
  tokens.setUrl(URL)
  tokens.renewAll()
  await until(() => expect(written).toHaveLength(5))
  await settle(3)
  expect(requests).toEqual([{ after: null }, { after: ids[1] }, { after: ids[3] }])
  expect(written.map(([id]) => id).sort()).toEqual(ids)
  for (const [id, token] of written) expect(tokens.of(id)).toBe(token)
})

test('tokens are renewed about every five minutes, and forgotten once their deployment is not served', async () => {
  const ids = newIds(2)
  const { tokens, written, settle } = createTokens(ids)
  tokens.setUrl(URL)
  tokens.renewAll()
  await until(() => expect(written).toHaveLength(2))
  const [gone, first] = [ids.pop()!, tokens.of(ids[0]!)]
  await until(() => expect(vi.getTimerCount()).toBe(1))
  await vi.advanceTimersByTimeAsync(4.4 * MINUTE)
  await settle(1)
  await vi.advanceTimersByTimeAsync(1.2 * MINUTE)
  await until(() => expect(written).toHaveLength(3))
  await until(() => expect(tokens.of(gone)).toBeUndefined())
  expect(tokens.of(ids[0]!)).not.toBe(first)
})

test('tokens of changed deployments are requested at once, in one request', async () => {
  const ids = newIds(4)
  const { tokens, requests, written } = createTokens(ids)
  tokens.setUrl(URL)
  tokens.renewAll()
  await until(() => expect(written).toHaveLength(4))
  await until(() => expect(vi.getTimerCount()).toBe(1))
  tokens.renew([ids[0]!, ids[3]!, ids[0]!])
  await until(() => expect(written).toHaveLength(6))
  expect(requests.slice(2)).toEqual([{ deployment_ids: [ids[0], ids[3]] }])
  tokens.forget(ids[0]!)
  expect(tokens.of(ids[0]!)).toBeUndefined()
})

test('a failed request is repeated with growing pauses and logged once, and the old tokens stay', async () => {
  const ids = newIds(1)
  const { tokens, requests, written, lines, faults } = createTokens(ids)
  tokens.setUrl(URL)
  tokens.renewAll()
  await until(() => expect(written).toHaveLength(1))
  await until(() => expect(vi.getTimerCount()).toBe(1))
  faults.left = 6
  faults.error = new RequestRefused(503, 'database_unavailable', 'It is unavailable.', null)
  for (let minute = 0; minute < 20 && written.length < 2; minute++) {
    const before = requests.length
    await vi.advanceTimersByTimeAsync(MINUTE)
    if (requests.length > before) await until(() => expect(vi.getTimerCount()).toBe(1))
  }
  expect([requests.length, lines]).toEqual([8, ['model tokens not renewed']])
  expect(tokens.of(ids[0]!)).toBe(written[1]![1])
})

test('tokens are not requested without an address, without the lease, or after the end', async () => {
  const ids = newIds(1)
  const { tokens, requests, written, faults, shutDown } = createTokens(ids)
  tokens.setUrl(undefined)
  tokens.renewAll()
  tokens.renew(ids)
  tokens.setUrl(null)
  tokens.renew(ids)
  expect(requests).toEqual([])
  faults.hasLease = false
  tokens.setUrl(URL)
  tokens.renewAll()
  await until(() => expect(vi.getTimerCount()).toBe(1))
  expect(requests).toEqual([])
  faults.hasLease = true
  tokens.renew(ids)
  await until(() => expect(written).toHaveLength(1))
  await until(() => expect(vi.getTimerCount()).toBe(1))
  tokens.setUrl(null)
  expect(tokens.of(ids[0]!)).toBeUndefined()
  await vi.advanceTimersByTimeAsync(6 * MINUTE)
  expect(requests.length).toBe(1)
  tokens.setUrl(URL)
  await until(() => expect(written).toHaveLength(2))
  await until(() => expect(vi.getTimerCount()).toBe(1))
  shutDown()
  tokens.setUrl(URL)
  tokens.renewAll()
  expect([requests.length, vi.getTimerCount()]).toEqual([2, 0])
})

test('an installation without models issues no tokens', async () => {
  const ids = newIds(1)
  const { tokens, written, faults, settle } = createTokens(ids)
  faults.isOff = true
  tokens.setUrl(URL)
  tokens.renewAll()
  await settle(1)
  await until(() => expect(vi.getTimerCount()).toBe(1))
  expect([written, tokens.of(ids[0]!)]).toEqual([[], undefined])
})
