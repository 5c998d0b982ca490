// Deployments to test with, and the data plane's part: moving their revisions on.

import { sql } from 'drizzle-orm'
import { expect } from 'vitest'
import { type RevisionMove, transitionRevision } from '../../src/deployments/interrupt.ts'
import { canFollow } from '../../src/deployments/lifecycle.ts'
import type { Revision } from '../../src/deployments/schema.ts'
import { readConfig } from '../../src/env.ts'
import { createSealer } from '../../src/kernel/crypto.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import { sha256Hex } from '../../src/kernel/digest.ts'
import type { RevisionStatus } from '../../src/protocol/parts.schema.ts'
import { clock, getApp, SEALING_KEYS, type Tenant } from './app.ts'
import { makeRepositoryBody, makeRepositoryConfig } from './integrations.ts'

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

export const minimalBody = { source: 'internal_container', source_config: {}, source_revision_config: {}, secrets: [] }
export const imageConfig = { image_uri: `registry.example.com/app@sha256:${'0'.repeat(64)}` }

export const listRevisions = async (tenant: Tenant, id: string) =>
  (await tenant.get(`/v2/deployments/${id}/revisions?limit=100`)).body.resources as Revision[]
export const listStatuses = async (tenant: Tenant, id: string) =>
  (await listRevisions(tenant, id)).map(one => [one.number, one.status])

const config = readConfig(
  { PUBLIC_URL: 'http://slipway.test', DATABASE_URL: 'postgres://nowhere/at-all', SEALING_KEYS },
  {},
)

export async function setRevisionStatus(
  tenant: Tenant,
  ids: Pick<RevisionMove, 'deployment_id' | 'revision_id'>,
  to: RevisionStatus,
  rest: Partial<RevisionMove> = {},
) {
  const ctx = {
    config: { ...config, rateLimit: 0, clockOffset: () => clock.ahead },
    database: getApp().database,
    sealer: createSealer(config.sealingKeys),
    actor: { kind: 'key' as const, hash: sha256Hex(tenant.key) },
    tenant: null,
    origin: 'http://slipway.test',
    requestId: `move-${crypto.randomUUID()}`,
    permission: 'deployments:update' as const,
    ifMatch: null,
    withoutIfMatch: false,
    idempotency: null,
    planDigest: null,
    requestInfo: {},
  }
  return transitionRevision(ctx, { ...ids, to, ...rest })
}

/** The way of a built revision to serving. */
export const DEPLOY_STATUSES = ['BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING', 'DEPLOYED'] as const
export async function advanceRevisionTo(
  tenant: Tenant,
  deployment_id: string,
  revision_id: string,
  until: RevisionStatus = 'DEPLOYED',
) {
  const steps = DEPLOY_STATUSES.slice(0, DEPLOY_STATUSES.indexOf(until as (typeof DEPLOY_STATUSES)[number]) + 1)
  for (const step of steps) await setRevisionStatus(tenant, { deployment_id, revision_id }, step)
}

/** The queue as the deployment's row has it, and the states of those in it. */
export async function readRevisionQueue(id: string) {
  const query = sql`select f.status, w.status, (select count(*) from revisions r where r.deployment_id = d.id
      and r.status in ('AWAITING_BUILD', 'BUILDING', 'AWAITING_DEPLOY', 'DEPLOYING')),
    (select count(*) from revisions r where r.deployment_id = d.id and r.status = 'QUEUED')
    from deployments d left join revisions f on f.id = d.in_flight_revision_id left join revisions w on w.id = d.waiting_revision_id
    where d.id = ${id}::uuid`
  const [[row]] = (await runAsSystem(getApp().database, query)) as [[(string | null)[]]]
  return { inFlight: row[0], waiting: row[1], flying: Number(row[2]), queued: Number(row[3]) }
}

/** What the journal tells of a revision: the states it went through, oldest first. */
export async function readRevisionHistory(revision_id: string): Promise<RevisionStatus[]> {
  const query = sql`select type, data ->> 'status' from events where subject_id = ${revision_id}::uuid and type like 'revision.%' order by seq`
  const [rows] = (await runAsSystem(getApp().database, query)) as [[string, string | null][]]
  return rows.map(([type, made]) => made ?? type.slice('revision.'.length).toUpperCase()) as RevisionStatus[]
}

/** That it tells every move of every revision: each begins with its making, goes from state to state as it may, and ends in the one it is in. */
export async function expectCompleteJournal(tenant: Tenant, deployment_id: string): Promise<void> {
  for (const { id, status, source } of await listRevisions(tenant, deployment_id)) {
    const story = await readRevisionHistory(id)
    expect(story.at(-1)).toBe(status)
    for (const [i, state] of story.entries())
      if (i > 0) expect(canFollow(source, story[i - 1]!, state), `${story}`).toBe(true)
  }
}
