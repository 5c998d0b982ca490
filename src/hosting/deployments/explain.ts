// Explains why a deployment does not serve its latest revision.
import { and, eq, or, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { db, inTenant, run } from '../../kernel/db/db.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import { grantsOf, type HostName } from '../../protocol/host-kinds.ts'
import { levels } from '../../protocol/logs.schema.ts'
import { sshProblemCodes } from '../../protocol/repository-looks.schema.ts'
import { describeHostVerification, isHostOfDeployment } from '../custom-hosts/custom-hosts.ts'
import { followedRepositories, type IntegrationProblem, integrations } from '../git-hosts/tables.ts'
import { listeners } from '../listeners/tables.ts'
import { logLines } from '../logs/tables.ts'
import { deploymentHeads } from '../pushes/tables.ts'
import type { Explanation, Obstacle } from './revisions.schema.ts'
import { servingOf } from './rows.ts'
import type { DeploymentRef } from './schema.ts'
import { isDeployment } from './service.ts'
import { customHosts, deployments, type Hold, revisions } from './tables.ts'
import { describeShare, type TrafficRow } from './traffic-shares.ts'

/** A reason, before `addRemedies` adds its subject and the requests that resolve it. */
type Reason = Pick<Obstacle, 'code' | 'detail'>
type RevisionFacts = { id: string; number: number; status: string; status_message: string | null }
type DeploymentFacts = Partial<Pick<TrafficRow, 'traffic' | 'applied_traffic'>> & {
  status: string
  hold: Hold | null
  latest_revision_id: string | null
  in_flight_revision_id: string | null
  active_revision_id: string | null
  listener_id: string | null
  integrationId: string | null
  /** The state of its integration; null without one. */
  integration: keyof typeof INTEGRATION_OBSTACLES | 'active' | null
  /** The work that the git host refuses. */
  problem?: IntegrationProblem | null
  gitHost?: HostName | null
  /** Null until its repository was first compared. */
  repository?: Pick<typeof followedRepositories.$inferSelect, 'error' | 'webhook_error' | 'heard_at'> | null
  /** Its ref, if that is gone from the repository. */
  goneRef?: string | null
  healthy?: boolean | null
  health?: string | null
  health_reason?: string | null
  /** The host of its custom_url. `verificationHint` says how to prove the host while it is not served. */
  customHost?: { host: string; isOwn: boolean; verificationHint: string | null } | null
  lastError?: string | null
}
/** Minutes since the listener last polled; null without a listener. */
type ListenerContact = { silentMinutes: number | null }
/** An agent polls at least once a minute. */
const SILENT_AFTER_MINUTES = 2

const STATUS_OBSTACLES: Record<string, Reason> = {
  AWAITING_DELETE: { code: 'deleting', detail: 'The deployment is being deleted.' },
  AWAITING_DATABASE: { code: 'awaiting_database', detail: 'The agent has not created the database yet.' },
  UNKNOWN: {
    code: 'listener_silent',
    detail: 'Its listener has not polled within the deadline. Check that its agent runs.',
  },
}
const STILL_SERVES = 'The running revision keeps serving, but pushes and new revisions cannot reach the repository'
const INTEGRATION_OBSTACLES = {
  gone: { code: 'integration_gone', detail: `The integration of this deployment was deleted. ${STILL_SERVES}.` },
  suspended: { code: 'integration_suspended', detail: `The git host suspended the integration. ${STILL_SERVES}.` },
  revoked: {
    code: 'integration_revoked',
    detail: `The git host revoked the integration. ${STILL_SERVES} until you connect it again.`,
  },
} as const satisfies Record<string, Reason>
const ARTIFACT_HINT =
  'Patch `source_revision_config` with the `source_tarball_path` of an upload or the `image_uri` of a pushed image'
const END_CODES: Record<string, Reason['code']> = {
  CREATE_FAILED: 'revision_failed',
  BUILD_FAILED: 'revision_failed',
  DEPLOY_FAILED: 'revision_failed',
  SKIPPED: 'revision_skipped',
  INTERRUPTED: 'revision_interrupted',
  UNKNOWN: 'revision_unknown',
}

const END_WORDS: Record<string, string> = {
  CREATE_FAILED: 'failed to be created',
  BUILD_FAILED: 'failed to build',
  DEPLOY_FAILED: 'failed to deploy',
  SKIPPED: 'was skipped',
  INTERRUPTED: 'was interrupted',
  UNKNOWN: 'is in an unknown state',
}

type Target = 'latest' | 'in_flight' | 'active' | null
type Advice = {
  about?: 'latest' | 'active' | 'listener' | 'integration'
  remedies: [action: Obstacle['remedies'][number]['action'], on: Target][]
}
const ADVICE: Record<Reason['code'], Advice> = {
  deleting: { remedies: [] },
  awaiting_database: { about: 'listener', remedies: [['open_listener', null]] },
  listener_silent: { about: 'listener', remedies: [['open_listener', null]] },
  awaiting_artifact: { about: 'latest', remedies: [['upload_source', 'latest']] },
  waiting_behind: { about: 'latest', remedies: [['interrupt', 'in_flight']] },
  in_progress: {
    about: 'latest',
    remedies: [
      ['view_logs', 'latest'],
      ['interrupt', 'latest'],
    ],
  },
  revision_failed: {
    about: 'latest',
    remedies: [
      ['view_logs', 'latest'],
      ['compare', 'latest'],
      ['edit_environment', null],
      ['redeploy', null],
    ],
  },
  revision_skipped: { about: 'latest', remedies: [['redeploy', null]] },
  revision_interrupted: { about: 'latest', remedies: [['redeploy', null]] },
  revision_unknown: {
    about: 'latest',
    remedies: [
      ['open_listener', null],
      ['redeploy', null],
    ],
  },
  unhealthy: {
    about: 'active',
    remedies: [
      ['view_logs', 'active'],
      ['edit_environment', null],
    ],
  },
  crash_looping: {
    about: 'active',
    remedies: [
      ['view_logs', 'active'],
      ['edit_environment', null],
    ],
  },
  degraded: { about: 'active', remedies: [['view_logs', 'active']] },
  sleeping: { remedies: [] },
  unused: { remedies: [['redeploy', null]] },
  held_by_rollback: { remedies: [['release_hold', null]] },
  held_by_rollout: {
    about: 'latest',
    remedies: [
      ['view_logs', 'latest'],
      ['release_hold', null],
    ],
  },
  ref_gone: { remedies: [['set_ref', null]] },
  integration_gone: { about: 'integration', remedies: [] },
  integration_suspended: { about: 'integration', remedies: [['open_integration', null]] },
  integration_revoked: { about: 'integration', remedies: [['open_integration', null]] },
  integration_limited: { about: 'integration', remedies: [['open_integration', null]] },
  repository_unreadable: { about: 'integration', remedies: [['open_integration', null]] },
  webhook_missing: { about: 'integration', remedies: [['open_integration', null]] },
  custom_url_unverified: { remedies: [['verify_host', null]] },
  custom_url_lost: { remedies: [['verify_host', null]] },
}

/** Leaves out a remedy whose object is missing, such as a listener that is not assigned yet. */
function addRemedies(reason: Reason, facts: DeploymentFacts): Obstacle {
  const { about, remedies } = ADVICE[reason.code]
  const revisionIds = {
    latest: facts.latest_revision_id,
    in_flight: facts.in_flight_revision_id,
    active: facts.active_revision_id,
  }
  const hasObject = ([action, on]: Advice['remedies'][number]) => {
    if (action === 'open_listener') return facts.listener_id !== null
    if (action === 'compare') return facts.active_revision_id !== null
    return on === null || revisionIds[on] !== null
  }
  return {
    ...reason,
    revision_id: about === 'latest' || about === 'active' ? revisionIds[about] : null,
    listener_id: about === 'listener' || reason.code === 'revision_unknown' ? facts.listener_id : null,
    integration_id: about === 'integration' ? facts.integrationId : null,
    remedies: remedies.filter(hasObject).map(([action, on]) => ({ action, revision_id: on && revisionIds[on] })),
  }
}

export const listObstacles = (
  facts: DeploymentFacts,
  revisions: RevisionFacts[],
  contact: ListenerContact = { silentMinutes: 0 },
): Obstacle[] => listReasons(facts, revisions, contact).map(reason => addRemedies(reason, facts))

function listReasons(facts: DeploymentFacts, revisions: RevisionFacts[], { silentMinutes }: ListenerContact): Reason[] {
  const silent = silentMinutes !== null &&
    silentMinutes >= SILENT_AFTER_MINUTES && {
      code: 'listener_silent' as const,
      detail: `Its listener has not polled for ${silentMinutes} minutes. Check that its agent runs.`,
    }
  const byStatus = facts.status === 'UNKNOWN' && silent ? silent : STATUS_OBSTACLES[facts.status]
  if (byStatus?.code === 'deleting') return [byStatus]
  const latest = revisions.find(({ id }) => id === facts.latest_revision_id)
  const inFlight = revisions.find(({ id }) => id === facts.in_flight_revision_id)
  // The present state comes before what failed once.
  return [
    byStatus,
    byStatus !== silent && silent,
    healthObstacle(facts),
    latest && revisionObstacle(latest, inFlight, silentMinutes !== null, describeShare(facts, latest.id)),
    facts.health === 'sleeping' && {
      code: 'sleeping' as const,
      detail: 'No copy runs, because no request came for its `idle_seconds`. The next request starts one.',
    },
    facts.status === 'UNUSED' && {
      code: 'unused' as const,
      detail:
        'It was not used or changed for 28 days. It keeps running; a request or a new revision makes it READY again.',
    },
    facts.hold && holdObstacle(facts.hold),
    facts.goneRef != null && {
      code: 'ref_gone' as const,
      detail: `Its ref ${facts.goneRef} is gone from the repository. Push the ref again, or set another \`repo_ref\`.`,
    },
    facts.integration !== null && facts.integration !== 'active' && INTEGRATION_OBSTACLES[facts.integration],
    ...(facts.integration === 'active' ? contactObstacles(facts) : []),
    facts.customHost != null && customHostObstacle(facts.customHost),
  ].filter(obstacle => obstacle instanceof Object)
}

const REFUSED_WORK = {
  repository: 'to read the repository',
  webhook: 'to make its webhook',
  notification: 'to write comments and commit statuses',
  deployment: 'to write checks and Deployments',
}
function contactObstacles({ problem, gitHost, repository }: DeploymentFacts): (Reason | false)[] {
  const grants = gitHost ? ` ${grantsOf(gitHost)}` : ''
  const isOfSsh = problem != null && sshProblemCodes.some(code => code === problem.code)
  const refused =
    problem &&
    (isOfSsh ? problem.message : `The git host refuses ${REFUSED_WORK[problem.work]}: ${problem.message}.${grants}`)
  const webhookError = repository?.heard_at === null && problem?.work !== 'webhook' ? repository.webhook_error : null
  return [
    refused != null && { code: 'integration_limited', detail: refused },
    repository?.error != null &&
      problem?.work !== 'repository' && {
        code: 'repository_unreadable',
        detail: `The repository could not be compared with what is deployed: ${repository.error}`,
      },
    webhookError != null && {
      code: 'webhook_missing',
      detail:
        `The webhook could not be made: ${webhookError} Pushes deploy after a few minutes. Make the account an ` +
        'administrator of the repository, or make the webhook yourself, with the events push, delete, pull request ' +
        'and pull request synchronized.',
    },
  ]
}

function healthObstacle({ health, healthy, health_reason, lastError }: DeploymentFacts): Reason | false {
  const code =
    health === 'crash_looping' || health === 'degraded' || health === 'unhealthy'
      ? health
      : health == null && healthy === false && 'unhealthy'
  if (!code) return false
  const log = lastError ? `Its log: ${lastError}` : 'Read its log.'
  return { code, detail: `The serving revision ${HEALTH_WORDS[code]}. ${health_reason ?? log}` }
}
const HEALTH_WORDS = {
  crash_looping: 'is in a crash loop',
  degraded: 'has fewer healthy copies than wanted',
  unhealthy: 'is unhealthy',
}

function holdObstacle({ until, reason }: Hold): Reason {
  if (reason === 'rollout_failed')
    return {
      code: 'held_by_rollout',
      detail: 'A failed rollout holds automatic deploys until the hold is released, or someone deploys.',
    }
  const end = until === 'newer_commit' ? 'a newer commit is pushed or the hold is released' : 'the hold is released'
  return { code: 'held_by_rollback', detail: `A rollback holds automatic deploys until ${end}.` }
}

type CustomHostFacts = NonNullable<DeploymentFacts['customHost']>
function customHostObstacle({ host, isOwn, verificationHint }: CustomHostFacts): Reason | false {
  if (verificationHint === null) return false
  if (isOwn) return { code: 'custom_url_unverified', detail: verificationHint }
  const detail = `Another workspace owns the host ${host} of custom_url. ${verificationHint}`
  return { code: 'custom_url_lost', detail }
}

function revisionObstacle(
  latest: RevisionFacts,
  inFlight: RevisionFacts | undefined,
  hasListener: boolean,
  share: string,
): Reason | undefined {
  const { number, status, status_message } = latest
  const name = `Revision ${number}`
  if (status === 'DEPLOYED') return undefined
  if (status === 'CREATING')
    return { code: 'awaiting_artifact', detail: `${name} has no archive or image yet. ${ARTIFACT_HINT}.` }
  if (status === 'QUEUED') {
    const before = inFlight ? `revision ${inFlight.number}, which is still on its way` : 'another revision'
    return { code: 'waiting_behind', detail: `${name} waits behind ${before}.` }
  }
  const endCode = END_CODES[status]
  const note = hasListener ? '' : ', and no listener serves the deployment yet'
  const inProgress = `${name} is ${status}${note}.${share}`
  if (!endCode) return { code: 'in_progress', detail: status_message ? `${inProgress} ${status_message}` : inProgress }
  return { code: endCode, detail: `${name} ${END_WORDS[status]}${status_message ? `: ${status_message}` : '.'}` }
}

const SILENT_MINUTES = sql<
  string | null
>`floor(extract(epoch from clock() - coalesce(${listeners.last_seen_at}, ${listeners.created_at})) / 60)`

/** The last line of the level ERROR, of the agent or of the application. */
const LAST_ERROR = sql<string | null>`case when not ${deployments.healthy} then (
  select l.message
  from ${logLines} l
  where l.revision_id = ${deployments.active_revision_id}
    and l.kind = 'deploy'
    and l.severity = ${levels.indexOf('ERROR')}
    and l.tenant_id = current_tenant()
  order by l.timestamp desc, l.number desc
  limit 1) end`

type DeploymentParams = z.output<typeof DeploymentRef>

const explainStatement = prepareStatement(({ deployment_id }: Placeholders<DeploymentParams>) => {
  const { latest_revision_id, in_flight_revision_id } = deployments
  const latestOrInFlight = and(
    eq(revisions.deployment_id, deployments.id),
    inTenant(revisions),
    or(eq(revisions.id, latest_revision_id), eq(revisions.id, in_flight_revision_id)),
  )
  const integrationId = sql<string | null>`${deployments.source_config} ->> 'integration_id'`
  const integration = sql<DeploymentFacts['integration']>`case
    when ${integrationId} is not null then coalesce(${integrations.state}, 'gone')
  end`
  const isHostVerified = sql`${customHosts.verified_at} is not null`
  const isOwnListener = sql`${customHosts.tenant_id} = ${listeners.tenant_id}`
  const hasOwnListener = sql`${isOwnListener} and not ${listeners.verified_hosts_only}`
  return db
    .select({
      deployments,
      revisions,
      integration,
      integrationId,
      problem: integrations.problem,
      host: integrations.host,
      repository: followedRepositories,
      goneRef: deploymentHeads.gone_ref,
      silentMinutes: SILENT_MINUTES,
      isHostOwn: sql<boolean>`${customHosts.id} is not null`,
      isHostServed: sql<boolean>`${isHostVerified} or coalesce(${hasOwnListener}, false)`,
      lastError: LAST_ERROR,
    })
    .from(deployments)
    .leftJoin(revisions, latestOrInFlight)
    .leftJoin(integrations, and(sql`${integrations.id} = (${integrationId})::uuid`, inTenant(integrations)))
    .leftJoin(
      followedRepositories,
      and(
        eq(followedRepositories.integration_id, integrations.id),
        eq(followedRepositories.repo_key, deployments.repo_key),
        inTenant(followedRepositories),
      ),
    )
    .leftJoin(deploymentHeads, and(eq(deploymentHeads.deployment_id, deployments.id), inTenant(deploymentHeads)))
    .leftJoin(customHosts, isHostOfDeployment)
    .leftJoin(listeners, eq(listeners.id, deployments.listener_id))
    .where(isDeployment(deployment_id))
})

function contactOf(
  { url, heard_at, compared_at, webhook_id }: typeof followedRepositories.$inferSelect,
  host: HostName | null,
): Explanation['repository'] {
  const own = webhook_id === null ? 'missing' : 'made'
  const byHand = host === 'git' ? 'by_hand' : own
  return {
    url,
    heard_at: toIsoTime(heard_at),
    compared_at: toIsoTime(compared_at),
    webhook: host === 'github' ? 'of_app' : byHand,
  }
}

export const explainDeployment = verb(
  'deployments:read',
  async (ctx, { deployment_id }: DeploymentParams): Promise<Explanation> => {
    const rows = await run(ctx, explainStatement({ deployment_id }))
    const row = requireRow(rows, 'deployment_not_found')
    const { custom_host: host, tenant_id, source_revision_config } = row.deployments
    const { repo_ref } = source_revision_config as { repo_ref?: string }
    const isHintNeeded = host !== null && !row.isHostServed
    const verificationHint = isHintNeeded ? await describeHostVerification(ctx, tenant_id, host) : null
    const facts = {
      ...row.deployments,
      customHost: host === null ? null : { host, isOwn: row.isHostOwn, verificationHint },
      integration: row.integration,
      integrationId: row.integrationId,
      problem: row.problem,
      gitHost: row.host,
      repository: row.repository,
      // The deployment may follow another ref since.
      goneRef: row.goneRef === repo_ref ? row.goneRef : null,
      lastError: row.lastError,
    }
    const silentMinutes = row.silentMinutes === null ? null : Number(row.silentMinutes)
    return {
      repository: row.repository && contactOf(row.repository, row.host),
      serving: servingOf(row.deployments),
      resources: listObstacles(
        facts,
        rows.flatMap(({ revisions }) => revisions ?? []),
        { silentMinutes },
      ),
    }
  },
)
