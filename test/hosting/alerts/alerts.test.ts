// Alerts from their cause to the notice: what opens an incident, what ends it, and who is told.
import { sql } from 'drizzle-orm'
import { beforeEach, describe, expect, it } from 'vitest'
import { finishPendingWork } from '../../../src/host/pending-work.ts'
import { lookAtAlerts, sweepAlerts } from '../../../src/hosting/alerts/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { getApp, getServices, newTenant, type Tenant, unusedId, withClockAhead } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'
import { appendRuns, newTrace, projectId } from '../../support/new-traces.ts'
import { makeListenerDeployment, makeSyncAgent, newListener, type SyncAgent } from '../../support/sync-agent.ts'

const MINUTE = 60_000

let tenant: Tenant
let agent: SyncAgent
let revision: { deployment_id: string; revision_id: string }
beforeEach(async () => {
  tenant = await newTenant()
  const { listener, key } = await newListener(tenant)
  agent = makeSyncAgent(tenant, key)
  const { id, latest_revision_id } = await newDeployment(tenant, makeListenerDeployment(listener))
  revision = { deployment_id: id, revision_id: latest_revision_id }
  const [work] = await agent.pollAll()
  await agent.report(work!, { state: 'deployed' })
})

const settle = () => finishPendingWork()
/** Longer than a copy may be away before it is an incident. */
const HELD = 6000
const look = (ms = 0) => withClockAhead(ms, () => lookAtAlerts(getServices(getApp())))

async function newChannel(members: object = {}): Promise<string> {
  const [[[id]]] = (await runAsSystem(
    getApp().database,
    sql`
      insert into channels (organization_id, tenant_id, name, kind, config, credentials, is_default)
      select w.organization_id, w.id, ${unusedId()}, 'webhook', '{}', '', ${!('is_default' in members)}
      from workspaces w
      where w.id = ${tenant.tenant_id}::uuid
      returning id`,
  )) as [[[string]]]
  return id
}
type Told = { phase: string; sequence: number; title: string; lines: string[] }
async function listTold(): Promise<Told[]> {
  const [rows] = await runAsSystem(
    getApp().database,
    sql`
      select n.phase, n.sequence, n.content ->> 'title', n.content -> 'lines'
      from notices n
      where n.tenant_id = ${tenant.tenant_id}::uuid
      order by n.thread, n.sequence`,
  )
  return (rows as [string, string, string, string][]).map(([phase, sequence, title, lines]) => ({
    phase,
    sequence: Number(sequence),
    title,
    lines: JSON.parse(lines),
  }))
}
const phases = async () => (await listTold()).map(({ phase }) => phase)

const listIncidents = async (query = '') => (await tenant.get(`/v2/incidents?limit=100${query}`)).body.resources
const serve = async (health: { state: string; reason?: string } = { state: 'healthy' }) => {
  const generation = agent.generations.get(revision.deployment_id)!
  const result = await agent.report({ deployment_id: revision.deployment_id, generation }, {
    state: 'serving',
    revision_id: revision.revision_id,
    healthy: health.state === 'healthy',
    health,
  } as never)
  expect(result).toMatchObject({ outcome: 'accepted' })
}
const createRule = async (rule: object) => {
  const { status, body } = await tenant.post('/v2/alert-rules', { name: unusedId(), ...rule })
  expect(status, JSON.stringify(body)).toBe(201)
  return body
}

const log = (messages: string[], ms = 0) =>
  withClockAhead(ms, () =>
    agent.post('/v1/sync/logs', {
      agent_id: agent.agent_id,
      fence: agent.fence,
      ...revision,
      kind: 'deploy',
      stream: crypto.randomUUID(),
      from: 0,
      lines: messages.map(message => ({ timestamp: new Date(Date.now() + ms).toISOString(), level: 'ERROR', message })),
    }),
  )
const post = (path: string, statuses: string, at: number, members: object = {}) =>
  agent.post(path, {
    agent_id: agent.agent_id,
    fence: agent.fence,
    points: [
      {
        ...revision,
        at: new Date(Math.floor(at / MINUTE) * MINUTE).toISOString(),
        copies: [{ copy: '1', running: true, restarts: 0, statuses }],
        ...members,
      },
    ],
  })

describe('the built-in rules', () => {
  it('are there from the beginning, and off by one switch or each alone', async () => {
    const { body } = await tenant.get('/v2/alert-rules?limit=100')
    expect(body.resources).toHaveLength(7)
    expect(body.resources.every((rule: { is_active: boolean }) => rule.is_active)).toBe(true)
    expect((await tenant.get('/v2/alert-settings')).body).toEqual({ defaults_enabled: true, default_channels: 0 })
    const off = await tenant.patch('/v2/alert-settings', { defaults_enabled: false })
    expect(off.body).toMatchObject({ defaults_enabled: false })
    const [first] = (await tenant.get('/v2/alert-rules')).body.resources
    expect(first).toMatchObject({ enabled: true, is_active: false })
    expect((await tenant.delete(`/v2/alert-rules/${first.id}`)).body.code).toBe('alert_rule_built_in')
    await serve({ state: 'crash_looping', reason: 'It exits with 1.' })
    await settle()
    expect(await listIncidents()).toEqual([])
  })

  it('tell of a crash loop once, with its cause, and of its end', async () => {
    await newChannel()
    await serve()
    await log(['heap: 480 MiB', 'Error: no memory left'])
    await serve({ state: 'unhealthy', reason: 'It ended.' })
    await settle()
    await serve()
    await look(HELD)
    expect(await listIncidents()).toEqual([])
    await serve({ state: 'crash_looping', reason: 'web exits with 137 after 3 s.' })
    await settle()
    await look(HELD)
    const [incident, ...others] = await listIncidents('&state=unresolved')
    expect(others).toEqual([])
    expect(incident).toMatchObject({
      state: 'open',
      severity: 'critical',
      is_told: true,
      cause: expect.stringContaining('exits with 137'),
      subject: { type: 'deployment', id: revision.deployment_id },
    })
    expect(await listTold()).toMatchObject([{ phase: 'open', lines: ['heap: 480 MiB', 'Error: no memory left'] }])
    // The event of the same change comes with the sweep of the minute.
    await look(MINUTE)
    expect(await phases()).toEqual(['open'])
    await serve()
    await look(2 * MINUTE)
    await look(4 * MINUTE)
    expect(await phases()).toEqual(['open', 'close'])
    const details = (await tenant.get(`/v2/incidents/${incident.id}`)).body
    expect(details.state).toBe('resolved')
    expect(details.history.map(({ kind }: { kind: string }) => kind).toSorted()).toEqual([
      'opened',
      'resolved',
      'told',
      'told',
    ])
    const types = (await tenant.get('/v2/events?type=incident.*')).body.resources.map(
      ({ type }: { type: string }) => type,
    )
    expect(types).toEqual(['incident.opened', 'incident.resolved'])
  })

  it('notice failing requests before their minute is over, if there are enough of them', async () => {
    await newChannel()
    expect((await post('/v1/sync/early-metrics', '0,5,0,0,10', Date.now())).status).toBe(200)
    await settle()
    expect(await listIncidents()).toEqual([])
    await post('/v1/sync/early-metrics', '0,50,0,0,50', Date.now())
    await settle()
    expect(await listIncidents()).toMatchObject([{ value: 0.5, rule: { name: 'Many requests fail' } }])
    await post('/v1/sync/metrics', '0,50,0,0,50', Date.now())
    await settle()
    expect(await phases()).toEqual(['open'])
  })
})

it('a cause says each reason once, without the lines of the log, which are evidence', async () => {
  await newChannel()
  const generation = agent.generations.get(revision.deployment_id)!
  const problem = 'it used 257 MB of memory.'
  const message = `Killed: ${problem}`
  await agent.report({ deployment_id: revision.deployment_id, generation }, {
    state: 'serving',
    revision_id: revision.revision_id,
    healthy: false,
    health: { state: 'crash_looping', reason: `Crash loop: ${problem} Its last lines:\nheap: 250 MiB\nheap: 257 MiB` },
    incidents: [{ kind: 'out_of_memory', id: 'x', count: 1, last_at: new Date().toISOString(), message }],
  } as never)
  await settle()
  await look(HELD)
  expect((await listIncidents()).map(({ cause }: { cause: string }) => cause).toSorted()).toEqual([
    `Crash loop: ${problem}`,
    message,
  ])
  expect((await listTold()).map(({ lines }) => lines)).toEqual(Array(2).fill(['heap: 250 MiB', 'heap: 257 MiB']))
})

it('texts that end within a character keep no look from being written', async () => {
  const incident = { kind: 'out_of_memory', id: 'x', count: 1, last_at: new Date().toISOString() }
  const generation = agent.generations.get(revision.deployment_id)!
  await agent.report({ deployment_id: revision.deployment_id, generation }, {
    state: 'serving',
    revision_id: revision.revision_id,
    healthy: false,
    health: { state: 'crash_looping', reason: `aa${'😀'.repeat(998)}` },
    incidents: [{ ...incident, message: '😀'.repeat(900) }],
  } as never)
  await settle()
  await look()
  expect((await listIncidents()).length).toBeGreaterThan(0)
})

describe('a rule on log lines', () => {
  const condition = { kind: 'log', contains: 'payment failed', count: 3, window_seconds: 60 }

  it('counts the lines of its window, and ends when they are over', async () => {
    await newChannel()
    const rule = await createRule({ condition, resolve_after_seconds: 60 })
    await log(['Payment failed: a', 'payment ok'])
    await log(['payment failed: b'])
    await settle()
    expect(await listIncidents()).toEqual([])
    await log(['PAYMENT FAILED: c'])
    await settle()
    expect(await listIncidents()).toMatchObject([{ value: 3, rule: { id: rule.id }, state: 'open' }])
    for (const seconds of [70, 140, 210]) await look(seconds * 1000)
    expect(await listIncidents()).toMatchObject([{ state: 'resolved' }])
  })

  it('resolves its incidents when it is turned off or deleted', async () => {
    const rule = await createRule({ condition: { ...condition, count: 1 } })
    await log(['payment failed'])
    await settle()
    await tenant.patch(`/v2/alert-rules/${rule.id}`, { enabled: false })
    await look()
    expect(await listIncidents()).toMatchObject([{ state: 'resolved' }])
    const other = await createRule({ condition: { ...condition, count: 1 } })
    await log(['payment failed'])
    await settle()
    expect((await tenant.delete(`/v2/alert-rules/${other.id}`)).status).toBe(204)
    expect(await listIncidents('&state=unresolved')).toEqual([])
  })
})

it('a rule on the length of a queue opens an incident while too many tasks wait', async () => {
  const condition = { kind: 'metric', metric: 'queue', operator: 'above', threshold: 10, window_seconds: 60 }
  const { id } = await createRule({ condition, resolve_after_seconds: 0 })
  const told = (queue: number, ms: number) =>
    withClockAhead(ms, () => post('/v1/sync/metrics', '0,1,0,0,0', Date.now() + ms - MINUTE, { queue }))
  const open = () => listIncidents(`&rule_id=${id}&state=open`)
  await told(10, 0)
  await settle()
  expect(await open()).toEqual([])
  await told(11, MINUTE)
  await settle()
  expect(await open()).toMatchObject([{ value: 11 }])
  const { body } = await tenant.get(`/v2/deployments/${revision.deployment_id}/metrics?metrics=queue`)
  expect(JSON.stringify(body)).toContain('11')
  await told(0, 2 * MINUTE)
  await settle()
  expect(await open()).toEqual([])
})

describe('a rule on traces', () => {
  const ended = (members: object = {}) => {
    const now = Date.now()
    const times = { start_time: new Date(now - 2000).toISOString(), end_time: new Date(now).toISOString() }
    return { ...newTrace().root, ...times, ...members }
  }

  it.each([
    ['error_rate', { threshold: 0.3, min_traces: 3 }, 1 / 3],
    ['latency_p50', { threshold: 1 }, 2],
    ['cost', { threshold: 0.5 }, 0.75],
    ['feedback', { threshold: 0.9, operator: 'below', feedback_key: 'correct' }, 0.25],
  ])('opens an incident by %s', async (metric, condition, value) => {
    await appendRuns(tenant, [newTrace().root])
    const project_id = await projectId(tenant, 'traced')
    const { id } = await createRule({
      condition: { kind: 'trace', project_id, metric, operator: 'above', ...condition },
    })
    await look()
    expect(await listIncidents(`&rule_id=${id}`)).toEqual([])
    const usage_metadata = { input_tokens: 1, output_tokens: 1, total_tokens: 2, total_cost: 0.75 }
    const failed = ended({ error: 'It failed.', run_type: 'llm', outputs: JSON.stringify({ usage_metadata }) })
    await appendRuns(tenant, [ended(), failed])
    await tenant.post('/feedback', { run_id: failed.id, key: 'correct', score: 0.25 })
    await look(2 * MINUTE)
    expect(await listIncidents(`&rule_id=${id}`)).toMatchObject([{ state: 'open', value: expect.closeTo(value, 1) }])
  })
})

describe('an incident', () => {
  const crash = async (ms = 0) => {
    await withClockAhead(ms, () => serve({ state: 'crash_looping', reason: 'It exits.' }))
    await look(ms)
    await look(ms + HELD)
  }
  const recover = async (ms: number) => {
    await withClockAhead(ms, () => serve())
    await look(ms)
    await look(ms + 2 * MINUTE)
  }

  it('is acknowledged and resolved by a person, and opens again only after it was over', async () => {
    await newChannel()
    await crash()
    const [{ id }] = await listIncidents()
    const acknowledged = await tenant.post(`/v2/incidents/${id}/acknowledge`, { message: 'Looking.' })
    expect(acknowledged.body).toMatchObject({ state: 'acknowledged' })
    expect((await tenant.post(`/v2/incidents/${id}/resolve`, {})).body).toMatchObject({ state: 'resolved' })
    expect((await tenant.post(`/v2/incidents/${id}/acknowledge`, {})).body.code).toBe('incident_resolved')
    await serve({ state: 'unhealthy', reason: 'It still exits.' })
    await settle()
    expect(await listIncidents('&state=unresolved')).toEqual([])
    expect(await phases()).toEqual(['open', 'update', 'close'])
  })

  it('that flaps is told at most twice', async () => {
    await newChannel()
    for (let turn = 0; turn < 4; turn++) {
      await crash(turn * 5 * MINUTE)
      await recover((turn * 5 + 1) * MINUTE)
    }
    expect(await listIncidents()).toMatchObject([{ reopened: 3, state: 'resolved' }])
    expect(await phases()).toEqual(['open', 'close'])
  })

  it('is recorded during a mute, and told at its end if it still is open', async () => {
    await newChannel()
    const until = (minutes: number) => new Date(Date.now() + minutes * MINUTE).toISOString()
    await tenant.post('/v2/alert-mutes', { reason: 'Moving', ends_at: until(10) })
    await crash()
    expect(await listIncidents()).toMatchObject([{ state: 'open', is_told: false, muted_until: expect.any(String) }])
    await look(9 * MINUTE)
    expect(await phases()).toEqual([])
    await look(11 * MINUTE)
    expect(await phases()).toEqual(['open'])
  })

  it('is told when its mute is deleted', async () => {
    await newChannel()
    const { body: mute } = await tenant.post('/v2/alert-mutes', { reason: 'Moving' })
    await crash()
    expect(await phases()).toEqual([])
    expect((await tenant.delete(`/v2/alert-mutes/${mute.id}`)).status).toBe(204)
    await look()
    expect(await phases()).toEqual(['open'])
  })

  it('is decided once by two looks at the same time', async () => {
    await newChannel()
    const rule = await createRule({ condition: { kind: 'event', types: ['tag_key.created'] } })
    await tenant.post('/v2/tag-keys', { key: 'team' })
    await Promise.all([look(), look(), look()])
    expect(await listIncidents(`&rule_id=${rule.id}`)).toMatchObject([{ subject: { type: 'workspace' } }])
    expect(await phases()).toEqual(['open'])
    await withClockAhead(MINUTE, () => sweepAlerts(getServices(getApp())))
    expect(await phases()).toEqual(['open'])
  })
})

it('a rule that cannot act is refused, with all faults at once', async () => {
  const { status, body } = await tenant.post('/v2/alert-rules', {
    name: '',
    condition: { kind: 'metric', metric: 'patience', operator: 'above', threshold: 1, clear_threshold: 2 },
    for_seconds: -1,
  })
  expect(status).toBe(422)
  expect(body.errors.map(({ loc }: { loc: string[] }) => loc.join('.')).toSorted()).toEqual([
    'body.condition.metric',
    'body.for_seconds',
    'body.name',
  ])
  const unknown = await tenant.post('/v2/alert-rules', {
    name: 'Far',
    condition: { kind: 'log', contains: 'x' },
    deployment_ids: [crypto.randomUUID()],
  })
  expect(unknown.body.code).toBe('deployment_not_found')
})
