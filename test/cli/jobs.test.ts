// `slipway run`, `slipway jobs` and `slipway schedules`, in this process, with an agent that the test drives.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeAll, expect, it, onTestFinished, vi } from 'vitest'
import { serveApp } from '../support/cli.ts'
import { startHere } from '../support/cli-here.ts'
import { reportJob, STORE, startServing, startWithDisk } from '../support/jobs.ts'

let url: string
beforeAll(async () => {
  url = (await serveApp()).url
})
afterEach(() => {
  process.exitCode = undefined
  vi.restoreAllMocks()
})

async function setUp() {
  const serving = await startServing()
  const { tenant, id } = serving
  const start = (...args: string[]) => startHere({ url, key: tenant.key }, args)
  return { ...serving, start, name: (await tenant.get(`/v2/deployments/${id}`)).body.name as string }
}

it('runs a command, shows its lines, and ends with its exit code', async () => {
  const { agent, id, revision, name, start, tenant, path } = await setUp()
  const running = start('run', name, '--timeout', '60', '--', 'node', '-e', 'process.exit(3)')
  const [job] = await waitForJobs(agent)
  expect(job).toMatchObject({ command: ['node', '-e', 'process.exit(3)'], timeout_seconds: 60 })
  const job_id = job!.job_id
  await reportJob(agent, job_id, 'running')
  const lines = [{ timestamp: '2026-11-21T12:00:00.000Z', level: 'INFO', message: 'It says this.' }]
  const batch = {
    agent_id: agent.agent_id,
    fence: agent.fence,
    deployment_id: id,
    revision_id: revision,
    kind: 'deploy',
  }
  await agent.post('/v1/sync/logs', { ...batch, job_id, stream: crypto.randomUUID(), from: 0, lines })
  await reportJob(agent, job_id, 'failed', { exit_code: 3, reason: 'The command ended with code 3.' })
  const { objects } = await running.ended
  expect(objects).toMatchObject([
    { type: 'log', message: 'It says this.' },
    { type: 'job', id: job_id, status: 'FAILED' },
  ])
  expect(process.exitCode).toBe(3)
  expect((await start('jobs', name, '--status', 'failed').ended).objects).toMatchObject([{ id: job_id, exit_code: 3 }])
  expect((await tenant.get(`${path}/jobs`)).body.resources).toHaveLength(1)
})

it('cancels the job on Ctrl-C', async () => {
  const { agent, name, start, tenant, path } = await setUp()
  const running = start('run', name, 'sleep 1000')
  const [job] = await waitForJobs(agent)
  expect(job!.command).toBe('sleep 1000')
  running.stop()
  await running.ended
  expect((await tenant.get(`${path}/jobs/${job!.job_id}`)).body.status).toBe('CANCELLED')
})

it('adds, lists, changes, runs and removes schedules', async () => {
  const { agent, name, start } = await setUp()
  const flags = ['--time-zone', 'Europe/Berlin', '--overlap', 'allow', '--retries', '2']
  const added = await start('schedules', 'add', name, 'nightly', '30 3 * * *', ...flags, '--', 'npm', 'run', 'x').ended
  expect(added.error).toBeUndefined()
  const schedule = { name: 'nightly', cron: '30 3 * * *', command: ['npm', 'run', 'x'], overlap: 'allow', retries: 2 }
  expect((await start('schedules', 'list', name).ended).objects).toMatchObject([schedule])
  const set = await start('schedules', 'set', name, 'nightly', '--disable', '--command', 'npm run y').ended
  expect(set.objects).toMatchObject([{ enabled: false, command: 'npm run y', next_runs: [] }])
  const running = start('schedules', 'run', name, 'nightly')
  const [job] = await waitForJobs(agent)
  await reportJob(agent, job!.job_id, 'running')
  await reportJob(agent, job!.job_id, 'succeeded', { exit_code: 0 })
  expect((await running.ended).objects).toMatchObject([{ type: 'job', status: 'SUCCEEDED' }])
  expect((await start('jobs', name, '--schedule', 'nightly').ended).objects).toHaveLength(1)
  expect((await start('schedules', 'remove', name, 'nightly', '--yes').ended).objects).toMatchObject([
    { deleted: true },
  ])
  expect((await start('schedules', 'add', name, 'nothing', '30 3 * * *').ended).code).toBe(2)
  const failed = await start('schedules', 'run', name, 'nightly').ended
  expect([failed.code, failed.error?.code]).toEqual([1, 'schedule_not_found'])
})

it('takes the deployment of a linked folder, and names what is wrong', async () => {
  const { name, start } = await setUp()
  const folder = mkdtempSync(join(tmpdir(), 'slipway-linked-'))
  onTestFinished(() => rmSync(folder, { recursive: true }))
  vi.spyOn(process, 'cwd').mockReturnValue(folder)
  const inFolder = (...args: string[]) => start(...args).ended
  await inFolder('link', name)
  const added = await inFolder('schedules', 'add', 'nightly', '30 3 * * *', '--', 'npm', 'run', 'x')
  expect(added.objects).toMatchObject([{ name: 'nightly', command: ['npm', 'run', 'x'] }])
  expect((await inFolder('schedules', 'set', 'nightly', '--disable')).objects).toMatchObject([{ enabled: false }])
  expect((await inFolder('schedules', 'remove', 'nightly', '--yes')).objects).toMatchObject([{ deleted: true }])
  const wrong = await start('jobs', name, '--status', 'failed,broken').ended
  expect([wrong.code, wrong.error?.message]).toEqual([2, expect.stringContaining('broken')])
})

it('takes, lists, restores and deletes snapshots', async () => {
  const { agent, id, tenant, tell, held } = await startWithDisk()
  await agent.pollAll()
  const start = (...args: string[]) => startHere({ url, key: tenant.key }, args)
  const name = (await tenant.get(`/v2/deployments/${id}`)).body.name as string
  const follow = async (action: object, ...args: string[]) => {
    const running = start('snapshots', ...args)
    const [job] = await waitForJobs(agent)
    expect(job).toMatchObject({ action })
    await reportJob(agent, job!.job_id, 'running')
    await reportJob(agent, job!.job_id, 'succeeded', { exit_code: 0 })
    expect((await running.ended).objects).toMatchObject([{ type: 'job', status: 'SUCCEEDED' }])
  }
  await follow({ type: 'snapshot', store: STORE }, 'take', name, STORE)
  const copies = await start('schedules', 'add', name, 'copies', '0 3 * * *', '--snapshot', STORE).ended
  expect(copies.objects).toMatchObject([{ name: 'copies', action: { type: 'snapshot', store: STORE } }])
  const one = held()
  await tell([one])
  expect((await start('snapshots', 'list', name).ended).objects).toMatchObject([{ id: one.id, store: STORE }])
  expect((await start('snapshots', 'list', '--all', '--store', 'database').ended).objects).toEqual([])
  await follow({ type: 'restore', store: STORE, snapshot_id: one.id }, 'restore', name, one.id, '--yes')
  const past = { type: 'restore', store: 'database', from_deployment_id: id, at: '2026-11-22T12:00:00.000Z' }
  await follow(past, 'restore', name, '--at', '2026-11-22T12:00:00Z', '--from', name, '--yes')
  expect((await start('snapshots', 'restore', name, one.id, '--at', '2h').ended).code).toBe(2)
  expect((await start('snapshots', 'delete', one.id, '--yes').ended).objects).toMatchObject([{ deleted: true }])
  expect((await start('snapshots', 'delete', one.id, '--yes').ended).error?.code).toBe('snapshot_not_found')
})

async function waitForJobs(agent: Awaited<ReturnType<typeof startServing>>['agent']) {
  return (await agent.poll({ wait: 20 })).jobs!
}
