// What the git host is told of a preview: a status on its commit and one comment, edited whenever something else is true.

import { type SQL, sql } from 'drizzle-orm'
import type { Integration, StatusState } from '../integrations/githost.ts'
import { withHost } from '../integrations/with-host.ts'
import { type Row, runAsSystem, uuidArray } from '../kernel/db.ts'
import { setClock } from '../kernel/journal.ts'
import { configuredOrigin } from '../kernel/origin.ts'
import type { Services } from '../kernel/routes.ts'
import { deploymentUrl } from './preview-address.ts'
import type { PreviewRow } from './preview-lifecycle.ts'
import { runWorkerPool } from './worker-pool.ts'

const LEASE = sql`interval '2 minutes'`
const MAX_ATTEMPTS = 20
const MAX_CONCURRENT = 4
const SHORT_SHA_LENGTH = 7

type DueNotification = {
  preview: PreviewRow
  is: string
  repo_url: string
  parent_name: string
  name: string | null
  /** Where it answers, as its listener says. */
  served: string | null
  revision: { status: string; status_message: string | null } | null
  integration: Integration
}

/** What is true of it now, in a word that changes with everything that is told. */
const CURRENT_STATE = sql`v.state || ' ' || v.head_sha || ' ' || coalesce(case when v.state = 'live' then r.status || ' ' || r.number end, '')`
const PREVIEW_TABLES = sql`previews v join deployments d on d.id = v.parent_id
  left join deployments c on c.id = v.deployment_id left join revisions r on r.id = c.latest_revision_id`
const IS_PARENTS_INTEGRATION = sql`i.id::text = d.source_config ->> 'integration_id' and i.tenant_id = d.tenant_id`

type Scope = {
  /** These parents only. */
  within?: string[]
}

/** All of whom the host knows something else than what is true. Whoever takes one up holds it for a while; what fails is tried again, ever later. */
export async function notifyPullRequests(
  services: Pick<Services, 'config' | 'database' | 'sealer'>,
  { within }: Scope = {},
): Promise<void> {
  const { config, database } = services
  const clock = setClock(config)
  const inside = within ? sql`v.parent_id = any(${uuidArray(within)})` : sql`true`
  const statement = sql<Row>`
    with due as (
      select v.id, ${CURRENT_STATE} as is from ${PREVIEW_TABLES}
      where ${inside} and v.tell_next_at <= clock() and v.told is distinct from ${CURRENT_STATE} and v.state not in ('denied', 'pending')
        and (v.state <> 'ended' or v.comment_id is not null)
        and exists (select from integrations i where ${IS_PARENTS_INTEGRATION})
      order by v.tell_next_at limit 1 for update of v skip locked),
    claimed as (
      update previews v set tell_attempts = v.tell_attempts + 1, tell_next_at = clock() + ${LEASE} from due where v.id = due.id returning v.*, due.is)
    select json_build_object('preview', to_json(v), 'is', v.is, 'repo_url', d.source_config ->> 'repo_url', 'parent_name', d.name, 'name', c.name, 'served', c.url,
      'revision', case when r.id is null then null else json_build_object('status', r.status, 'status_message', r.status_message) end, 'integration', to_json(i))::text
    from claimed v join deployments d on d.id = v.parent_id
    left join deployments c on c.id = v.deployment_id left join revisions r on r.id = c.latest_revision_id
    join integrations i on ${IS_PARENTS_INTEGRATION}`
  const claim = async () => {
    const [, [row]] = (await runAsSystem(database, clock, statement)) as [unknown, Row[]]
    return row ? (JSON.parse(row[0] as string) as DueNotification) : null
  }
  await runWorkerPool({ atOnce: MAX_CONCURRENT, claim, work: due => processNotification(services, clock, due) })
}

async function processNotification(
  services: Parameters<typeof notifyPullRequests>[0],
  clock: SQL,
  due: DueNotification,
): Promise<void> {
  const { preview, is } = due
  const where = sql`id = ${preview.id}::uuid and tell_attempts = ${preview.tell_attempts}`
  try {
    // One attempt more than there are: the worker of the last one died.
    if (preview.tell_attempts > MAX_ATTEMPTS) throw new Error('worker_died')
    const comment_id = await notifyPullRequest(services, due)
    await runAsSystem(
      services.database,
      clock,
      sql`update previews set told = ${is}, comment_id = ${comment_id}, tell_attempts = 0, tell_next_at = clock() where ${where}`,
    )
  } catch (error) {
    const over = preview.tell_attempts >= MAX_ATTEMPTS
    services.config.log({ level: over ? 'error' : 'warn', preview: preview.id, error: String(error) })
    const pause = Math.min(3600, 15 * 2 ** preview.tell_attempts)
    await runAsSystem(
      services.database,
      clock,
      sql`update previews set told = case when ${over} then ${is} else told end, tell_attempts = case when ${over} then 0 else tell_attempts end,
        tell_next_at = clock() + ${pause} * interval '1 second' where ${where}`,
    )
  }
}

/** The comment's id is written down as soon as it is known, before anything else is asked of the host. */
async function notifyPullRequest(
  services: Parameters<typeof notifyPullRequests>[0],
  due: DueNotification,
): Promise<string> {
  const { preview, integration, repo_url, parent_name } = due
  const work = { services, origin: configuredOrigin(services.config) }
  const { state, description, comment: said } = describePreview(due)
  const url =
    due.name && preview.state === 'live' ? (deploymentUrl(services.config.appsDomain, due.name) ?? due.served) : null
  const body = [
    `<!-- slipway preview ${preview.id} -->`,
    `**${parent_name}**: ${said}`,
    ...(url ? ['', url] : []),
    '',
    `Commit ${preview.head_sha.slice(0, SHORT_SHA_LENGTH)}`,
  ].join('\n')
  return withHost(work, integration, async host => {
    const comment_id = await host.comment(repo_url, preview.number, body, preview.comment_id)
    if (comment_id !== preview.comment_id)
      await runAsSystem(
        services.database,
        sql`update previews set comment_id = ${comment_id} where id = ${preview.id}::uuid`,
      )
    if (preview.state !== 'ended') {
      const status = { state, url, description, context: `slipway/${parent_name}` }
      await host.setStatus(repo_url, preview.head_sha, status)
    }
    return comment_id
  })
}

type NotificationText = { state: StatusState; description: string; comment: string }
const COMMIT_STATES: Record<string, StatusState> = {
  DEPLOYED: 'success',
  CREATE_FAILED: 'failure',
  BUILD_FAILED: 'failure',
  DEPLOY_FAILED: 'failure',
  INTERRUPTED: 'error',
  SKIPPED: 'error',
  UNKNOWN: 'error',
}

/** In the host's words and in ours. Never what a build wrote: whoever reads the pull request may not read the logs. */
function describePreview({ preview, revision }: Pick<DueNotification, 'preview' | 'revision'>): NotificationText {
  if (preview.state === 'ended') return { state: 'success', description: 'Gone', comment: 'the preview is gone.' }
  if (preview.state === 'full') {
    const said = 'there is no room for another preview; this one comes up when another is closed.'
    return { state: 'pending', description: 'No room for another preview', comment: said }
  }
  if (preview.state === 'awaiting_approval') {
    const said = 'this comes from a fork and waits until somebody approves this commit.'
    return { state: 'pending', description: 'Waits for approval', comment: said }
  }
  const status = revision?.status ?? 'UNKNOWN'
  const state = COMMIT_STATES[status] ?? 'pending'
  const said =
    state === 'success'
      ? 'the preview is ready.'
      : state === 'pending'
        ? 'the preview is on its way.'
        : 'the preview did not come up.'
  return { state, description: `Preview: ${status}`, comment: `${said} (\`${status}\`)` }
}
