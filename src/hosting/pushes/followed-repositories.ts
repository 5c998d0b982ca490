// The repositories that deployments follow: when each was heard from and compared, under which name, and when next.
import { sql } from 'drizzle-orm'
import { runAsSystem, textArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { HAS_SWEEP_LEASE, takeSweepLease } from '../../kernel/db/sweep.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { repositoryKey } from '../deployments/tables.ts'
import type { Integration } from '../git-hosts/githost.ts'
import type { followedRepositories } from '../git-hosts/tables.ts'

export type FollowedRepository = typeof followedRepositories.$inferSelect

const MAX_ADDED = 1000

/** Selects the deployments `d` that follow the repository `f` of the integration `i`, without previews. */
export const FOLLOWS = sql`
  d.repo_key = f.repo_key
    and d.tenant_id = f.tenant_id
    and d.source_config ->> 'integration_id' = f.integration_id::text
    and d.deleting_at is null
    and d.parent_deployment_id is null`

/** Adds the repositories of new deployments. Those of an earlier release get their rows here, too. */
const ADD_FOLLOWED = sql`
  insert into followed_repositories (organization_id, tenant_id, integration_id, repo_key, url)
  select distinct on (i.id, d.repo_key)
    i.organization_id, i.tenant_id, i.id, d.repo_key, d.source_config ->> 'repo_url'
  from deployments d
  join integrations i
    on i.tenant_id = d.tenant_id and i.id::text = d.source_config ->> 'integration_id'
  where ${HAS_SWEEP_LEASE}
    and d.repo_key is not null
    and d.deleting_at is null
    and d.parent_deployment_id is null
    and not exists (
      select from followed_repositories f where f.integration_id = i.id and f.repo_key = d.repo_key
    )
  limit ${MAX_ADDED}
  on conflict do nothing`

/** The agent of the listener `l` has polled lately, and has the program `ssh`. */
const LOOKS = sql`l.last_seen_at > clock() - interval '90 seconds' and l.policy::jsonb -> 'features' @> '"git_ssh"'`
const MAX_ASSIGNED = 1000

/** Gives each repository by SSH a listener that runs a deployment of it, and whose agent polls. */
const ASSIGN_LOOKS = sql`
  update followed_repositories f
  set listener_id = s.listener_id, look_at = coalesce(f.look_at, clock())
  from (
    select f.id, (
        select d.listener_id
        from deployments d
        join listeners l on l.id = d.listener_id
        where ${FOLLOWS} and ${LOOKS}
        order by d.id
        limit 1) as listener_id
    from followed_repositories f
    join integrations i on i.id = f.integration_id
    where ${HAS_SWEEP_LEASE}
      and i.ssh is not null
      and i.state = 'active'
      and not exists (
        select
        from deployments d
        join listeners l on l.id = d.listener_id
        where ${FOLLOWS} and d.listener_id = f.listener_id and ${LOOKS}
      )
    order by random()
    limit ${MAX_ASSIGNED}) s
  where f.id = s.id and s.listener_id is not null`

/** All that were compared before this process began: webhooks may have been lost until then. */
const COMPARE_ALL = sql`
  update followed_repositories
  set next_compare_at = clock()
  where ${HAS_SWEEP_LEASE} and attempts = 0 and next_compare_at > clock()`

/** Lasting processes whose first sweep has begun. A Worker has no start that says anything. */
const started = new WeakSet<object>()

export async function listFollowed({ platform, database }: Services): Promise<void> {
  const isStart = platform.processMetrics !== undefined && !started.has(platform)
  started.add(platform)
  const statements = [ADD_FOLLOWED, ASSIGN_LOOKS, ...(isStart ? [COMPARE_ALL] : [])]
  await runAsSystem(database, setClock(platform), takeSweepLease('repositories'), ...statements)
}

type HeardRepository = { id: string; urls: string[] }

/**
 * Records the delivery. Returns the URLs under which deployments know the repository: it may have been renamed. Another
 * repository may have got the name of a renamed one, and concerns no deployment then. Only the host says which id a
 * name has: whoever administers one repository of the integration knows the secret of the deliveries of all.
 */
export async function recordHeard(
  { database, platform }: Services,
  integration: Integration,
  repository: HeardRepository,
): Promise<string[]> {
  const isSpelled = sql`f.repo_key = any(array(
    select ${repositoryKey(sql`url`)} from unnest(${textArray(repository.urls)}) url))`
  const isOfIntegration = sql`f.integration_id = ${integration.id}::uuid`
  const statement = sql<[string, boolean]>`
    with heard as (
      update followed_repositories f
      set
        heard_at = clock(),
        -- A comparison follows the new name.
        next_compare_at = case when ${isSpelled} then f.next_compare_at else least(f.next_compare_at, clock()) end
      where ${isOfIntegration}
        and (f.host_id = ${repository.id} or f.host_id is null and ${isSpelled})
      returning f.url)
    select url, true
    from heard
    union all
    select f.url, false
    from followed_repositories f
    where ${isOfIntegration} and f.host_id <> ${repository.id} and ${isSpelled}`
  const [, rows] = (await runAsSystem(database, setClock(platform), statement)) as [unknown, [string, boolean][]]
  if (rows.length === 0) return repository.urls
  return rows.filter(([, isHeard]) => isHeard).map(([url]) => url)
}
