// Jobs: created, handed to an agent, started once, ended, cancelled, given up.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { sweepJobs } from '../../../src/hosting/jobs/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { setClock } from '../../../src/kernel/db/journal.ts'
import { getApp, readEvents, type Tenant, withClockAhead } from '../../support/app.ts'
import { newDeployment } from '../../support/deployments.ts'
import { POLICY, reportJob, reportJobs, startServing } from '../../support/jobs.ts'
import { openStream, startStreamingApp } from '../../support/live-streams.ts'

const MINUTE = 60_000

const sweep = (ahead = 0) => withClockAhead(ahead, () => sweepJobs(getApp()))

describe('a job', () => {
  it('is handed to its agent, starts once, and ends with its exit code and its lines', async () => {
    const { tenant, agent, id, path, read, revision } = await startServing()
    const created = await tenant.post(`${path}/jobs`, { command: ['echo', 'hello'], timeout_seconds: 60 })
    expect(created.status).toBe(201)
    expect(created.headers.get('Location')).toBe(`${path}/jobs/${created.body.id}`)
    expect(created.body).toMatchObject({ status: 'QUEUED', revision_id: revision, attempt: 1, exit_code: null })
    const job_id = created.body.id
    const work = {
      job_id,
      deployment_id: id,
      command: ['echo', 'hello'],
      timeout_seconds: 60,
      cancel: false,
    }
    expect((await agent.poll()).jobs).toEqual([{ ...work, status: 'QUEUED', starts_in_ms: 0 }])
    expect((await agent.poll()).jobs).toEqual([])

    // An agent may repeat a report that had no answer.
    for (const _ of [1, 2])
      expect(await reportJob(agent, job_id, 'running', { revision_id: revision })).toMatchObject({ accepted: true })
    expect(await read(job_id)).toMatchObject({ status: 'RUNNING', started_at: expect.any(String) })
    // The next agent finds it as one that was started.
    expect((await agent.poll({ fence: null, cursor: null, policy: POLICY })).jobs).toMatchObject([
      { job_id, status: 'RUNNING' },
    ])

    const stream = crypto.randomUUID()
    const batch = {
      agent_id: agent.agent_id,
      fence: agent.fence,
      deployment_id: id,
      revision_id: revision,
      kind: 'deploy',
    }
    const line = (message: string) => ({ timestamp: '2026-11-21T12:00:00.000Z', level: 'INFO', message })
    const send = (from: number, ...lines: string[]) =>
      agent.post('/v1/sync/logs', { ...batch, job_id, stream, from, lines: lines.map(line) })
    expect((await send(0, 'hello')).body).toEqual({ next: 1 })
    expect((await send(0, 'hello', 'again')).body).toEqual({ next: 2 })
    const ndjson = { Accept: 'application/x-ndjson' }
    const lines = await openStream(startStreamingApp(), tenant, `${path}/jobs/${job_id}/logs/stream`, ndjson)
    const next = async () => JSON.parse((await lines.nextLine())!)
    expect([await next(), await next(), await next()]).toMatchObject([
      { number: 1, message: 'hello' },
      { number: 2, message: 'again' },
      { job: { status: 'RUNNING' } },
    ])
    const waiting = tenant.get(`${path}/jobs/${job_id}/logs?after=2&wait=20`)
    for (const _ of [1, 2])
      expect(await reportJob(agent, job_id, 'succeeded', { exit_code: 0 })).toMatchObject({ accepted: true })
    expect((await waiting).body).toMatchObject({ logs: [], job: { status: 'SUCCEEDED', exit_code: 0 } })
    const { body } = await tenant.get(`${path}/jobs/${job_id}/logs?limit=1`)
    expect(body).toMatchObject({ logs: [{ number: 1, message: 'hello' }], next_after: 1, has_more: true, dropped: 0 })
    expect([await next(), await next()]).toMatchObject([{ job: { status: 'SUCCEEDED', exit_code: 0 } }, { end: {} }])
    // The lines of jobs are not those of the revision.
    expect((await tenant.get(`${path}/logs`)).body.logs).toEqual([])

    expect(await reportJob(agent, job_id, 'failed', { exit_code: 1 })).toMatchObject({ code: 'job_ended' })
    expect((await agent.poll({ fence: null, cursor: null, policy: POLICY })).jobs).toEqual([])
    expect(await read(job_id)).toMatchObject({ status: 'SUCCEEDED', finished_at: expect.any(String) })
    expect(await readEvents(created.headers.get('X-Request-Id')!)).toMatchObject([
      { type: 'job.created', subject_id: job_id },
    ])
  })

  it('is refused where nothing serves, where the agent cannot run it, and where it could not be changed', async () => {
    const outcome = async (owner: Pick<Tenant, 'post'>, id: string, body: object = { command: 'true' }) => {
      const reply = await owner.post(`/v2/deployments/${id}/jobs`, body)
      return [reply.status, reply.body.code]
    }
    const { tenant, id } = await startServing({ privileged: false, service_accounts: [] })
    expect(await outcome(tenant, id)).toEqual([409, 'jobs_not_supported'])
    const idle = await newDeployment(tenant)
    expect(await outcome(tenant, idle.id)).toEqual([409, 'nothing_serves'])
    expect(await outcome(tenant, crypto.randomUUID())).toEqual([404, 'deployment_not_found'])
    const permissions = ['deployments:read', 'deployments:update']
    const { key } = (await tenant.post('/workspaces/current/api-keys', { description: 'x', permissions })).body
    expect(await outcome(tenant.as(key), id)).toEqual([403, 'permission_missing'])
    for (const command of ['', ' ', [], [''], 'a\0b', 'x'.repeat(5000), 7, null])
      expect(await outcome(tenant, id, { command })).toEqual([422, 'invalid_request'])
    const { body } = await tenant.post(`/v2/deployments/${id}/jobs`, { timeout_seconds: 0, x: 1 })
    expect(body.errors.map(({ loc }: { loc: string[] }) => loc.at(-1)).sort()).toEqual([
      'command',
      'timeout_seconds',
      'x',
    ])
  })

  it('that waits is cancelled at once, and is not started', async () => {
    const { tenant, agent, path, run, read } = await startServing()
    const { id } = await run()
    expect((await agent.poll()).jobs).toMatchObject([{ job_id: id }])
    const cancelled = await tenant.post(`${path}/jobs/${id}/cancel`)
    expect(cancelled.body).toMatchObject({ status: 'CANCELLED' })
    expect(await reportJob(agent, id, 'running')).toMatchObject({ accepted: false, code: 'job_ended' })
    expect(await tenant.post(`${path}/jobs/${id}/cancel`)).toMatchObject({ status: 409, body: { code: 'job_ended' } })
    expect(await read(id)).toMatchObject({ status: 'CANCELLED', started_at: null })
    expect(await readEvents(cancelled.headers.get('X-Request-Id')!)).toMatchObject([{ type: 'job.cancelled' }])
  })

  it('that runs is cancelled by its agent', async () => {
    const { tenant, agent, path, run, read } = await startServing()
    const { id } = await run()
    await agent.poll()
    await reportJob(agent, id, 'running')
    for (const _ of [1, 2])
      expect((await tenant.post(`${path}/jobs/${id}/cancel`)).body).toMatchObject({ status: 'RUNNING' })
    expect((await agent.poll()).jobs).toMatchObject([{ job_id: id, status: 'RUNNING', cancel: true }])
    await reportJob(agent, id, 'cancelled')
    expect(await read(id)).toMatchObject({ status: 'CANCELLED', cancel_requested_at: expect.any(String) })
  })

  it('is unknown to the agent of another listener', async () => {
    const [own, other] = [await startServing(), await startServing()]
    const { id } = await own.run()
    await own.agent.poll()
    expect(await reportJob(other.agent, id, 'running')).toMatchObject({ code: 'job_unknown' })
    expect((await other.agent.poll({ cursor: null })).jobs).toEqual([])
    const lines = [{ timestamp: '2026-11-21T12:00:00.000Z', level: 'INFO', message: 'x' }]
    const { agent, id: deployment_id, revision } = other
    const batch = { agent_id: agent.agent_id, fence: agent.fence, deployment_id, revision_id: revision, kind: 'deploy' }
    const stream = crypto.randomUUID()
    const sent = await agent.post('/v1/sync/logs', { ...batch, job_id: id, stream, from: 0, lines })
    expect([sent.status, sent.body.code]).toEqual([404, 'job_not_found'])
    expect((await other.tenant.get(`${own.path}/jobs/${id}`)).status).toBe(404)
  })

  it('is MISSED if it does not start in time, and LOST if its end is not reported', async () => {
    const { agent, run, read } = await startServing()
    const missed = await run({ deadline_seconds: 60 })
    const started = await run({ timeout_seconds: 60 })
    await agent.poll()
    await reportJob(agent, started.id, 'running')
    await sweep(2 * MINUTE)
    expect(await read(missed.id)).toMatchObject({ status: 'MISSED' })
    expect(await reportJob(agent, missed.id, 'running')).toMatchObject({ code: 'job_ended' })
    expect(await read(started.id)).toMatchObject({ status: 'RUNNING' })
    await sweep(12 * MINUTE)
    expect(await read(started.id)).toMatchObject({ status: 'LOST' })
    // Its agent was cut off, and knows.
    await reportJob(agent, started.id, 'failed', { exit_code: 3, reason: 'It ended with 3.' })
    expect(await read(started.id)).toMatchObject({ status: 'FAILED', exit_code: 3, reason: 'It ended with 3.' })
  })

  it('waits while the workspace runs as many as it may, and is refused beyond the queue', async () => {
    const { tenant, agent, path, run } = await startServing()
    const created = await Promise.all(Array.from({ length: 25 }, () => run()))
    const first = (await agent.poll()).jobs!
    expect(first).toHaveLength(20)
    await reportJobs(
      agent,
      first.map(({ job_id }) => ({ job_id, state: 'running' })),
    )
    await reportJobs(
      agent,
      first.slice(0, 3).map(({ job_id }) => ({ job_id, state: 'succeeded', exit_code: 0 })),
    )
    expect((await agent.poll()).jobs).toHaveLength(3)
    const list = await tenant.get(`${path}/jobs?status=QUEUED&limit=100`)
    expect(list.body.resources).toHaveLength(5)
    expect(created).toHaveLength(25)
    const fill = sql`
      insert into jobs (organization_id, tenant_id, deployment_id, status, command, timeout_seconds, deadline_seconds,
        overdue_at, actor_kind)
      select j.organization_id, j.tenant_id, j.deployment_id, 'QUEUED', '"true"', 60, 60, j.overdue_at, 'key'
      from jobs j, generate_series(1, 978)
      where j.id = ${created[0].id}::uuid`
    await runAsSystem(getApp().database, setClock(getApp().platform), fill)
    expect(await tenant.post(`${path}/jobs`, { command: 'true' })).toMatchObject({ body: { code: 'job_queue_full' } })
  })

  it('is planned as it would run, and runs as planned or not at all', async () => {
    const { tenant, agent, path, revision } = await startServing()
    const body = { command: 'true', process: 'web' }
    const plan = await tenant.post(`${path}/jobs?dry_run=true`, body)
    expect(plan.body).toMatchObject({ ...body, revision_id: revision, revision_number: 1, open_jobs: 0, waits: false })
    expect((await tenant.get(`${path}/jobs`)).body.resources).toEqual([])
    const digest = { 'Plan-Digest': plan.body.plan_digest }
    expect((await tenant.post(`${path}/jobs`, body, digest)).status).toBe(201)
    await tenant.post(`${path}/revisions`, {})
    const [work] = await agent.pollAll()
    await agent.report(work!, { state: 'deployed' })
    expect(await tenant.post(`${path}/jobs`, body, digest)).toMatchObject({ body: { code: 'plan_stale' } })
    expect((await tenant.post(`${path}/jobs?dry_run=true`, { command: '' })).status).toBe(422)
  })

  it('that waits is handed on by the sweep, also behind a workspace that is full', async () => {
    const [full, free] = await Promise.all([startServing(), startServing()])
    for (let i = 0; i < 21; i++) await full.run()
    const { id } = await free.run()
    const wait = sql`update jobs set dispatched_at = null, listener_id = null, seq = null where id = ${id}::uuid`
    await runAsSystem(getApp().database, setClock(getApp().platform), wait)
    expect((await free.agent.poll()).jobs).toEqual([])
    await sweep()
    expect((await free.agent.poll()).jobs).toMatchObject([{ job_id: id }])
    expect((await full.agent.poll()).jobs).toHaveLength(20)
  })

  it('is deleted with its lines after the retention', async () => {
    const { tenant, agent, path, run } = await startServing()
    const { id } = await run()
    await agent.poll()
    await reportJob(agent, id, 'running')
    await reportJob(agent, id, 'succeeded')
    await sweep(29 * 24 * 60 * MINUTE)
    expect((await tenant.get(`${path}/jobs/${id}`)).status).toBe(200)
    await sweep(31 * 24 * 60 * MINUTE)
    expect((await tenant.get(`${path}/jobs/${id}`)).status).toBe(404)
  })
})

describe('a schedule', () => {
  const DAILY = { name: 'nightly', cron: '30 3 * * *', command: 'true', time_zone: 'Europe/Berlin' }

  it('has its next due times, changes, and goes', async () => {
    const { tenant, path } = await startServing()
    const created = await tenant.post(`${path}/schedules`, DAILY)
    expect(created.status, JSON.stringify(created.body)).toBe(201)
    const { id, next_runs } = created.body
    expect(created.body).toMatchObject({ ...DAILY, overlap: 'skip', enabled: true, retries: 0 })
    expect(next_runs).toHaveLength(5)
    for (const time of next_runs)
      expect(new Date(time).toLocaleTimeString('de-DE', { timeZone: 'Europe/Berlin' })).toBe('03:30:00')
    expect(await tenant.post(`${path}/schedules`, DAILY)).toMatchObject({ body: { code: 'schedule_name_taken' } })
    const patched = await tenant.patch(`${path}/schedules/${id}`, { cron: '0 4 * * 1', enabled: false })
    expect(patched.body).toMatchObject({ cron: '0 4 * * 1', enabled: false, next_runs: [], command: 'true' })
    expect((await tenant.patch(`${path}/schedules/${id}`, { enabled: true })).body.next_runs).toHaveLength(5)
    expect((await tenant.get(`${path}/schedules`)).body.resources).toMatchObject([{ id, cron: '0 4 * * 1' }])
    expect((await tenant.delete(`${path}/schedules/${id}`)).status).toBe(204)
    expect((await tenant.get(`${path}/schedules/${id}`)).status).toBe(404)
  })

  it('is refused with all faults at once', async () => {
    const { tenant, path } = await startServing()
    const { status, body } = await tenant.post(`${path}/schedules`, {
      ...DAILY,
      cron: '60 * * * *',
      time_zone: 'Mars/Olympus',
      overlap: 'maybe',
      retries: 11,
    })
    expect([status, body.code]).toEqual([422, 'invalid_request'])
    expect(body.errors.map(({ loc }: { loc: string[] }) => loc.at(-1)).sort()).toEqual([
      'cron',
      'overlap',
      'retries',
      'time_zone',
    ])
  })

  it('runs now, within its overlap', async () => {
    const { tenant, agent, path, read } = await startServing()
    const { id } = (await tenant.post(`${path}/schedules`, DAILY)).body
    const runNow = () => tenant.post(`${path}/schedules/${id}/run`)
    const first = await runNow()
    expect(first.body).toMatchObject({ schedule_id: id, command: 'true', due_at: null })
    expect(await runNow()).toMatchObject({ status: 409, body: { code: 'schedule_running' } })
    await agent.poll()
    await reportJob(agent, first.body.id, 'running')
    await tenant.patch(`${path}/schedules/${id}`, { overlap: 'replace' })
    const second = await runNow()
    expect(second.status).toBe(201)
    // The later run begins once the earlier one has ended.
    expect((await agent.poll()).jobs).toMatchObject([{ job_id: first.body.id, cancel: true }])
    await reportJob(agent, first.body.id, 'cancelled')
    expect((await agent.poll()).jobs).toMatchObject([{ job_id: second.body.id, status: 'QUEUED' }])
    expect(await read(first.body.id)).toMatchObject({ status: 'CANCELLED' })
    const history = await tenant.get(`${path}/jobs?schedule_id=${id}`)
    expect(history.body.resources.map((job: { id: string }) => job.id)).toEqual([second.body.id, first.body.id])
  })
})

describe('a schedule of the source', () => {
  const plan = (...schedules: object[]) => ({
    ...{ provider: 'command', kind: 'web', root: '', install_root: '', tools: [], install: null, build: null },
    ...{ start: 'serve', release: null, site: null, env: {}, programs: [], certain: [], guessed: [], warnings: [] },
    processes: [{ name: 'worker', command: 'work' }],
    schedules: schedules.map(one => ({
      ...{ cron: '0 3 * * *', command: 'true', time_zone: 'UTC', timeout_seconds: 60, overlap: 'skip' },
      ...{ jitter_seconds: 0, retries: 0, deadline_seconds: 60, ...one },
    })),
  })

  it('comes, changes and goes with the revision that serves, and those made otherwise stay', async () => {
    const serving = await startServing()
    const { tenant, agent, path } = serving
    const made = { cron: '0 5 * * *', command: 'true' }
    for (const name of ['by-hand', 'taken']) await tenant.post(`${path}/schedules`, { name, ...made })
    const serve = async (build_plan: object, state: 'deployed' | 'failed' = 'deployed') => {
      await tenant.post(`${path}/revisions`, {})
      const [work] = await agent.pollAll()
      expect(await agent.report(work!, { state: 'deploying', build_plan } as never)).toMatchObject({
        outcome: 'accepted',
      })
      const message = state === 'failed' ? 'It fails.' : null
      expect(await agent.report(work!, { state, message })).toMatchObject({ outcome: 'accepted' })
      await agent.pollAll()
    }
    const list = async () =>
      (await tenant.get('/v2/schedules')).body.resources
        .map(({ name, cron, declared, enabled }: Record<string, unknown>) => [name, cron, declared, enabled])
        .sort()
    await serve(plan({ name: 'nightly' }, { name: 'taken', process: 'worker' }))
    expect(await list()).toEqual([
      ['by-hand', '0 5 * * *', false, true],
      ['nightly', '0 3 * * *', true, true],
      ['taken', '0 3 * * *', true, true],
    ])
    const [nightly] = (await tenant.get(`${path}/schedules?name=nightly`)).body.resources
    const declared = `${path}/schedules/${nightly.id}`
    expect(await tenant.patch(declared, { cron: '* * * * *' })).toMatchObject({ body: { code: 'schedule_declared' } })
    expect(await tenant.delete(declared)).toMatchObject({ status: 409, body: { code: 'schedule_declared' } })
    expect((await tenant.patch(declared, { enabled: false })).status).toBe(200)
    // A revision that does not serve declares nothing.
    await serve(plan(), 'failed')
    await serve(plan({ name: 'nightly', cron: '0 4 * * *' }))
    expect(await list()).toEqual([
      ['by-hand', '0 5 * * *', false, true],
      ['nightly', '0 4 * * *', true, false],
    ])
    // An agent of an earlier release says nothing of schedules.
    const { schedules: _, ...earlier } = plan()
    await serve(earlier)
    expect(await list()).toHaveLength(2)
    await serve(plan())
    expect(await list()).toEqual([['by-hand', '0 5 * * *', false, true]])
    const events = (await tenant.get('/v2/events?limit=100')).body
    type Declared = { type: string; data: { declared?: boolean } }
    expect(
      events.resources
        .filter(({ data }: Declared) => data.declared)
        .map(({ type }: Declared) => type)
        .sort(),
    ).toEqual([...['schedule.created', 'schedule.deleted', 'schedule.deleted', 'schedule.updated', 'schedule.updated']])
  })

  it('that is one too many is refused alone', async () => {
    const { tenant, agent, path } = await startServing()
    const fill = sql`
      insert into schedules (organization_id, tenant_id, deployment_id, name, cron, time_zone, command,
        timeout_seconds, overlap, jitter_seconds, retries, deadline_seconds, enabled)
      select organization_id, tenant_id, id, 'x' || n, '0 3 * * *', 'UTC', '"true"', 60, 'skip', 0, 0, 60, false
      from deployments, generate_series(1, 999) n
      where id = ${path.split('/')[3]}::uuid`
    await runAsSystem(getApp().database, setClock(getApp().platform), fill)
    await tenant.post(`${path}/revisions`, {})
    const [work] = await agent.pollAll()
    const build_plan = plan({ name: 'a' }, { name: 'b' })
    await agent.report(work!, { state: 'deployed', build_plan } as never)
    expect((await tenant.get(`${path}/schedules?name=a`)).body.resources).toHaveLength(1)
    expect((await tenant.get(`${path}/schedules?name=b`)).body.resources).toEqual([])
    const events = (await tenant.get('/v2/events?type=schedule.refused')).body
    expect(events.resources).toMatchObject([{ data: { name: 'b', reason: 'quota_full' } }])
  })

  it('and a job run as one of its processes, or not at all', async () => {
    const { tenant, agent, path } = await startServing()
    await tenant.post(`${path}/revisions`, {})
    const [work] = await agent.pollAll()
    await agent.report(work!, { state: 'deployed', build_plan: plan({ name: 'nightly', process: 'worker' }) } as never)
    const [{ id }] = (await tenant.get(`${path}/schedules`)).body.resources
    expect((await tenant.post(`${path}/schedules/${id}/run`)).body).toMatchObject({ process: 'worker' })
    expect((await agent.poll()).jobs).toMatchObject([{ process: 'worker' }])
    expect(await tenant.post(`${path}/jobs`, { command: 'true', process: 'other' })).toMatchObject({
      status: 409,
      body: { code: 'process_unknown' },
    })
    const { job_processes: _, ...earlier } = POLICY
    await agent.poll({ fence: null, cursor: null, policy: earlier })
    expect(await tenant.post(`${path}/jobs`, { command: 'true', process: 'worker' })).toMatchObject({
      status: 409,
      body: { code: 'process_not_supported' },
    })
  })
})

describe('a due time', () => {
  const HOUR = 60 * MINUTE
  const everyHour = { cron: '0 * * * *', command: 'true', timeout_seconds: 60 }
  async function schedule(over: object = {}) {
    const serving = await startServing()
    const { tenant, path } = serving
    const { body } = await tenant.post(`${path}/schedules`, { name: 'hourly', ...everyHour, ...over })
    const list = async () =>
      (await tenant.get(`${path}/jobs?schedule_id=${body.id}&limit=100`)).body.resources.toSorted(
        (a: { due_at: string }, b: { due_at: string }) => a.due_at.localeCompare(b.due_at),
      )
    const firstDue = Date.parse(body.next_runs[0])
    const ahead = firstDue - Date.now()
    return { ...serving, schedule: body, list, ahead, firstDue }
  }
  const at = (first: number, hours: number) => new Date(first + hours * HOUR).toISOString()

  it('makes one job, however many control planes look', async () => {
    const { list, ahead, firstDue, agent } = await schedule()
    await sweep(ahead - 2 * MINUTE)
    expect(await list()).toEqual([])
    await withClockAhead(ahead + 1000, async () => {
      await Promise.all(Array.from({ length: 6 }, () => sweepJobs(getApp())))
      expect(await list()).toMatchObject([{ due_at: at(firstDue, 0), status: 'QUEUED', actor: { name: 'hourly' } }])
      expect((await agent.poll()).jobs).toHaveLength(1)
    })
    await sweep(ahead + 5 * MINUTE)
    expect(await list()).toHaveLength(1)
  })

  it('is skipped, replaced or run beside, as `overlap` says', async () => {
    const statuses = async (overlap: string) => {
      const { list, ahead, agent } = await schedule({ overlap, timeout_seconds: 24 * 3600 })
      await withClockAhead(ahead + 1000, async () => {
        await sweepJobs(getApp())
        const [job] = (await agent.poll()).jobs!
        await reportJob(agent, job!.job_id, 'running')
      })
      await sweep(ahead + HOUR + 1000)
      return (await list()).map((job: { status: string; cancel_requested_at: string | null }) =>
        job.cancel_requested_at ? 'cancelling' : job.status,
      )
    }
    expect(await statuses('skip')).toEqual(['RUNNING', 'SKIPPED'])
    expect(await statuses('replace')).toEqual(['cancelling', 'QUEUED'])
    expect(await statuses('allow')).toEqual(['RUNNING', 'QUEUED'])
  })

  it('that is skipped again is counted in the job before', async () => {
    const { list, ahead, agent, firstDue } = await schedule({ overlap: 'skip', timeout_seconds: 24 * 3600 })
    await withClockAhead(ahead + 1000, async () => {
      await sweepJobs(getApp())
      const [job] = (await agent.poll()).jobs!
      await reportJob(agent, job!.job_id, 'running')
    })
    await sweep(ahead + HOUR + 1000)
    await sweep(ahead + 2 * HOUR + 1000)
    expect(await list()).toMatchObject([
      { status: 'RUNNING' },
      { status: 'SKIPPED', due_at: at(firstDue, 1), missed_until: at(firstDue, 2), missed_count: 2 },
    ])
  })

  it('that passed while nobody looked runs late within the deadline, and is reported as missed beyond it', async () => {
    const { list, ahead, firstDue } = await schedule({ overlap: 'allow', deadline_seconds: 2 * 3600 })
    await sweep(ahead + 5 * HOUR + 1000)
    expect(await list()).toMatchObject([
      { status: 'MISSED', due_at: at(firstDue, 0), missed_until: at(firstDue, 3), missed_count: 4 },
      { status: 'QUEUED', due_at: at(firstDue, 4) },
      { status: 'QUEUED', due_at: at(firstDue, 5) },
    ])
  })

  it('that cannot be computed is reported, and stops no other schedule', async () => {
    const { tenant, path, list, ahead, schedule: made } = await schedule()
    const other = await tenant.post(`${path}/schedules`, { name: 'lost', ...everyHour })
    const forget = sql`update schedules set time_zone = 'Mars/Olympus' where id = ${other.body.id}::uuid`
    await runAsSystem(getApp().database, setClock(getApp().platform), forget)
    await sweep(ahead + 1000)
    expect(await list()).toMatchObject([{ schedule_id: made.id, status: 'QUEUED' }])
    const { body } = await tenant.get(`${path}/jobs?schedule_id=${other.body.id}`)
    expect(body.resources).toMatchObject([{ status: 'MISSED', reason: expect.stringContaining('Mars/Olympus') }])
    expect((await tenant.get(`${path}/schedules/${other.body.id}`)).body).toMatchObject({ next_runs: [] })
    await sweep(ahead + 2000)
    expect((await tenant.get(`${path}/jobs?schedule_id=${other.body.id}`)).body.resources).toHaveLength(1)
  })

  it('is not made up for if the schedule was disabled', async () => {
    const { tenant, path, list, ahead, schedule: made } = await schedule()
    await tenant.patch(`${path}/schedules/${made.id}`, { enabled: false })
    await withClockAhead(ahead + HOUR, async () => {
      await tenant.patch(`${path}/schedules/${made.id}`, { enabled: true })
      await sweepJobs(getApp())
    })
    expect(await list()).toEqual([])
  })

  it('for which the job was made a moment early is not made again when its schedule changes before it', async () => {
    const { tenant, path, list, ahead, schedule: made, firstDue } = await schedule()
    await sweep(ahead - 900)
    expect(await list()).toHaveLength(1)
    await withClockAhead(ahead - 800, async () => {
      for (const enabled of [false, true]) await tenant.patch(`${path}/schedules/${made.id}`, { enabled })
    })
    await sweep(ahead + HOUR + 1000)
    expect(await list()).toMatchObject([{ due_at: at(firstDue, 0) }, { due_at: at(firstDue, 1) }])
  })

  it('is retried as often as it may be, later each time, with an event for each end', async () => {
    const { list, ahead, agent } = await schedule({ retries: 1 })
    await withClockAhead(ahead + 1000, async () => {
      await sweepJobs(getApp())
      for (const attempt of [1, 2]) {
        const [job] = (await agent.poll()).jobs!
        expect(job!.starts_in_ms > 5000).toBe(attempt === 2)
        await reportJob(agent, job!.job_id, 'running')
        await reportJob(agent, job!.job_id, 'failed', { exit_code: 2 })
      }
      expect((await agent.poll()).jobs).toEqual([])
    })
    expect((await list()).map((job: { attempt: number; status: string }) => [job.attempt, job.status]).sort()).toEqual([
      [1, 'FAILED'],
      [2, 'FAILED'],
    ])
  })
})
