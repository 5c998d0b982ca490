// The jobs and schedules of a deployment, which an agent runs that the test drives.
import { expect, it } from 'vitest'
import { check, useDashboard } from '../../support/dashboard.ts'
import { reportJob, STORE, startServing, startWithDisk } from '../../support/jobs.ts'

const dashboard = useDashboard()

it('shows schedules and jobs, runs, disables and cancels them, and shows what a job wrote', async () => {
  const { tenant, agent, id, path, run, read, revision } = await startServing()
  const { page, problems } = await dashboard.open(tenant, `/deployments/${id}/jobs`)
  await page.getByText('slipway schedules add').waitFor()
  await check(page, 'jobs-empty')
  await tenant.post(`${path}/schedules`, { name: 'nightly', cron: '30 3 * * *', command: 'npm run report' })
  await page.getByRole('row', { name: 'nightly' }).waitFor()
  await page.getByRole('button', { name: 'Disable', exact: true }).click()
  await page.getByRole('button', { name: 'Enable', exact: true }).waitFor()
  await page.getByRole('button', { name: 'Run now', exact: true }).click()
  await page.getByRole('button', { name: 'npm run report', exact: true }).waitFor()

  const { id: job_id } = await run({ command: 'echo hello' })
  await agent.poll()
  await reportJob(agent, job_id, 'running')
  const lines = [{ timestamp: '2026-11-21T12:00:00.000Z', level: 'INFO', message: 'It says hello.' }]
  const batch = {
    agent_id: agent.agent_id,
    fence: agent.fence,
    deployment_id: id,
    revision_id: revision,
    kind: 'deploy',
  }
  await agent.post('/v1/sync/logs', { ...batch, job_id, stream: crypto.randomUUID(), from: 0, lines })
  await page.getByRole('button', { name: 'echo hello', exact: true }).click()
  const dialog = page.getByRole('dialog')
  await dialog.getByText('It says hello.').waitFor()
  await check(page, 'jobs-job')
  await dialog.getByRole('button', { name: 'Cancel job', exact: true }).click()
  await expect.poll(async () => (await read(job_id)).cancel_requested_at).not.toBeNull()
  expect(problems).toEqual([])
})

it('shows snapshots, and restores one after a question', async () => {
  const { tenant, id, path, held, tell } = await startWithDisk()
  await tell([held()])
  const { page, problems } = await dashboard.open(tenant, `/deployments/${id}/jobs`)
  await page.getByRole('row', { name: STORE }).waitFor()
  await page.getByRole('button', { name: 'Restore', exact: true }).click()
  await page.getByRole('dialog').getByRole('button', { name: 'Restore', exact: true }).click()
  await expect.poll(async () => (await tenant.get(`${path}/jobs`)).body.resources[0]?.action?.type).toBe('restore')
  await check(page, 'jobs-snapshots')
  expect(problems).toEqual([])
})
