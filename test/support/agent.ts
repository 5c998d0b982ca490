// An agent as tests play it: a listener's key, its lease, and what it was told.
import { createDecipheriv, createECDH, createHash, hkdfSync } from 'node:crypto'
import { expect } from 'vitest'
import type { Changes, Report, ReportResult, Work } from '../../src/sync/schema.ts'
import { nobody, type Tenant } from './app.ts'

export async function newListener(tenant: Tenant, over: Record<string, unknown> = {}) {
  const wanted = { compute_type: 'local', compute_id: `machine-${nobody()}`, ...over }
  const { body: listener } = await tenant.post('/v2/listeners', wanted)
  const { body: key } = await tenant.post(`/v2/listeners/${listener.id}/keys`, {})
  return { listener, key: key.key as string, key_id: key.id as string }
}

export const digestOf = (generations: Map<string, number>): string => {
  let digest = 0n
  for (const [id, generation] of generations)
    digest ^= createHash('sha256').update(`${id}:${generation}`).digest().readBigUInt64BE()
  return digest.toString(16).padStart(16, '0')
}

/** Opens as PROTOCOL.md says, with another library than seals. */
export function opener() {
  const own = createECDH('prime256v1')
  const ours = own.generateKeys()
  const open = (envelope: string, place: string): unknown => {
    const [version, ephemeral, nonce, sealed] = envelope
      .split('.')
      .map((part, i) => (i ? Buffer.from(part, 'base64url') : part))
    expect(version).toBe('v1')
    const [theirs, iv, bytes] = [ephemeral, nonce, sealed] as Buffer[] as [Buffer, Buffer, Buffer]
    const salt = Buffer.concat([theirs, ours])
    const key = Buffer.from(hkdfSync('sha256', own.computeSecret(theirs), salt, 'slipway sync v1', 32))
    const cipher = createDecipheriv('aes-256-gcm', key, iv).setAAD(Buffer.from(place)).setAuthTag(bytes.subarray(-16))
    return JSON.parse(cipher.update(bytes.subarray(0, -16), undefined, 'utf8') + cipher.final('utf8'))
  }
  return { public_key: ours.toString('base64url'), open }
}

type Said = Partial<Report> & Pick<Report, 'state'>

/** Polls and reports; keeps fence, cursor and generations as an agent does. */
export function agentOf(tenant: Tenant, key: string, agent_id = `agent-${nobody()}`) {
  const caller = tenant.as(key)
  const { public_key, open } = opener()
  const known = new Map<string, number>()
  const agent = {
    agent_id,
    public_key,
    known,
    fence: null as number | null,
    cursor: null as number | null,
    ask: (over: object = {}) =>
      caller.post('/v1/sync/poll', { agent_id, public_key, fence: agent.fence, cursor: agent.cursor, ...over }),
    async poll(over: object = {}): Promise<Changes> {
      const { status, body } = await agent.ask(over)
      expect(status, JSON.stringify(body)).toBe(200)
      agent.fence = body.lease.fence
      agent.cursor = body.cursor
      for (const work of body.changes as Work[]) known.set(work.deployment_id, work.generation)
      return body
    },
    /** All that changed, over as many pages as it takes. */
    async work(): Promise<Work[]> {
      const changes: Work[] = []
      for (let more = true; more; ) {
        const page = await agent.poll()
        changes.push(...page.changes)
        more = page.more
      }
      return changes
    },
    tell: (reports: object[], over: object = {}) =>
      caller.post('/v1/sync/report', { agent_id, fence: agent.fence, reports, ...over }),
    async say(
      work: Pick<Work, 'deployment_id' | 'generation'> & { revision?: Work['revision'] },
      said: Said,
    ): Promise<ReportResult> {
      const { deployment_id, generation, revision } = work
      const healthy = said.state === 'deployed' ? { healthy: true } : {}
      const { status, body } = await agent.tell([
        { deployment_id, generation, revision_id: revision?.id ?? null, ...healthy, ...said },
      ])
      expect(status, JSON.stringify(body)).toBe(200)
      const [result] = body.results as ReportResult[]
      if (result!.outcome === 'accepted' && result!.generation === null) known.delete(deployment_id)
      else if (result!.outcome === 'accepted') known.set(deployment_id, result!.generation!)
      return result!
    },
    open: (listener_id: string, work: Work, which: 'revision' | 'serving' = 'revision') =>
      open(work[which]!.secrets!, `${listener_id}/${work.deployment_id}/${work[which]!.id}/secrets`),
    post: caller.post,
    get: caller.get,
  }
  return agent
}
