// A push: every deployment of that repository and ref follows, whichever order the deliveries come in.
import { sql } from 'drizzle-orm'
import { deployPush, recordMissingRef } from '../deployments/deploy-push.ts'
import type { Integration } from '../integrations/githost.ts'
import { withHost } from '../integrations/with-host.ts'
import { createKeylessCaller } from '../kernel/context.ts'
import { type Row, runAsSystem, textArray } from '../kernel/db.ts'
import { type DeliveryContext, UnsettledRefError } from './find-integration.ts'
import { type Push, refSpellings, repoKey } from './webhook-payloads.ts'

/** How often a host that answers with what was there before is asked again; then its word stands. */
const MAX_UNSETTLED_ATTEMPTS = 3

type PushTarget = { id: string; repo_url: string; follows: boolean; wanted: string | null }

/**
 * A delivery says that a ref has moved; where it is now, the host says. So a late, early or repeated delivery leads to the same as the one
 * in time, and nothing goes back. Of answers that come at once the one counts that was asked for last.
 */
export async function handlePush(work: DeliveryContext, integration: Integration, push: Push): Promise<void> {
  const { services, requestId, origin, attempts } = work
  const refs = refSpellings(push.ref)
  const { asked_at, targets } = await findTargets(work, integration, push, refs)
  if (targets.length === 0) return
  const head = await withHost(work, integration, host => host.commit(targets[0]!.repo_url, push.ref))
  // It may not have heard yet of what it delivers itself.
  const lags = push.deleted
    ? head !== null && !push.created
    : head === null || (head.sha === push.before && push.after !== push.before)
  if (lags && attempts < MAX_UNSETTLED_ATTEMPTS) throw new UnsettledRefError()
  // A repository that is out of reach looks like a ref that is gone: only its deletion says that it is.
  if (head === null && !push.deleted) return

  const { organization_id: organization, tenant_id: tenant } = integration
  const actor = { kind: 'push', id: null, name: push.sender, organization, tenant } as const
  const told = { ref: push.ref, before: push.before, after: push.after, forced: push.forced }
  const late: string[] = []
  for (const { id: deployment_id, follows } of targets) {
    const caller = createKeylessCaller(services, actor, requestId, origin)
    if (head === null) await recordMissingRef(caller, { deployment_id, refs, asked_at })
    else if (follows) {
      const outcome = await deployPush(caller, {
        ...{ deployment_id, refs, asked_at, journalData: told },
        commit: chooseCommit(push, head),
      })
      if (outcome === 'stale') late.push(deployment_id)
    }
  }
  if (late.length === 0) return
  // Somebody asked later and was told something else: which of the two was right, only asking again can say.
  const now = await findTargets(work, integration, push, refs)
  if (now.targets.some(({ id, wanted }) => late.includes(id) && wanted !== head?.sha)) throw new UnsettledRefError()
}

/** The delivery's own words where it is of that commit: all hosts write the author's name there. */
const chooseCommit = ({ commit }: Push, head: NonNullable<Push['commit']>) =>
  commit?.sha === head.sha ? commit : { sha: head.sha, message: head.message, author: head.author }

/** Those of that integration's workspace, made with that integration, and when it was: before the host is asked. */
async function findTargets(
  { services }: DeliveryContext,
  { id, tenant_id }: Integration,
  { repo_urls }: Push,
  refs: string[],
) {
  const keys = textArray(repo_urls.map(repoKey))
  const query = sql<Row>`
    select clock_timestamp()::text, coalesce(json_agg(json_build_object('id', d.id, 'repo_url', d.source_config ->> 'repo_url',
      'wanted', d.source_revision_config ->> 'repo_commit_sha', 'follows', coalesce((d.source_config ->> 'build_on_push') = 'true', false)) order by d.id) filter (where d.id is not null), '[]')::text
    from deployments d where d.repo_key is not null and d.repo_key = any(${keys}) and d.tenant_id = ${tenant_id}::uuid
      and d.source_config ->> 'integration_id' = ${id} and d.deleting_at is null and d.parent_deployment_id is null
      and d.source_revision_config ->> 'repo_ref' = any(${textArray(refs)})`
  const [[row]] = (await runAsSystem(services.database, query)) as [Row[]]
  const [asked_at, targets] = row as [string, string]
  return { asked_at, targets: JSON.parse(targets) as PushTarget[] }
}
