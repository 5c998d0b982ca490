// The health of a deployment, from the reports of its agent: in answers, in the filter, and in the journal.
import { expect, it } from 'vitest'
import { sweepRevisions } from '../../../src/hosting/deployments/sweep.ts'
import type { Report } from '../../../src/protocol/report.schema.ts'
import { getApp, newTenant, type Tenant, withClockAhead } from '../../support/app.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const MINUTE = 60_000

async function newServing() {
  const tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  const { body } = await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: 'app' }))
  const agent = makeSyncAgent(tenant, key)
  const path = `/v2/deployments/${body.id}`
  const read = async () => (await tenant.get(path)).body
  const before = await read()
  await agent.report((await agent.poll()).changes[0]!, { state: 'deployed' })
  const report = (fields: Partial<Report>) =>
    agent.report(
      { deployment_id: body.id, generation: agent.generations.get(body.id)! },
      { state: 'serving', revision_id: body.latest_revision_id, healthy: true, ...fields },
    )
  return { tenant, listener, agent, path, id: body.id as string, before, read, report }
}
/** The listener of an agent that polls is not silent. */
const sweepAt = (ahead: number, agent?: { poll: () => Promise<unknown> }) =>
  withClockAhead(ahead, async () => {
    await agent?.poll()
    await sweepRevisions(getApp())
  })
async function listEvents(tenant: Tenant, id: string, types: string) {
  const { body } = await tenant.get(`/v2/events?subject_id=${id}&type=${types}`)
  return body.resources as { type: string; data: Record<string, unknown>; changes: { path: string }[] }[]
}
const HEALTH_EVENTS = ['healthy', 'degraded', 'crash_looping', 'unhealthy', 'health_flapping']
  .map(name => `deployment.${name}`)
  .join()

it('is what the agent reported of the revision that serves, since when, and why', async () => {
  const { tenant, agent, path, before, read, report } = await newServing()
  expect(before.health).toMatchObject({ state: 'nothing_serves', reason: expect.any(String) })
  expect((await read()).health).toMatchObject({ state: 'healthy', reason: null })
  const { headers } = await tenant.get(path)
  await report({ healthy: false, health: { state: 'crash_looping', reason: 'It ended 4 times.' } })
  const looping = (await read()).health
  expect(looping).toMatchObject({ state: 'crash_looping', reason: 'It ended 4 times.' })
  const list = async (health: string) => tenant.get(`/v2/deployments?health=${health}`)
  expect((await list('crash_looping,degraded')).body.resources).toHaveLength(1)
  expect((await list('healthy')).body.resources).toEqual([])
  const unknown = await list('broken')
  expect([unknown.status, unknown.body.resources, unknown.headers.get('Slipway-Warnings')]).toEqual([
    200,
    [],
    expect.stringContaining('broken'),
  ])
  expect((await tenant.get(`${path}/explain`)).body.resources[0]).toMatchObject({ code: 'crash_looping' })
  // A change of health is no 304, and does not stand in the way of a change of the deployment.
  const tag = headers.get('ETag')!
  expect((await tenant.get(path, { 'If-None-Match': tag })).status).toBe(200)
  await tenant.post(`${path}/revisions`)
  const revision = (await agent.poll()).changes[0]!.revision!
  await report({ state: 'building', revision_id: revision.id, health: { state: 'degraded' } })
  expect((await read()).health).toMatchObject({ state: 'degraded' })
  // An agent of an earlier release reports none.
  await report({ state: 'deployed', revision_id: revision.id, message: null })
  expect((await read()).health).toMatchObject({ state: 'healthy', reason: null })
})

it('keeps the version of a deployment, so that a change of it can be applied meanwhile', async () => {
  const { tenant, path, report } = await newServing()
  const tag = (await tenant.get(path)).headers.get('ETag')!
  await report({ healthy: false, health: { state: 'unhealthy', reason: 'Nothing listens.' } })
  const changed = await tenant.patch(path, { secrets: [{ name: 'A', value: 'b' }] }, { 'If-Match': tag })
  expect(changed.status).toBe(200)
})

it('is not known while the listener is silent, which is journaled with its return', async () => {
  const { tenant, listener, agent, id, read } = await newServing()
  await sweepAt(6 * MINUTE)
  await sweepAt(7 * MINUTE)
  expect(await read()).toMatchObject({ status: 'UNKNOWN', health: null })
  await withClockAhead(8 * MINUTE, () => agent.poll())
  await sweepAt(8 * MINUTE)
  expect(await read()).toMatchObject({ status: 'READY', health: { state: 'healthy' } })
  const types = (await listEvents(tenant, listener.id, 'listener.lost,listener.found')).map(({ type }) => type)
  expect(types.sort()).toEqual(['listener.found', 'listener.lost'])
  expect((await listEvents(tenant, id, HEALTH_EVENTS)).length).toBe(0)
})

it('is journaled when a crash loop begins and ends, and as flapping when it changes again and again', async () => {
  const { tenant, agent, id, report } = await newServing()
  const at = async (minutes: number, state: 'healthy' | 'crash_looping') => {
    await withClockAhead(minutes * MINUTE, () => report({ healthy: state === 'healthy', health: { state } }))
    await sweepAt(minutes * MINUTE, agent)
  }
  const types = async () => (await listEvents(tenant, id, HEALTH_EVENTS)).map(({ type }) => type.slice(11)).reverse()
  await at(0, 'crash_looping')
  await at(1, 'healthy')
  const began = (await types()).toSorted()
  expect(began).toEqual(['crash_looping', 'healthy'])
  for (let i = 2; i < 40; i++) await at(i, i % 2 === 0 ? 'crash_looping' : 'healthy')
  const all = await types()
  expect([all.length < 8, all.filter(type => type === 'health_flapping').length]).toEqual([true, 1])
  await sweepAt(70 * MINUTE, agent)
  // It is what it was last, for long enough.
  expect((await types()).length).toBe(all.length + 1)
})

it('does not flap with a new revision for what the one before did', async () => {
  const { tenant, agent, id, path, report } = await newServing()
  for (let i = 0; i < 8; i++)
    await report(i % 2 ? {} : { healthy: false, health: { state: 'crash_looping', reason: 'It ended.' } })
  await tenant.post(`${path}/revisions`)
  const { id: revision_id } = (await agent.poll()).changes[0]!.revision!
  await report({ state: 'deployed', revision_id })
  await report({ revision_id, healthy: false, health: { state: 'unhealthy', reason: 'Nothing listens.' } })
  await sweepAt(0, agent)
  expect((await listEvents(tenant, id, HEALTH_EVENTS)).map(({ type }) => type)).toEqual(['deployment.unhealthy'])
})

it('restarts are journaled at most once in ten minutes, with how many there were', async () => {
  const { tenant, agent, id, report } = await newServing()
  const incident = (kind: 'restarted' | 'out_of_memory', count: number, seconds: number) => ({
    kind,
    count,
    last_at: new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString(),
    message: `It was number ${count}.`,
  })
  for (let i = 1; i <= 5; i++) await report({ incidents: [incident('restarted', i, i)] })
  await report({ incidents: [incident('restarted', 5, 5)] })
  await sweepAt(0)
  await report({ incidents: [incident('restarted', 7, 7), incident('out_of_memory', 1, 7)] })
  await sweepAt(0)
  const read = async () =>
    (await listEvents(tenant, id, 'deployment.restarted,deployment.out_of_memory')).map(({ type, data }) => [
      type,
      data.count,
      data.message,
    ])
  expect(await read()).toEqual([['deployment.restarted', 5, 'It was number 5.']])
  // The agent was restarted, so it counts anew.
  await report({ incidents: [incident('restarted', 1, 9)] })
  await sweepAt(11 * MINUTE, agent)
  expect((await read()).map(([type, count]) => [type, count]).sort()).toEqual([
    ['deployment.out_of_memory', 1],
    ['deployment.restarted', 3],
    ['deployment.restarted', 5],
  ])
})

it('is told for each process type, also in the ETag, and forgotten by a report without it', async () => {
  const { tenant, path, read, report } = await newServing()
  expect((await read()).health.processes).toEqual([])
  const processes = (worker: 'healthy' | 'crash_looping') => ({
    health: {
      state: 'degraded' as const,
      reason: 'Process `worker` ends.',
      processes: [
        { name: 'web', state: 'healthy' as const },
        { name: 'worker', state: worker, reason: 'It ended.' },
      ],
    },
  })
  await report(processes('crash_looping'))
  const { processes: told } = (await read()).health
  expect(told).toEqual([
    { name: 'web', state: 'healthy', reason: null },
    { name: 'worker', state: 'crash_looping', reason: 'It ended.' },
  ])
  const tag = (await tenant.get(path)).headers.get('ETag')!
  await report(processes('healthy'))
  expect((await tenant.get(path, { 'If-None-Match': tag })).status).toBe(200)
  const listed = await tenant.get('/v2/deployments?include=summary')
  expect(listed.body.resources[0].summary.state).toBe('attention')
  await report({ health: { state: 'healthy' } })
  expect((await read()).health.processes).toEqual([])
})

it('totals of any size are journaled', async () => {
  const { tenant, agent, id, report } = await newServing()
  const most = 2_147_483_647
  for (const seconds of [1, 2, 3]) {
    const last_at = new Date(Date.UTC(2026, 0, 1) + seconds * 1000).toISOString()
    await report({ incidents: [{ kind: 'restarted', count: most, last_at }] })
  }
  await sweepAt(0, agent)
  const [event] = await listEvents(tenant, id, 'deployment.restarted')
  expect(event?.data.count).toBe(most)
})
