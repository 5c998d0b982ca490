// Deployments to test with, and an agent's reports that move their revisions on.

import { sql } from 'drizzle-orm'
import { expect } from 'vitest'
import type { Revision } from '../../src/hosting/deployments/schema.ts'
import { registerPlatformListener } from '../../src/hosting/listeners/platform-listener.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { RevisionStatus } from '../../src/protocol/parts.schema.ts'
import type { Report, ReportResult } from '../../src/protocol/report.schema.ts'
import { getApp, newTenant, type Tenant, unusedId } from './app.ts'
import { onFileEnd } from './file-state.ts'
import { makeRepositoryBody, makeRepositoryConfig } from './integrations.ts'
import { canFollow } from './revision-steps.ts'
import { makeSyncAgent, type SyncAgent } from './sync-agent.ts'

type Overrides = Record<string, unknown>
const RESOURCE_SPEC = { cpu: 1, memory_mb: 1024, min_scale: 1, max_scale: 3 }
export const newDeployment = async (tenant: Tenant, over: Overrides = {}) =>
  (
    await tenant.post('/v2/deployments', {
      ...(await makeRepositoryBody(tenant, {
        source_config: { ...(await makeRepositoryConfig(tenant)), build_on_push: true, resource_spec: RESOURCE_SPEC },
      })),
      ...over,
    })
  ).body

export { imageConfig, minimalBody } from './deployment-bodies.ts'

export const listRevisions = async (tenant: Tenant, id: string) =>
  (await tenant.get(`/v2/deployments/${id}/revisions?limit=100`)).body.resources as Revision[]
export const listStatuses = async (tenant: Tenant, id: string) =>
  (await listRevisions(tenant, id)).map(one => [one.number, one.status])

type RevisionIds = { deployment_id: string; revision_id: string }
type RevisionReport = Partial<Omit<Report, 'state'>>

/** The agent that serves every deployment without a listener. */
let platformAgent: Promise<SyncAgent> | undefined
onFileEnd(() => (platformAgent = undefined))
export function getPlatformAgent(): Promise<SyncAgent> {
  platformAgent ??= (async () => {
    const tenant = await newTenant()
    const { listener_key } = await registerPlatformListener(getApp().database, {
      organization_id: tenant.organization_id,
      compute_id: `platform-${unusedId()}`,
      compute_type: 'local',
    })
    return makeSyncAgent(tenant, listener_key)
  })()
  return platformAgent
}

/** Polls until the agent knows the deployment, then reports a state of one of its revisions. */
export async function reportRevision(
  { deployment_id, revision_id }: RevisionIds,
  state: Report['state'],
  fields: RevisionReport = {},
): Promise<ReportResult> {
  const agent = await getPlatformAgent()
  do await agent.pollAll()
  while (!agent.generations.has(deployment_id))
  const message = state === 'failed' ? 'why' : null
  const work = { deployment_id, generation: agent.generations.get(deployment_id)! }
  return agent.report(work, { revision_id, state, message, ...fields })
}

const REPORTED_STATES = {
  BUILDING: 'building',
  AWAITING_DEPLOY: 'built',
  DEPLOYING: 'deploying',
  DEPLOYED: 'deployed',
  BUILD_FAILED: 'failed',
  DEPLOY_FAILED: 'failed',
} as const

/** The report implies the states in between. */
export async function advanceRevisionTo(
  tenant: Tenant,
  deployment_id: string,
  revision_id: string,
  status: keyof typeof REPORTED_STATES = 'DEPLOYED',
  fields: RevisionReport = {},
): Promise<void> {
  await reportRevision({ deployment_id, revision_id }, REPORTED_STATES[status], fields)
  const { body } = await tenant.get(`/v2/deployments/${deployment_id}/revisions/${revision_id}`)
  expect(body.status).toBe(status)
}

export async function readRevisionQueue(id: string) {
  const query = sql`
    select f.status, w.status,
      (select count(*) from revisions r where r.deployment_id = d.id
        and r.status in ('AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')),
      (select count(*) from revisions r where r.deployment_id = d.id and r.status = 'QUEUED')
    from deployments d
    left join revisions f on f.id = d.in_flight_revision_id
    left join revisions w on w.id = d.waiting_revision_id
    where d.id = ${id}::uuid`
  const [[row]] = (await runAsSystem(getApp().database, query)) as [[(string | null)[]]]
  return { inFlight: row[0], waiting: row[1], flying: Number(row[2]), queued: Number(row[3]) }
}

/** Reads the journal, oldest first. */
export async function readRevisionHistory(revision_id: string): Promise<RevisionStatus[]> {
  const query = sql`select type, data ->> 'status' from events
    where subject_id = ${revision_id}::uuid and type like 'revision.%' and type <> 'revision.secrets_revealed'
    order by seq`
  const [rows] = (await runAsSystem(getApp().database, query)) as [[string, string | null][]]
  return rows.map(([type, first]) => first ?? type.slice('revision.'.length).toUpperCase()) as RevisionStatus[]
}

/** The journal has an allowed path of every revision, from its creation to its current state. */
export async function expectCompleteJournal(tenant: Tenant, deployment_id: string): Promise<void> {
  for (const { id, status, source } of await listRevisions(tenant, deployment_id)) {
    const history = await readRevisionHistory(id)
    expect(history.at(-1)).toBe(status)
    for (const [i, state] of history.entries())
      if (i > 0) expect(canFollow(source, history[i - 1]!, state), `${history}`).toBe(true)
  }
}
