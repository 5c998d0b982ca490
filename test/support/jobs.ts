// A deployment that serves, and an agent that a test drives, to run jobs.
import { randomUUID } from 'node:crypto'
import { expect } from 'vitest'
import { featuresOf } from '../../src/protocol/engine-features.ts'
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

export const NO_SNAPSHOTS = featuresOf('container').filter(name => !name.endsWith('_snapshots'))
export const SNAPSHOT_POLICY = {
  ...POLICY,
  engine: 'container',
  features: [...NO_SNAPSHOTS, 'disk_snapshots', 'database_snapshots'],
}
export const DISK = { name: 'uploads', persistentVolumeClaim: { claimName: 'media', storage_gi: 2 } }
export const STORE = 'disk:media'

/** It asks for a disk and a database. */
export async function startWithDisk(policy: object = SNAPSHOT_POLICY, owner?: Tenant) {
  const serving = await startServing(policy, owner)
  const { tenant, path, agent } = serving
  const patch = (source_config: object, query = '') => tenant.patch(`${path}${query}`, { source_config })
  expect((await patch({ resource_spec: { volumes: [DISK], db_max_connections: 5 } })).status).toBe(200)
  const deploy = async () => {
    const [work] = await agent.pollAll()
    await agent.report(work!, { state: 'database_ready' })
    const [next] = await agent.pollAll()
    await agent.report(next ?? work!, { state: 'deployed' })
  }
  const held = (more: object = {}) => ({
    id: randomUUID() as string,
    deployment_id: serving.id,
    store: STORE,
    size_bytes: 1000,
    reason: 'manual',
    taken_at: new Date().toISOString(),
    expires_at: new Date(Date.now() + 86_400_000).toISOString(),
    ...more,
  })
  const tell = (list: object[], more: object = {}) =>
    agent.post('/v1/sync/snapshots', { agent_id: agent.agent_id, fence: agent.fence, held: list, ...more })
  return { ...serving, patch, deploy, held, tell }
}
