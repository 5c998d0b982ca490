// A deployment with several revisions, whose agent sends lines of logs.
import { expect } from 'vitest'
import { newTenant, type Tenant, unusedId } from './app.ts'
import { listRevisions, newDeployment } from './deployments.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from './sync-agent.ts'

export type LoggedDeployment = Awaited<ReturnType<typeof newLoggedDeployment>>
type SentLine = { timestamp?: string; level?: string; message: string; process?: string }
type Log = { revision_id?: string; kind?: 'build' | 'deploy' }

type Options = { tenant?: Tenant; revisions?: number; name?: string }

export async function newLoggedDeployment({ tenant, revisions = 1, name }: Options = {}) {
  const owner = tenant ?? (await newTenant())
  const { listener, key } = await newListener(owner)
  const agent = makeSyncAgent(owner, key)
  const { id } = await newDeployment(owner, { ...makeListenerDeployment(listener), ...(name && { name }) })
  for (let number = 2; number <= revisions; number++)
    await owner.patch(`/v2/deployments/${id}`, { source_config: { resource_spec: { memory_mb: 64 * number } } })
  const revisionIds = (await listRevisions(owner, id)).map(revision => revision.id as string).reverse()
  expect(revisionIds).toHaveLength(revisions)
  await agent.poll()

  /** Returns the sender of one stream of the agent. It repeats a batch `times` times. */
  function openLog({ revision_id = revisionIds[0]!, kind = 'deploy' }: Log = {}) {
    const stream = unusedId()
    let from = 0
    return async (lines: SentLine[], times = 1) => {
      const { agent_id, fence } = agent
      const sentLines = lines.map(line => ({ timestamp: '2026-01-01T00:00:00.000Z', level: 'INFO', ...line }))
      const batch = { agent_id, fence, deployment_id: id, revision_id, kind, stream, from, lines: sentLines }
      const replies = await Promise.all(Array.from({ length: times }, () => agent.post('/v1/sync/logs', batch)))
      for (const reply of replies) expect(reply.status, JSON.stringify(reply.body)).toBe(200)
      from += lines.length
    }
  }
  return { tenant: owner, id, revisionIds, openLog, path: `/v2/deployments/${id}/logs` }
}
