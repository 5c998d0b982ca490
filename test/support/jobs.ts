// A deployment that serves, and an agent that a test drives, to run jobs.
import { expect } from 'vitest'
import type { JobReport, JobReportResults } from '../../src/protocol/jobs.schema.ts'
import { newTenant, type Tenant, unusedId } from './app.ts'
import { newDeployment } from './deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener, type SyncAgent } from './sync-agent.ts'

export const POLICY = { privileged: false, service_accounts: [], jobs: true, job_processes: true }

export const reportJobs = async (agent: SyncAgent, reports: JobReport[]): Promise<JobReportResults['results']> => {
  const { status, body } = await agent.post('/v1/sync/jobs', {
    agent_id: agent.agent_id,
    fence: agent.fence,
    reports,
  })
  expect(status, JSON.stringify(body)).toBe(200)
  return body.results
}
export const reportJob = async (
  agent: SyncAgent,
  job_id: string,
  state: JobReport['state'],
  more: Partial<JobReport> = {},
) => (await reportJobs(agent, [{ job_id, state, ...more }]))[0]!

/** A deployment that serves, and the agent that runs it. */
export async function startServing(policy: object = POLICY, tenant?: Tenant) {
  const owner = tenant ?? (await newTenant())
  const { listener, key } = await newListener(owner)
  const agent = makeSyncAgent(owner, key)
  await agent.poll({ policy })
  const { id } = await newDeployment(owner, makeListenerDeployment(listener, { name: `app-${unusedId()}` }))
  const [work] = await agent.pollAll()
  await agent.report(work!, { state: 'deployed' })
  await agent.pollAll()
  const path = `/v2/deployments/${id}`
  const run = async (body: object = {}) => (await owner.post(`${path}/jobs`, { command: 'true', ...body })).body
  const read = async (job: string) => (await owner.get(`${path}/jobs/${job}`)).body
  return { tenant: owner, agent, key, listener, id: id as string, path, run, read, revision: work!.revision!.id }
}
