// Tells the git host how each pushed commit of a deployment gets on: one status, with a link to its log.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, uuidArray } from '../../kernel/db/db.ts'
import { drainInTurns, LEASE, listInTurns, type Outbox, type OutboxItem } from '../../kernel/db/outbox.ts'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { canHost } from '../../protocol/host-kinds.ts'
import type { Githost, HostedRevision, Integration } from '../git-hosts/githost.ts'
import { refusalOf } from '../git-hosts/integration-problems.ts'
import { watchRefusals, withHost } from '../git-hosts/with-host.ts'
import { commitStateOf, dashboardUrl, logPath, phaseOf, statusContext } from './host-status.ts'

const MAX_ATTEMPTS = 20
const MAX_CONCURRENT = 4

type CommitStatus = OutboxItem & {
  tenant_id: string
  deployment_id: string
  deployment_name: string
  revision_id: string
  revision_status: string
  /** The state that the host got last. */
  notified_state: string | null
  url: string | null
  sha: string
  repo_url: string
  integration: Integration
}

const TABLES = sql`
  commit_statuses s
  join deployments d on d.id = s.deployment_id
  join revisions r on r.id = s.revision_id
  join integrations i
    on i.id::text = d.source_config ->> 'integration_id' and i.tenant_id = d.tenant_id and i.state = 'active'`
/** The revision may be another one since, with another log. */
const STATE_KEY = sql`(r.status || ' ' || r.id)`
const IS_DUE = sql`s.next_attempt_at <= clock() and s.notified_state is distinct from ${STATE_KEY}`

const claimStatus = (id: string) => sql<Row>`
  with due as (
    select s.id
    from ${TABLES}
    where s.id = ${id}::uuid and ${IS_DUE}
    for update of s skip locked),
  claimed as (
    update commit_statuses s
    set attempts = s.attempts + 1, next_attempt_at = clock() + ${LEASE}
    from due
    where s.id = due.id
    returning s.*)
  select json_build_object(
    'id', s.id,
    'attempts', s.attempts,
    'tenant_id', s.tenant_id,
    'deployment_id', d.id,
    'deployment_name', d.name,
    'revision_id', r.id,
    'revision_status', r.status,
    'notified_state', s.notified_state,
    'url', d.url,
    'sha', s.sha,
    'repo_url', d.source_config ->> 'repo_url',
    'integration', to_json(i))::text
  from claimed s
  join deployments d on d.id = s.deployment_id
  join revisions r on r.id = s.revision_id
  join integrations i on i.id::text = d.source_config ->> 'integration_id' and i.tenant_id = d.tenant_id`

const isOwnAttempt = ({ id, attempts }: CommitStatus): SQL => sql`id = ${id}::uuid and attempts = ${attempts}`
const stateKeyOf = ({ revision_status, revision_id }: CommitStatus) => `${revision_status} ${revision_id}`

const OUTBOX: Outbox<CommitStatus> = {
  maxAttempts: MAX_ATTEMPTS,
  work: sendStatus,
  markDone: item => sql`
    update commit_statuses
    set notified_state = ${stateKeyOf(item)}, attempts = 0, next_attempt_at = clock()
    where ${isOwnAttempt(item)}`,
  // After the last attempt this state counts as told: the next one starts over.
  markFailed: (item, { isLast, nextAttemptAt }) => sql`
    update commit_statuses
    set
      notified_state = ${isLast ? sql`${stateKeyOf(item)}` : sql`notified_state`},
      attempts = ${isLast ? sql`0` : sql`attempts`},
      next_attempt_at = ${nextAttemptAt}
    where ${isOwnAttempt(item)}`,
  logMembers: ({ id }) => ({ commit_status: id }),
}

/** A commit whose status is not told by then is not worth telling. */
const RETENTION = sql`interval '7 days'`

export async function sweepCommitStatuses(services: Services): Promise<void> {
  await deleteExpired(services, 'commit statuses', [
    { table: 'commit_statuses', where: sql`created_at < clock() - ${RETENTION}` },
  ])
  await sendCommitStatuses(services)
}

type Scope = {
  /** Only commits of these deployments. */
  within?: string[]
}

export async function sendCommitStatuses(services: Services, { within }: Scope = {}): Promise<void> {
  const condition = within ? sql`s.deployment_id = any(${uuidArray(within)})` : sql`true`
  const list = listInTurns(sql`
    select s.id, s.tenant_id as workspace, s.next_attempt_at as due_at
    from ${TABLES}
    where ${condition} and ${IS_DUE}`)
  await drainInTurns(services, OUTBOX, { list, claim: claimStatus, maxConcurrent: MAX_CONCURRENT })
}

/** The message of the revision is left out: readers of the repository may not be allowed to see build output. */
async function sendStatus(services: Services, item: CommitStatus): Promise<void> {
  const { tenant_id, deployment_id, deployment_name, revision_id, revision_status, repo_url, sha, integration } = item
  if (!canHost(integration.host, 'commit_statuses')) return
  const state = commitStateOf(revision_status)
  const log = dashboardUrl(services.config, tenant_id, logPath(deployment_id, revision_id))
  const status = {
    state,
    url: state === 'success' && item.url !== null ? item.url : log,
    description: `Deployment: ${revision_status}`,
    context: statusContext(deployment_name),
  }
  const caller = { services, origin: configuredOrigin(services.config) }
  const work = async (host: Githost) => {
    await host.setStatus(repo_url, sha, status)
    await showRevision(services, host, item)
  }
  await withHost(caller, integration, work, 'notification')
}

/** A refusal is recorded, and final: the status of the commit is told, and the next phase is another attempt. */
async function showRevision(services: Services, host: Githost, item: CommitStatus): Promise<void> {
  const { showRevision } = host
  if (showRevision === null || isShown(item)) return
  const revision = describeRevision(services, item)
  const show = () => showRevision(item.repo_url, item.sha, revision)
  await watchRefusals(services, item.integration, 'deployment', show).catch(error => {
    if (refusalOf(error) === null) throw error
  })
}

/** The host limits how much is written, and shows phases, not each status. */
function isShown({ notified_state, revision_id, revision_status }: CommitStatus): boolean {
  const [status = '', id] = notified_state?.split(' ') ?? []
  return id === revision_id && phaseOf(status) === phaseOf(revision_status)
}

const TITLES: Record<string, string> = { queued: 'Queued', in_progress: 'In progress' }

function describeRevision({ config }: Services, item: CommitStatus): HostedRevision {
  const { tenant_id, deployment_id, deployment_name, revision_id, revision_status } = item
  const phase = phaseOf(revision_status)
  const log_url = dashboardUrl(config, tenant_id, logPath(deployment_id, revision_id))
  const url = phase === 'success' ? item.url : null
  const links = Object.entries({
    Deployment: dashboardUrl(config, tenant_id, `/deployments/${deployment_id}`),
    Log: log_url,
    Application: url,
  }).flatMap(([label, address]) => (address ? [`[${label}](${address})`] : []))
  const title = TITLES[phase] ?? revision_status
  return {
    id: revision_id,
    phase,
    // A required check with the name of the status would need both.
    context: `slipway/${deployment_name}/check`,
    environment: deployment_name,
    title,
    summary: [`Deployment of **${deployment_name}**: \`${title}\``, ...links].join(' · '),
    log_url,
    url,
  }
}
