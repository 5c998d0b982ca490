// Jobs and schedules on a real API server: Job objects of the agent, whose pods the trial ends as a node would.
import { RUN_LABEL } from '../../../../src/agent/engines/kubernetes/names.ts'
import type { EngineTrial } from './engine-trial.ts'
import type { AnyObject } from './objects.ts'
import { writeLogLine } from './pod-stages.ts'
import { expect, expectEqual, type Results, waitUntil } from './results.ts'

export async function tryJobs(trial: EngineTrial, results: Results, restart: () => Promise<void>): Promise<void> {
  const { cluster, context } = trial
  const id = await trial.deploy('jobs', {}, { secrets: [{ name: 'TOKEN', value: 'hush' }] })
  await trial.waitUntilDeployed(id)
  const path = `/v2/deployments/${id}`
  const create = async (more: object = {}): Promise<string> => {
    const { status, body } = await context.call('POST', `${path}/jobs`, { command: 'count', ...more })
    expectEqual(status, 201, `POST of a job (${JSON.stringify(body)})`)
    return body.id
  }
  const read = async (job: string) => (await context.call('GET', `${path}/jobs/${job}`)).body
  const waitForStatus = (job: string, wanted: string) =>
    waitUntil(`the job is ${wanted}`, async () => {
      const one = await read(job)
      return one.status === wanted && one
    })
  const listJobs = async (): Promise<AnyObject[]> => trial.listKind('Job', id)
  const findPod = (job: string) =>
    waitUntil(`the pod of ${job} runs`, async () => {
      const pods = await trial.listKind('Pod', id)
      return pods.find(
        ({ metadata, status }) => metadata!.labels![RUN_LABEL] === job && status?.phase === 'Running' && status,
      )
    })
  const end = async (job: string, exitCode: number) => {
    const { metadata, status } = await findPod(job)
    const now = new Date().toISOString()
    const terminated = { exitCode, reason: exitCode ? 'Error' : 'Completed', startedAt: now, finishedAt: now }
    const containerStatuses = status.containerStatuses.map((one: object) => ({
      ...one,
      ready: false,
      state: { terminated },
    }))
    await cluster.setPodStatus(metadata!.namespace!, metadata!.name!, {
      phase: exitCode ? 'Failed' : 'Succeeded',
      containerStatuses,
    })
  }
  const waitUntilNoneIsLeft = () => waitUntil('no Job is left', async () => (await listJobs()).length === 0)

  await results.check('a job is a Job whose pod is not repeated, with the lines and the end of that pod', async () => {
    const job = await create()
    await findPod(job)
    await waitForStatus(job, 'RUNNING')
    const [made] = await listJobs()
    expectEqual(made!.spec.backoffLimit, 0, 'retries')
    await waitUntil('its lines arrive', async () => {
      writeLogLine(trial.folder)
      const { body } = await context.call('GET', `${path}/jobs/${job}/logs`)
      return body.logs.length > 0
    })
    await end(job, 0)
    const { exit_code } = await waitForStatus(job, 'SUCCEEDED')
    expectEqual(exit_code, 0, 'exit code')
    await waitUntilNoneIsLeft()
  })

  await results.check('a job that ends otherwise has its exit code', async () => {
    const job = await create()
    await end(job, 3)
    const { exit_code, reason } = await waitForStatus(job, 'FAILED')
    expectEqual(exit_code, 3, 'exit code')
    await waitUntilNoneIsLeft()
    return reason
  })

  await results.check('a cancelled job ends, and so does its pod', async () => {
    const job = await create()
    await findPod(job)
    await context.call('POST', `${path}/jobs/${job}/cancel`)
    await waitForStatus(job, 'CANCELLED')
    await waitUntilNoneIsLeft()
    await waitUntil('its pod is gone', async () =>
      (await trial.listKind('Pod', id)).every(({ metadata }) => metadata!.labels![RUN_LABEL] !== job),
    )
  })

  await results.check('a job that is too late is ended by the cluster', async () => {
    const job = await create({ timeout_seconds: 3 })
    const late = await waitUntil('it has ended', async () => {
      const one = await read(job)
      return one.finished_at !== null && one
    })
    expect(late.status === 'TIMED_OUT' || late.status === 'FAILED', `it is ${late.status}`)
    await waitUntilNoneIsLeft()
    return `${late.status}: ${late.reason}`
  })

  await results.check('the next agent finds a job that runs, and starts no second one', async () => {
    const job = await create()
    await findPod(job)
    const [before] = await listJobs()
    await restart()
    await waitUntil('the agent has settled', () => context.isReconciled(id))
    const after = await listJobs()
    expectEqual(
      after.map(({ metadata }) => metadata!.uid),
      [before!.metadata!.uid],
      'Jobs',
    )
    await end(job, 0)
    await waitForStatus(job, 'SUCCEEDED')
    await waitUntilNoneIsLeft()
  })

  await results.check('a schedule starts a Job at its due time, once', async () => {
    const schedule = { name: 'each-minute', cron: '* * * * *', command: 'tick' }
    const { status, body } = await context.call('POST', `${path}/schedules`, schedule)
    expectEqual(status, 201, 'POST of the schedule')
    const { id: job } = await waitUntil(
      'a job is due',
      async () => (await context.call('GET', `${path}/jobs?schedule_id=${body.id}`)).body.resources[0],
    )
    await end(job, 0)
    const { due_at } = await waitForStatus(job, 'SUCCEEDED')
    await context.call('DELETE', `${path}/schedules/${body.id}`)
    return `due at ${due_at}`
  })

  await trial.deleteDeployment(id)
}
