// Limits of routes that take no key.
import { expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import { errorStatuses } from '../../src/kernel/http/openapi.ts'
import type { OpenOperation } from '../../src/kernel/http/routes.ts'
import { createLinkBudget } from '../../src/kernel/limits/spent-budgets.ts'
import { getExampleBody, getExampleQuery, newTenant, send, startApp, unusedId } from '../support/app.ts'
import { appendRuns, newTrace } from '../support/new-traces.ts'

/** Operations that read a key themselves pass requests on with it. The document takes long to build. */
const open = (await loadOperations())
  .filter(one => one.kind === 'open')
  .filter(one => !(one.isProbe || one.keyOnly || one.id === 'openapi'))
/** Their signature is checked, and git hosts send the deliveries of all customers from a few addresses. */
const WITH_OWN_LIMIT = ['receiveDelivery', 'receiveIntegrationDelivery']

const startInstance = (overrides: Parameters<typeof startApp>[0] = {}) =>
  startApp({
    settings: { UNKNOWN_KEYS_PER_MINUTE: '1' },
    overrides: { clientAddress: ({ req }) => req.header('X-Test-Address'), ...overrides.overrides },
  })
const VISITS = 10

it('only deliveries have a limit of their own', () => {
  expect(open.filter(({ hasOwnLimit }) => hasOwnLimit).map(({ id }) => id)).toEqual(WITH_OWN_LIMIT)
})

it('each open route that reaches the database is limited by address, and its document says so', async () => {
  let trips = 0
  const count = async () => {
    trips++
    throw new Error('This database is counted only')
  }
  const app = startInstance({ overrides: { databaseConnections: { app: count, system: count } } })
  const reaching: string[] = []
  for (const [i, operation] of open.entries()) {
    const visit = () => {
      const headers = { 'X-Test-Address': `192.0.2.${i}`, ...formHeaders(operation), Accept: '*/*' }
      const path = operation.path.replaceAll(/\{\w+\}/g, () => unusedId()) + getExampleQuery(operation)
      const init = { method: operation.method.toUpperCase(), headers, body: bodyOf(operation) }
      return app.fetch(new Request(`http://slipway.test${path}`, init))
    }
    trips = 0
    await visit()
    if (trips === 0 || operation.hasOwnLimit) continue
    reaching.push(operation.id)
    for (let n = 1; n < VISITS; n++) await visit()
    const before = trips
    const refused = await visit()
    expect([refused.status, trips], operation.id).toEqual([429, before])
    expect(errorStatuses(operation), operation.id).toContain(429)
    if (!operation.pageMediaType) expect(refused.headers.get('Retry-After'), operation.id).toMatch(/^\d+$/)
  }
  expect(reaching).toEqual(expect.arrayContaining(['readSharedRun', 'querySharedRunsV2', 'listSharedExamples']))
})

const formHeaders = ({ body, bodyMediaType }: OpenOperation): Record<string, string> =>
  bodyMediaType ? { 'Content-Type': bodyMediaType } : body ? { 'Content-Type': 'application/json' } : {}
function bodyOf(operation: OpenOperation): string | null {
  const body = getExampleBody(operation)
  if (!body) return null
  return operation.bodyMediaType ? `${new URLSearchParams(body as Record<string, string>)}` : JSON.stringify(body)
}

it('guesses of the link of a run are limited, and a link that exists keeps working', async () => {
  const app = startInstance()
  const tenant = await newTenant()
  const { root } = newTrace()
  await appendRuns(tenant, [root])
  const { share_token } = (await tenant.put(`/runs/${root.id}/share`, {})).body
  const headers = { 'X-Test-Address': '192.0.2.200' }
  const read = (token: string) => send('GET', `/public/${token}/run`, { headers, app })
  expect((await read(share_token)).status).toBe(200)
  expect((await read(unusedId())).body.code).toBe('run_share_not_found')
  expect((await read(unusedId())).body.code).toBe('address_rate_limited')
  expect((await read(share_token.toUpperCase())).status).toBe(200)
})

it('everyone who has a link shares its budget of answers and of bytes', () => {
  const clock = { now: 0 }
  const budget = createLinkBudget(() => clock.now)
  const refusal = expect.objectContaining({ code: 'link_rate_limited' })
  for (let i = 0; i < 600; i++) {
    budget.requireLeft('often')
    budget.spend('often', 1)
  }
  expect(() => budget.requireLeft('often')).toThrow(refusal)
  for (let i = 0; i < 6; i++) {
    budget.requireLeft('much')
    budget.spend('much', 45_000_000)
  }
  expect(() => budget.requireLeft('much')).toThrow(refusal)
  budget.requireLeft('other')
  clock.now = 60_000
  budget.requireLeft('often')
})
