// An agent that a test drives: a listener's key, its lease, and the work that it knows.
import { expect } from 'vitest'
import type { Changes } from '../../src/protocol/poll.schema.ts'
import type { Report, ReportResult } from '../../src/protocol/report.schema.ts'
import type { Tracing, Work } from '../../src/protocol/work.schema.ts'
import { type Tenant, unusedId } from './app.ts'
import { imageConfig, minimalBody } from './deployment-bodies.ts'
import { makeEnvelopeOpener } from './envelope-opener.ts'

export async function newListener(tenant: Tenant, over: Record<string, unknown> = {}) {
  const newListenerBody = { compute_type: 'local', compute_id: `machine-${unusedId()}`, ...over }
  const { body: listener } = await tenant.post('/v2/listeners', newListenerBody)
  const { body: key } = await tenant.post(`/v2/listeners/${listener.id}/keys`, {})
  return { listener, key: key.key as string, key_id: key.id as string }
}

export const makeListenerDeployment = (listener: { id: string }, over: Record<string, unknown> = {}) => ({
  ...minimalBody,
  source_revision_config: imageConfig,
  ...over,
  source_config: { listener_id: listener.id, ...(over.source_config as object) },
})

export type SyncAgent = ReturnType<typeof makeSyncAgent>
type ReportFields = Partial<Report> & Pick<Report, 'state'>

/** It tracks fence, cursor and generations as an agent does. */
export function makeSyncAgent(tenant: Tenant, key: string, agent_id = `agent-${unusedId()}`) {
  const caller = tenant.as(key)
  const { public_key, open } = makeEnvelopeOpener()
  const generations = new Map<string, number>()
  const agent = {
    agent_id,
    public_key,
    generations: generations,
    fence: null as number | null,
    cursor: null as number | null,
    sendPoll: (over: object = {}, headers: Record<string, string> = {}) =>
      caller.post(
        '/v1/sync/poll',
        { agent_id, public_key, fence: agent.fence, cursor: agent.cursor, ...over },
        headers,
      ),
    async poll(over: object = {}): Promise<Changes> {
      const { status, body } = await agent.sendPoll(over)
      expect(status, JSON.stringify(body)).toBe(200)
      agent.fence = body.lease.fence
      agent.cursor = body.cursor
      for (const work of body.changes as Work[]) generations.set(work.deployment_id, work.generation)
      return body
    },
    /** Polls all pages. */
    async pollAll(): Promise<Work[]> {
      const changes: Work[] = []
      for (let more = true; more; ) {
        const page = await agent.poll()
        changes.push(...page.changes)
        more = page.more
      }
      return changes
    },
    sendReports: (reports: object[], over: object = {}, headers: Record<string, string> = {}) =>
      caller.post('/v1/sync/report', { agent_id, fence: agent.fence, reports, ...over }, headers),
    async report(
      work: Pick<Work, 'deployment_id' | 'generation'> & { revision?: Work['revision'] },
      fields: ReportFields,
    ): Promise<ReportResult> {
      const { deployment_id, generation, revision } = work
      const healthy = fields.state === 'deployed' ? { healthy: true } : {}
      const { status, body } = await agent.sendReports([
        { deployment_id, generation, revision_id: revision?.id ?? null, ...healthy, ...fields },
      ])
      expect(status, JSON.stringify(body)).toBe(200)
      const [result] = body.results as ReportResult[]
      if (result!.outcome === 'accepted' && result!.generation === null) generations.delete(deployment_id)
      else if (result!.outcome === 'accepted') generations.set(deployment_id, result!.generation!)
      return result!
    },
    open: (listener_id: string, work: Work, which: 'revision' | 'serving' = 'revision') =>
      open(work[which]!.secrets!, `${listener_id}/${work.deployment_id}/${work[which]!.id}/secrets`),
    openTracing: (listener_id: string, { deployment_id, revision }: Work) =>
      revision?.tracing
        ? (open(revision.tracing, `${listener_id}/${deployment_id}/${revision.id}/tracing`) as Tracing)
        : null,
    sendModelTokenWish: (over: object = {}, headers: Record<string, string> = {}) =>
      caller.post('/v1/sync/model-tokens', { agent_id, fence: agent.fence, public_key, ...over }, headers),
    openModelTokens: (listener_id: string, { tokens }: { tokens: string | null }) =>
      tokens === null ? null : (open(tokens, `${listener_id}/models`) as Record<string, string>),
    post: caller.post,
    get: caller.get,
  }
  return agent
}
