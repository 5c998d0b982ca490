// What stands between a deployment and being served as wanted, in order.
import { and, eq, or, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { verb } from '../kernel/context.ts'
import { db, inTenant, run } from '../kernel/db.ts'
import { requireRow } from '../kernel/rows.ts'
import { levels } from '../protocol/logs.schema.ts'
import { customHosts, deployments, type Hold, revisions } from '../tables/deployments.ts'
import { integrations } from '../tables/integrations.ts'
import { listeners } from '../tables/listeners.ts'
import { logLines } from '../tables/logs.ts'
import { deploymentHeads } from '../tables/pushes.ts'
import { describeHostVerification, isHostOfDeployment } from './custom-hosts.ts'
import type { Explanation } from './revisions.schema.ts'
import type { DeploymentRef } from './schema.ts'
import { isDeployment } from './service.ts'

type Obstacle = Explanation['resources'][number]
type RevisionFacts = { id: string; number: number; status: string; status_message: string | null }
type DeploymentFacts = {
  status: string
  hold: Hold | null
  latest_revision_id: string | null
  in_flight_revision_id: string | null
  /** That it comes through: null where it needs none. */
  integration: keyof typeof INTEGRATION_OBSTACLES | 'active' | null
  /** Its ref, where the repository has none of that name any more. */
  goneRef?: string | null
  healthy?: boolean | null
  /** The host of its custom_url: whether this workspace owns it, and what proves it where it is not served before. */
  customHost?: { host: string; isOwn: boolean; waits: string | null } | null
  /** What its agent said last about what is wrong with it. */
  lastError?: string | null
}
/** How its listener fares: since how many minutes nothing was heard of it; null when it has none. */
type ListenerContact = { silentMinutes: number | null }
/** An agent polls within a minute. */
const SILENT_AFTER_MINUTES = 2

const STATUS_OBSTACLES: Record<string, Obstacle> = {
  AWAITING_DELETE: { code: 'deleting', detail: 'The deployment is being deleted.' },
  AWAITING_DATABASE: { code: 'awaiting_database', detail: 'The data plane has not made its database yet.' },
  UNKNOWN: { code: 'listener_silent', detail: 'Its listener has been silent past the deadline.' },
}
const STILL_SERVES = 'what runs serves on, and no push or new revision reaches its repository'
const INTEGRATION_OBSTACLES = {
  gone: { code: 'integration_gone', detail: `Its git host integration was deleted: ${STILL_SERVES}.` },
  suspended: { code: 'integration_suspended', detail: `Its git host has suspended the integration: ${STILL_SERVES}.` },
  revoked: {
    code: 'integration_revoked',
    detail: `Its git host has revoked the integration: ${STILL_SERVES} until it is connected again.`,
  },
} as const satisfies Record<string, Obstacle>
const ARTIFACT_HINT =
  'upload an archive and name it in `source_tarball_path`, or push an image and name it in `image_uri`, of `source_revision_config`'
const END_CODES: Record<string, Obstacle['code']> = {
  CREATE_FAILED: 'revision_failed',
  BUILD_FAILED: 'revision_failed',
  DEPLOY_FAILED: 'revision_failed',
  SKIPPED: 'revision_skipped',
  INTERRUPTED: 'revision_interrupted',
  UNKNOWN: 'revision_unknown',
}

export function listObstacles(
  facts: DeploymentFacts,
  known: RevisionFacts[],
  { silentMinutes: silent }: ListenerContact = { silentMinutes: 0 },
): Obstacle[] {
  const quiet = silent !== null && silent >= SILENT_AFTER_MINUTES
  const unheard = quiet && {
    code: 'listener_silent' as const,
    detail: `Nothing was heard of its listener for ${silent} minutes; see that its agent runs.`,
  }
  const away = facts.status === 'UNKNOWN' && unheard ? unheard : STATUS_OBSTACLES[facts.status]
  if (away?.code === 'deleting') return [away]
  const latest = known.find(one => one.id === facts.latest_revision_id)
  const flying = known.find(one => one.id === facts.in_flight_revision_id)
  return [
    away,
    away !== unheard && unheard,
    latest && revisionObstacle(latest, flying, silent === null),
    facts.healthy === false && {
      code: 'unhealthy' as const,
      detail: `The revision that serves is not well${facts.lastError ? `. Its log: ${facts.lastError}` : '; its log says more.'}`,
    },
    facts.status === 'UNUSED' && {
      code: 'unused' as const,
      detail:
        'Nobody has used or changed it for 28 days, so it counts as unused; it runs on, and a request or a new revision wakes it.',
    },
    facts.hold && {
      code: 'held_by_rollback' as const,
      detail: `A rollback holds automatic deploys until ${facts.hold.until === 'newer_commit' ? 'a newer commit arrives or it is released' : 'it is released'}.`,
    },
    facts.goneRef != null && {
      code: 'ref_gone' as const,
      detail: `Its ref ${facts.goneRef} is gone from the repository; what serves stays until another ref is named or it is pushed again.`,
    },
    facts.integration !== null && facts.integration !== 'active' && INTEGRATION_OBSTACLES[facts.integration],
    facts.customHost != null && customHostObstacle(facts.customHost),
  ].filter(one => one instanceof Object)
}

function customHostObstacle({ host, isOwn, waits }: NonNullable<DeploymentFacts['customHost']>): Obstacle | false {
  if (waits === null) return false
  if (isOwn) return { code: 'custom_url_unverified', detail: waits }
  return { code: 'custom_url_lost', detail: `Another workspace owns the host ${host} of custom_url. ${waits}` }
}

/** What the newest revision still has before it. */
function revisionObstacle(
  latest: RevisionFacts,
  flying: RevisionFacts | undefined,
  unserved: boolean,
): Obstacle | undefined {
  const { number, status, status_message } = latest
  const name = `Revision ${number}`
  if (status === 'DEPLOYED') return undefined
  if (status === 'CREATING')
    return { code: 'awaiting_artifact', detail: `${name} waits for what it is made from: ${ARTIFACT_HINT}.` }
  if (status === 'QUEUED') {
    const before = flying ? `revision ${flying.number}, which is ${flying.status}` : 'another one'
    return { code: 'waiting_behind', detail: `${name} waits behind ${before}.` }
  }
  const ended = END_CODES[status]
  const nobody = unserved ? ', and no listener has taken the deployment up yet' : ''
  if (!ended) return { code: 'in_progress', detail: `${name} is ${status}${nobody}.` }
  return { code: ended, detail: `${name} is ${status}${status_message ? `: ${status_message}` : '.'}` }
}

const SILENT_MINUTES = sql<
  string | null
>`floor(extract(epoch from clock() - coalesce(${listeners.last_seen_at}, ${listeners.created_at})) / 60)`

/** Only what an agent says about an application has a level of its own. */
const LAST_ERROR = sql<string | null>`case when not ${deployments.healthy} then (
  select l.message from ${logLines} l
  where l.revision_id = ${deployments.active_revision_id} and l.kind = 'deploy' and l.severity = ${levels.indexOf('ERROR')} and l.tenant_id = current_tenant()
  order by l.timestamp desc, l.number desc limit 1) end`

export const explainDeployment = verb(
  'deployments:read',
  async (ctx, { deployment_id }: z.output<typeof DeploymentRef>): Promise<Explanation> => {
    const { latest_revision_id, in_flight_revision_id } = deployments
    const concerned = and(
      eq(revisions.deployment_id, deployments.id),
      inTenant(revisions),
      or(eq(revisions.id, latest_revision_id), eq(revisions.id, in_flight_revision_id)),
    )
    const through = sql<string | null>`${deployments.source_config} ->> 'integration_id'`
    const integration = sql<
      DeploymentFacts['integration']
    >`case when ${through} is not null then coalesce(${integrations.state}, 'gone') end`
    const query = db
      .select({
        deployments,
        revisions,
        integration,
        goneRef: deploymentHeads.gone_ref,
        silent: SILENT_MINUTES,
        isHostOwn: sql<boolean>`${customHosts.id} is not null`,
        isHostServed: sql<boolean>`${customHosts.verified_at} is not null or ${customHosts.tenant_id} = ${listeners.tenant_id}`,
        trouble: LAST_ERROR,
      })
      .from(deployments)
      .leftJoin(revisions, concerned)
      .leftJoin(integrations, and(sql`${integrations.id} = (${through})::uuid`, inTenant(integrations)))
      .leftJoin(deploymentHeads, and(eq(deploymentHeads.deployment_id, deployments.id), inTenant(deploymentHeads)))
      .leftJoin(customHosts, isHostOfDeployment)
      .leftJoin(listeners, eq(listeners.id, deployments.listener_id))
      .where(isDeployment(deployment_id))
    const rows = await run(ctx, query)
    const {
      deployments: facts,
      integration: state,
      goneRef: gone,
      silent,
      trouble,
      isHostOwn,
      isHostServed,
    } = requireRow(rows, 'deployment_not_found')
    const known = rows.flatMap(row => row.revisions ?? [])
    const { repo_ref } = facts.source_revision_config as { repo_ref?: string }
    // Another ref may have been named since.
    const goneRef = gone === repo_ref ? gone : null
    const served = { silentMinutes: silent === null ? null : Number(silent) }
    const { custom_host: host, tenant_id } = facts
    const waits = host === null || isHostServed ? null : await describeHostVerification(ctx, tenant_id, host)
    const customHost = host === null ? null : { host, isOwn: isHostOwn, waits }
    return {
      resources: listObstacles(
        { ...facts, customHost, integration: state, goneRef, lastError: trouble },
        known,
        served,
      ),
    }
  },
)
