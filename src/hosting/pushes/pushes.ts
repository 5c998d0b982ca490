// Handles pushes: brings every deployment of the repository and ref to the ref's head, in any order of deliveries.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem, textArray } from '../../kernel/db/db.ts'
import { createKeylessCaller } from '../../kernel/http/context.ts'
import { canHost } from '../../protocol/host-kinds.ts'
import { deployPush, recordMissingRef } from '../deployments/deploy-push.ts'
import type { Integration } from '../git-hosts/githost.ts'
import { withHost } from '../git-hosts/with-host.ts'
import { sendCommitStatuses } from './commit-statuses.ts'
import { type DeliveryContext, UnsettledRefError, usesRepository } from './find-integration.ts'
import { dashboardUrl, statusContext } from './host-status.ts'
import { concernsPaths } from './watch-paths.ts'
import { isSkipped, type Push, refSpellings } from './webhook-payloads.ts'

/** After this many attempts, the host's answer is accepted even if it looks older than the delivery. */
const MAX_UNSETTLED_ATTEMPTS = 3

type PushTarget = {
  id: string
  name: string
  repo_url: string
  builds_on_push: boolean
  wanted_sha: string | null
  watch_paths: string[]
  is_gone: boolean
}

/**
 * A delivery only says that a ref moved. The host is asked for the ref's head, so late, early and repeated deliveries
 * have the same result, and no deployment goes back. Of two concurrent answers, that of the later query wins.
 */
export async function handlePush(context: DeliveryContext, integration: Integration, push: Push): Promise<void> {
  const { services, requestId, origin, request, attempts } = context
  const refs = refSpellings(push.ref)
  const { queried_at, targets } = await findTargets(context, integration, push, refs)
  if (targets.length === 0) return
  const head = await withHost(context, integration, host => host.commit(targets[0]!.repo_url, push.ref))
  // The API of a host can lag behind its own deliveries.
  const isHostBehind = push.deleted
    ? head !== null && !push.created
    : head === null || (head.sha === push.before && push.after !== push.before)
  if (isHostBehind && attempts < MAX_UNSETTLED_ATTEMPTS) throw new UnsettledRefError()
  // An unreachable repository looks like a deleted ref. Only the delivery of a deletion proves that the ref is gone.
  if (head === null && !push.deleted) return

  const { organization_id: organization, tenant_id: tenant } = integration
  const actor = { kind: 'push', id: null, name: push.sender, organization, tenant } as const
  const journalData = { ref: push.ref, before: push.before, after: push.after, forced: push.forced }
  const lateIds: string[] = []
  const concerns = watchFiles(context, integration, push, head)
  for (const target of targets) {
    const { id: deployment_id, builds_on_push } = target
    const caller = createKeylessCaller(services, actor, requestId, origin, request)
    const refHead = { deployment_id, refs, queried_at }
    if (head === null) await recordMissingRef(caller, refHead)
    else if (builds_on_push && !isSkipped(head.message)) {
      if (!(await concerns(target))) {
        await tellSkipped(context, integration, target, head.sha)
        continue
      }
      const outcome = await deployPush(caller, { ...refHead, journalData, commit: chooseCommit(push, head) })
      if (outcome === 'stale') lateIds.push(deployment_id)
    }
  }
  await sendCommitStatuses(services, { within: targets.map(({ id }) => id) })
  if (lateIds.length === 0) return
  // A later delivery saw a different head. Ask the host again to break the tie.
  const { targets: current } = await findTargets(context, integration, push, refs)
  const disagrees = current.some(({ id, wanted_sha }) => lateIds.includes(id) && wanted_sha !== head?.sha)
  if (disagrees) throw new UnsettledRefError()
}

/** Asks the host once for each commit that is deployed, and only where the delivery does not list the files itself. */
function watchFiles(context: DeliveryContext, integration: Integration, push: Push, head: { sha: string } | null) {
  const compared = new Map<string, Promise<string[] | null>>()
  return async ({ watch_paths, wanted_sha, is_gone, repo_url }: PushTarget): Promise<boolean> => {
    if (head === null || watch_paths.length === 0 || wanted_sha === null || is_gone || wanted_sha === head.sha)
      return true
    const isOfDelivery = push.files != null && push.before === wanted_sha && push.after === head.sha
    if (isOfDelivery) return concernsPaths(watch_paths, push.files!)
    const files =
      compared.get(wanted_sha) ??
      withHost(context, integration, host => host.changedFiles(repo_url, wanted_sha, head.sha))
    compared.set(wanted_sha, files)
    return concernsPaths(watch_paths, await files)
  }
}

/** No revision shows that the commit is not deployed. A required status must not wait for it. */
async function tellSkipped(
  context: DeliveryContext,
  integration: Integration,
  { id, name, repo_url }: PushTarget,
  sha: string,
): Promise<void> {
  if (!canHost(integration.host, 'commit_statuses')) return
  const status = {
    state: 'success',
    url: dashboardUrl(context.services.config, integration.tenant_id, `/deployments/${id}`),
    description: 'Skipped: no watched path changed',
    context: statusContext(name),
  } as const
  await withHost(context, integration, host => host.setStatus(repo_url, sha, status), 'notification')
}

/** The delivery's data where it is about the same commit: there every host puts the author's name. */
const chooseCommit = ({ commit }: Push, head: NonNullable<Push['commit']>) =>
  commit?.sha === head.sha ? commit : { sha: head.sha, message: head.message, author: head.author }

/** The deployments of the ref that use this integration, and the database's time before the host is asked. */
async function findTargets(
  { services }: DeliveryContext,
  integration: Integration,
  { repo_urls }: Push,
  refs: string[],
) {
  const query = sql<Row>`
    with targets as (
      select
        d.id,
        d.name,
        d.source_config ->> 'repo_url' as repo_url,
        d.source_revision_config ->> 'repo_commit_sha' as wanted_sha,
        coalesce((d.source_config ->> 'build_on_push') = 'true', false) as builds_on_push,
        coalesce(d.source_config -> 'watch_paths', '[]') as watch_paths,
        h.gone_ref is not null as is_gone
      from deployments d
      left join deployment_heads h on h.deployment_id = d.id
      where ${usesRepository(integration, repo_urls)}
        and d.source_revision_config ->> 'repo_ref' = any(${textArray(refs)}))
    select clock_timestamp()::text, coalesce(json_agg(to_json(targets) order by id), '[]')::text
    from targets`
  const [[row]] = (await runAsSystem(services.database, query)) as [Row[]]
  const [queried_at, targets] = row as [string, string]
  return { queried_at, targets: JSON.parse(targets) as PushTarget[] }
}
