import { describe, expect, it } from 'vitest'
import { storeQueuedLines } from '../../../src/hosting/logs/queued-lines.ts'
import { allow, hasTag, newLimitedCaller, tagValue } from '../../support/access-policies.ts'
import { getServices, newTenant, type Tenant } from '../../support/app.ts'
import { newLoggedDeployment } from '../../support/logged-deployment.ts'

type Line = { message: string; deployment_id: string; kind: string; attributes?: object; trace_id: string | null }
type Page = { logs: Line[]; next_cursor: string | null; searched_until: string | null }
type Query = Record<string, string | string[]>

const queryText = (query: Query) =>
  new URLSearchParams(Object.entries(query).flatMap(([name, value]) => [value].flat().map(one => [name, one])))

/** Lines that wait for ClickHouse are handed on first. */
async function search(caller: Pick<Tenant, 'get'>, query: Query = {}): Promise<Page> {
  await storeQueuedLines(getServices())
  const { status, body } = await caller.get(`/v2/logs?${queryText(query)}`)
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}
const find = async (caller: Pick<Tenant, 'get'>, query: Query = {}) =>
  (await search(caller, query)).logs.map(({ message }) => message)

const start = Date.parse('2026-01-01T00:00:00.000Z')
const at = (second: number) => new Date(start + second * 1000).toISOString()
const TRACE = '0af7651916cd43dd8448eb211c80319c'

async function newLogs() {
  const tenant = await newTenant()
  const [web, jobs] = [await newLoggedDeployment({ tenant }), await newLoggedDeployment({ tenant })]
  await web.openLog({ kind: 'build' })([{ message: 'Cloning', timestamp: at(0) }])
  await web.openLog()([
    { message: JSON.stringify({ msg: 'paid', user: 42, trace_id: TRACE }), timestamp: at(1) },
    { message: JSON.stringify({ msg: 'paid', user: 43, request_id: 'r-1' }), timestamp: at(2) },
    { message: 'Timeout of 100% of requests', level: 'ERROR', timestamp: at(4), process: 'web' },
  ])
  await jobs.openLog()([{ message: 'timeout of a job', level: 'CRITICAL', timestamp: at(3), process: 'worker' }])
  return { tenant, web, jobs }
}
const PAID = (user: number, id: object) => JSON.stringify({ msg: 'paid', user, ...id })

describe('a search of logs', () => {
  it('finds lines of all deployments, newest first, page by page', async () => {
    const { tenant, web, jobs } = await newLogs()
    const first = await search(tenant, { limit: '2' })
    expect(first.logs.map(({ message, deployment_id }) => [message, deployment_id])).toEqual([
      ['Timeout of 100% of requests', web.id],
      ['timeout of a job', jobs.id],
    ])
    const rest = await search(tenant, { limit: '100', cursor: first.next_cursor! })
    expect(rest.logs.map(({ kind }) => kind)).toEqual(['deploy', 'deploy', 'build'])
    expect([rest.next_cursor, rest.searched_until]).toEqual([null, null])
    expect(await find(await newTenant())).toEqual([])
  })

  it('filters by text, level, process, kind, deployment, time, ids and members', async () => {
    const { tenant, web, jobs } = await newLogs()
    expect(await find(tenant, { q: 'TIMEOUT' })).toHaveLength(2)
    expect(await find(tenant, { q: '100% of' })).toEqual(['Timeout of 100% of requests'])
    expect(await find(tenant, { q: '100_' })).toEqual([])
    expect(await find(tenant, { level: 'critical' })).toEqual(['timeout of a job'])
    expect(await find(tenant, { process: 'web' })).toEqual(['Timeout of 100% of requests'])
    expect(await find(tenant, { kind: 'build' })).toEqual(['Cloning'])
    expect(await find(tenant, { deployment_id: jobs.id })).toEqual(['timeout of a job'])
    expect(await find(tenant, { revision_id: web.revisionIds[0]!, kind: 'build' })).toEqual(['Cloning'])
    expect(await find(tenant, { start_time: at(3), end_time: at(4) })).toEqual(['timeout of a job'])
    expect(await find(tenant, { trace_id: TRACE })).toEqual([PAID(42, { trace_id: TRACE })])
    expect(await find(tenant, { request_id: 'r-1' })).toEqual([PAID(43, { request_id: 'r-1' })])
    expect(await find(tenant, { attribute: 'user=43' })).toEqual([PAID(43, { request_id: 'r-1' })])
    expect(await find(tenant, { attribute: ['user=43', 'request_id=r-2'] })).toEqual([])
    expect(await find(tenant, { attribute: 'user=43,request_id=r-1' })).toHaveLength(1)
    expect(await find(tenant, { attribute: String.raw`user=43\,request_id=r-1` })).toEqual([])
    const [line] = (await search(tenant, { attribute: 'user=42' })).logs
    expect(line).toMatchObject({ attributes: { user: 42, trace_id: TRACE }, trace_id: TRACE })
  })

  it('hides lines of deployments that access policies hide, and of deleted ones', async () => {
    const { tenant, web, jobs } = await newLogs()
    await tenant.post(`/v2/deployments/${jobs.id}/tags`, { tag_value_ids: [await tagValue(tenant, 'team=one')] })
    const limited = await newLimitedCaller(tenant, [], [allow('deployments:read', hasTag('team', 'one'))])
    expect(await find(limited)).toEqual(['timeout of a job'])
    expect(await find(limited, { deployment_id: web.id })).toEqual([])
    const { body } = await limited.get(`/v2/logs/histogram?start_time=${at(0)}&end_time=${at(60)}`)
    expect(body.bins).toEqual([{ time: at(3), counts: expect.objectContaining({ CRITICAL: 1, ERROR: 0 }) }])
  })

  it('counts lines by time and level', async () => {
    const { tenant } = await newLogs()
    await storeQueuedLines(getServices())
    const path = '/v2/logs/histogram'
    const { body } = await tenant.get(`${path}?start_time=${at(0)}&end_time=${at(60)}&step=30`)
    expect(body).toEqual({
      step: 30,
      counted_from: at(0),
      bins: [{ time: at(0), counts: { DEBUG: 0, INFO: 3, WARNING: 0, ERROR: 1, CRITICAL: 1 } }],
    })
    const { body: found } = await tenant.get(`${path}?start_time=${at(0)}&end_time=${at(60)}&q=paid`)
    expect(found.bins.map(({ time }: { time: string }) => time)).toEqual([at(1), at(2)])
    for (const query of [`start_time=${at(1)}&end_time=${at(0)}`, `start_time=${at(-100_000)}&step=1`])
      expect((await tenant.get(`${path}?${query}`)).body.code).toBe('invalid_request')
  })

  it('refuses what it does not understand, with all faults at once', async () => {
    const tenant = await newTenant()
    const { body } = await tenant.get('/v2/logs?cursor=x&trace_id=y&attribute=z&level=loud')
    const places = body.errors.map(({ loc }: { loc: string[] }) => loc[1])
    expect(places.sort()).toEqual(['attribute', 'cursor', 'level', 'trace_id'])
  })
})
