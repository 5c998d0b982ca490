// Keeps the git host up to date about each preview: a commit status, and one comment on its pull request.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem, uuidArray } from '../../kernel/db/db.ts'
import { drainInTurns, LEASE, listInTurns, type Outbox, type OutboxItem } from '../../kernel/db/outbox.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { canHost } from '../../protocol/host-kinds.ts'
import type { Githost, Integration, StatusState } from '../git-hosts/githost.ts'
import { withHost } from '../git-hosts/with-host.ts'
import { commitStateOf, dashboardUrl, logPath, shortSha } from '../pushes/host-status.ts'
import { shownUrl } from './preview-address.ts'
import type { PreviewRow } from './preview-deployment.ts'

const MAX_ATTEMPTS = 20
const MAX_CONCURRENT = 4

type Notification = OutboxItem & {
  preview: PreviewRow
  /** Identifies the comment and the status. Stored as `notified_state` once the host has them. */
  state_key: string
  repo_url: string
  parent_name: string
  deployment_name: string | null
  deployment_url: string | null
  revision: { id: string; status: string } | null
  integration: Integration
}

const PREVIEW_TABLES = sql`
  previews v
  join deployments d on d.id = v.parent_id
  left join deployments c on c.id = v.deployment_id
  left join revisions r on r.id = c.latest_revision_id`
/** Changes whenever the comment or the status would change. */
const STATE_KEY = sql`
  v.state || ' ' || coalesce(v.head_sha, '') || ' '
    || coalesce(case when v.state = 'live' then r.status || ' ' || r.number end, '')`
const IS_PARENTS_INTEGRATION = sql`
  i.id::text = d.source_config ->> 'integration_id' and i.tenant_id = d.tenant_id`

const IS_DUE = sql`v.next_notify_at <= clock()
      and v.notified_state is distinct from ${STATE_KEY}
      and v.state not in ('denied', 'pending')
      and v.head_sha is not null
      and (v.state <> 'ended' or v.comment_id is not null or v.number is null and v.notified_state is not null)
      and exists (select from integrations i where ${IS_PARENTS_INTEGRATION})`

const claimNotification = (id: string) => sql<Row>`
  with due as (
    select v.id, ${STATE_KEY} as state_key
    from ${PREVIEW_TABLES}
    where v.id = ${id}::uuid and ${IS_DUE}
    for update of v skip locked),
  claimed as (
    update previews v
    set notify_attempts = v.notify_attempts + 1, next_notify_at = clock() + ${LEASE}
    from due
    where v.id = due.id
    returning v.*, due.state_key)
  select json_build_object(
    'id', v.id,
    'attempts', v.notify_attempts,
    'preview', to_json(v),
    'state_key', v.state_key,
    'repo_url', d.source_config ->> 'repo_url',
    'parent_name', d.name,
    'deployment_name', c.name,
    'deployment_url', c.url,
    'revision', case when r.id is not null then json_build_object('id', r.id, 'status', r.status) end,
    'integration', to_json(i))::text
  from claimed v
  join deployments d on d.id = v.parent_id
  left join deployments c on c.id = v.deployment_id
  left join revisions r on r.id = c.latest_revision_id
  join integrations i on ${IS_PARENTS_INTEGRATION}`

const isOwnAttempt = ({ id, attempts }: Notification): SQL => sql`id = ${id}::uuid and notify_attempts = ${attempts}`

const OUTBOX: Outbox<Notification> = {
  maxAttempts: MAX_ATTEMPTS,
  work: notifyPullRequest,
  markDone: notification => sql`
    update previews
    set notified_state = ${notification.state_key}, notify_attempts = 0, next_notify_at = clock()
    where ${isOwnAttempt(notification)}`,
  // After the last attempt this state counts as notified: the next change starts over with a full set of attempts.
  markFailed: (notification, { isLast, nextAttemptAt }) => sql`
    update previews
    set notified_state = ${isLast ? sql`${notification.state_key}` : sql`notified_state`},
      notify_attempts = ${isLast ? sql`0` : sql`notify_attempts`},
      next_notify_at = ${nextAttemptAt}
    where ${isOwnAttempt(notification)}`,
  logMembers: ({ id }) => ({ preview: id }),
}

type Scope = {
  /** Only previews of these deployments. */
  within?: string[]
  /** Only previews that these deployments are. */
  previewsOf?: string[]
}

export async function notifyPullRequests(services: Services, { within, previewsOf }: Scope = {}): Promise<void> {
  const ofParents = within ? sql`v.parent_id = any(${uuidArray(within)})` : sql`true`
  const condition = previewsOf ? sql`v.deployment_id = any(${uuidArray(previewsOf)})` : ofParents
  const list = listInTurns(sql`
    select v.id, v.tenant_id as workspace, v.next_notify_at as due_at
    from ${PREVIEW_TABLES}
    where ${condition} and ${IS_DUE}`)
  await drainInTurns(services, OUTBOX, { list, claim: claimNotification, maxConcurrent: MAX_CONCURRENT })
}

async function notifyPullRequest(services: Services, notification: Notification): Promise<void> {
  const { preview, integration, repo_url, parent_name } = notification
  if (!canHost(integration.host, 'commit_statuses')) return
  const { status, body } = describePreview(services, notification)
  const context = `slipway/${parent_name}`
  const work = async (host: Githost) => {
    const { number, pending_sha, head_sha } = preview
    if (number !== null) {
      const comment_id = await host.comment(repo_url, number, body, preview.comment_id)
      // Stored before the next request, so that a failure of the status does not lead to a second comment.
      if (comment_id !== preview.comment_id) await storeColumns(services, preview, sql`comment_id = ${comment_id}`)
    }
    if (head_sha === null) return
    if (pending_sha !== null && pending_sha !== head_sha)
      await host.setStatus(repo_url, pending_sha, {
        state: 'success',
        url: status.url,
        description: `Overtaken by ${shortSha(head_sha)}`,
        context,
      })
    await host.setStatus(repo_url, head_sha, { ...status, context })
    await storeColumns(services, preview, sql`pending_sha = ${status.state === 'pending' ? head_sha : null}`)
  }
  await withHost({ services, origin: configuredOrigin(services.config) }, integration, work, 'notification')
}

const storeColumns = ({ database }: Services, { id }: PreviewRow, assignments: SQL) =>
  runAsSystem(database, sql`update previews set ${assignments} where id = ${id}::uuid`)

function describePreview({ config }: Services, notification: Notification) {
  const { preview, parent_name, deployment_name, deployment_url, revision } = notification
  const { tenant_id, parent_id, deployment_id } = preview
  const head_sha = preview.head_sha ?? ''
  const isLive = preview.state === 'live'
  const { state, description, comment } = isLive ? describeRevision(revision) : describeState(preview)
  const url = isLive && deployment_name ? shownUrl(config.appsDomain, deployment_name, deployment_url) : null
  const page = (path: string) => dashboardUrl(config, tenant_id, path)
  const log = isLive && deployment_id && revision ? page(logPath(deployment_id, revision.id)) : null
  const previews = page(`/deployments/${parent_id}/previews`)
  const links = Object.entries({
    Deployment: isLive && deployment_id ? page(`/deployments/${deployment_id}`) : null,
    Log: log,
    [preview.state === 'awaiting_approval' ? 'Approve' : 'Previews']: previews,
  }).flatMap(([label, address]) => (address ? [`[${label}](${address})`] : []))
  const body = [
    `<!-- slipway preview ${preview.id} -->`,
    `**${parent_name}**: ${comment}`,
    ...(url ? ['', url] : []),
    '',
    [`Commit ${shortSha(head_sha)}`, ...links].join(' · '),
  ].join('\n')
  return { status: { state, description, url: state === 'success' ? (url ?? previews) : (log ?? previews) }, body }
}

type NotificationText = { state: StatusState; description: string; comment: string }

/** None of these is pending: a required check would block the commit for as long as nothing happens. */
function describeState({ state, head_sha, problem }: PreviewRow): NotificationText {
  if (state === 'ended') return { state: 'success', description: 'Preview deleted', comment: 'The preview is deleted.' }
  if (state === 'full')
    return {
      state: 'success',
      description: 'No preview yet: too many previews',
      comment: 'This deployment has as many previews as its policy allows. This one starts when another one ends.',
    }
  if (state === 'failed')
    return { state: 'failure', description: 'No preview', comment: problem ?? 'The preview could not be created.' }
  const commit = shortSha(head_sha ?? '')
  return {
    state: 'success',
    description: 'No preview yet: waiting for approval',
    comment: `This pull request comes from a fork. Its preview starts once someone approves commit ${commit}.`,
  }
}

/** Leaves out the revision's status message: readers of the pull request may not be allowed to see build output. */
function describeRevision(revision: Notification['revision']): NotificationText {
  const status = revision?.status ?? 'UNKNOWN'
  const state = commitStateOf(status)
  const sentence =
    status === 'DEPLOYED'
      ? 'The preview is ready.'
      : state === 'pending'
        ? 'The preview is being deployed.'
        : 'The preview was not deployed.'
  return { state, description: `Preview: ${status}`, comment: `${sentence} (\`${status}\`)` }
}
