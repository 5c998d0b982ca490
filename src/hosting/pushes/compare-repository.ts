// Compares a repository with what is deployed from it, and repairs the difference that lost webhooks have left.
import { type SQL, sql } from 'drizzle-orm'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { AttemptError } from '../../kernel/db/outbox.ts'
import { createKeylessCaller } from '../../kernel/http/context.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { canHost } from '../../protocol/host-kinds.ts'
import { moveRepository } from '../deployments/deploy-push.ts'
import { isPendingStatus, repositoryKey } from '../deployments/tables.ts'
import { openWebhookSecret } from '../git-hosts/credentials.ts'
import { type Etags, type Githost, type HostedPull, type HostedRepository, webhookPath } from '../git-hosts/githost.ts'
import { refusalOf } from '../git-hosts/integration-problems.ts'
import { mapConcurrently } from '../git-hosts/request.ts'
import { watchRefusals, withHost } from '../git-hosts/with-host.ts'
import { handlePullRequest } from '../previews/pull-requests.ts'
import { matchesBranch } from './branch-globs.ts'
import { compareBranches } from './compare-branches.ts'
import { type ComparedRepository, MAX_REPAIRS, type PreviewParent, type RequireTime } from './compared-repository.ts'
import type { DeliveryContext } from './find-integration.ts'
import { FOLLOWS, type FollowedRepository } from './followed-repositories.ts'
import { findPulls, findUnlistedPulls, type KnownPreview } from './known-previews.ts'
import { handlePush } from './pushes.ts'
import { fullRef, type PullRequest } from './webhook-payloads.ts'

/** The stored outcome of a comparison. `isPartial`: more is left, which the next one does. */
export type Comparison = Pick<
  FollowedRepository,
  'host_id' | 'webhook_id' | 'webhook_error' | 'etags' | 'followers' | 'branch_heads'
> & {
  isPartial: boolean
  /** A build that is newer than what an agent has seen may have another commit. */
  isSeenTooEarly: boolean
}

/** Each comparison takes as many by chance from a repository with more refs. */
const MAX_REFS = 100
/** Well below the lease: a comparison that another one overtakes is never done. */
const MAX_MS = 60_000
/** An answer that looks older than what is known is accepted: it was asked for later. */
const SETTLED = 99

type Followed = {
  id: string
  repo_ref: string
  wanted_sha: string | null
  is_gone: boolean
  /** Its build may have resolved the ref after an agent saw the refs, or is about to. */
  is_unsettled: boolean
}
type Facts = { now: string; is_used: boolean; followed: Followed[]; parents: PreviewParent[] }

const selectFacts = (id: string) => sql<Row>`
  select json_build_object(
    'now', clock_timestamp(),
    'is_used', exists (select from deployments d where ${FOLLOWS}),
    'followed', (
      select coalesce(json_agg(t order by t.id), '[]')
      from (
        select
          d.id,
          d.source_revision_config ->> 'repo_ref' as repo_ref,
          d.source_revision_config ->> 'repo_commit_sha' as wanted_sha,
          coalesce(h.gone_ref = d.source_revision_config ->> 'repo_ref', false) as is_gone,
          coalesce(
            r.status_since >= f.seen_at
              or d.source_revision_config ->> 'repo_commit_sha' is null and ${isPendingStatus(sql`r.status`)},
            false
          ) and f.seen_at is not null as is_unsettled
        from deployments d
        left join revisions r on r.id = d.latest_revision_id
        left join deployment_heads h on h.deployment_id = d.id
        where ${FOLLOWS} and d.source_config ->> 'build_on_push' = 'true') t),
    'parents', (
      select coalesce(json_agg(t order by t.id), '[]')
      from (
        select
          d.id, p.version, p.branches, p.kinds, p.ttl_seconds, p.existing_branches,
          d.source_revision_config ->> 'repo_ref' as repo_ref,
          v.*
        from deployments d
        join preview_policies p on p.id = d.id
        cross join lateral (
          select
            greatest(p.max - count(*) filter (where v.state in ('pending', 'full', 'live')), 0) as room,
            coalesce(bool_or(v.number is not null), false) as has_pulls,
            coalesce(bool_or(v.kind = 'branch' and v.state <> 'ended'), false) as has_branch_previews,
            coalesce(
              sum(hashtextextended(concat_ws(' ', v.id, v.state, v.head_sha, v.changed_at, v.end_reason), 0)), 0
            )::text as digest
          from previews v
          where v.parent_id = d.id) v
        where ${FOLLOWS}) t))::text
  from followed_repositories f
  where f.id = ${id}::uuid`

/** Null where no deployment follows the repository any more. */
export async function compareRepository(services: Services, item: ComparedRepository): Promise<Comparison | null> {
  const { repository, integration } = item
  const [[row]] = (await runAsSystem(services.database, selectFacts(repository.id))) as [Row[]]
  const facts = JSON.parse(row![0] as string) as Facts
  if (!facts.is_used) {
    await removeWebhook(services, item)
    return null
  }
  const { now: _, ...state } = facts
  const followers = sha256Hex(JSON.stringify(state))
  const etags: Etags = followers === repository.followers ? { ...repository.etags } : {}
  const context: DeliveryContext = {
    services,
    requestId: `comparison-${repository.id}`,
    origin: configuredOrigin(services.config),
    request: null,
    attempts: SETTLED,
  }
  const requireTime = limitTime()
  return withHost(context, integration, async host => {
    const hosted = await host.repository(repository.url, repository.host_id, etags)
    if (hosted === null)
      throw new AttemptError('repository_not_found', 'The host shows this integration no such repository.')
    const url = hosted === 'unchanged' ? repository.url : await followName(context, item, hosted)
    const webhook = await ensureWebhook(context, host, item, url)
    const unsettled = facts.followed.filter(({ is_unsettled }) => is_unsettled).map(({ repo_ref }) => fullRef(repo_ref))
    const settled = facts.followed.filter(({ repo_ref }) => !unsettled.includes(fullRef(repo_ref)))
    await compareHeads(context, host, item, url, settled, etags, requireTime)
    const hasPullsLeft = await comparePulls(context, host, item, url, facts, etags, requireTime)
    const branches = await compareBranches({ context, host, item, url, parents: facts.parents, etags, requireTime })
    return {
      host_id: hosted === 'unchanged' ? repository.host_id : hosted.id,
      ...webhook,
      etags,
      followers,
      branch_heads: branches.heads,
      isPartial: hasPullsLeft || branches.isPartial,
      isSeenTooEarly: unsettled.length > 0,
    }
  })
}

function limitTime(): RequireTime {
  const deadline = Date.now() + MAX_MS
  return () => {
    if (Date.now() > deadline)
      throw new AttemptError('host_slow', 'The host answers too slowly: a comparison took longer than a minute.')
  }
}

/** Deployments follow a repository that was renamed, or given to another owner. Returns its present URL. */
async function followName(
  { services, requestId, origin, request }: DeliveryContext,
  { repository, integration }: ComparedRepository,
  { id, url }: HostedRepository,
): Promise<string> {
  if (await isSameRepository(services, repository, url)) return repository.url
  const { organization_id: organization, tenant_id: tenant } = integration
  const key = repositoryKey(sql`${url}::text`)
  await refuseTakenName(services, repository, id, key)
  const actor = { kind: 'push', id: null, name: null, organization, tenant } as const
  const caller = createKeylessCaller(services, actor, requestId, origin, request)
  await moveRepository(caller, { integration_id: integration.id, repo_key: repository.repo_key, url })
  const isOwn = sql`id = ${repository.id}::uuid`
  await runAsSystem(
    services.database,
    sql`
      delete from followed_repositories
      where integration_id = ${integration.id}::uuid and repo_key = ${key} and not (${isOwn})`,
    sql`update followed_repositories set url = ${url}, repo_key = ${key} where ${isOwn}`,
  )
  return url
}

/** Deployments of a repository that had the name before must not get the commits of this one. */
async function refuseTakenName(
  { database }: Services,
  { id, integration_id }: FollowedRepository,
  host_id: string,
  key: SQL,
): Promise<void> {
  const query = sql<Row>`
    select f.url
    from followed_repositories f
    where f.integration_id = ${integration_id}::uuid
      and f.repo_key = ${key}
      and f.id <> ${id}::uuid
      and f.host_id <> ${host_id}`
  const [[other]] = (await runAsSystem(database, query)) as [Row[]]
  if (other)
    throw new AttemptError(
      'repository_name_taken',
      `The repository is ${other[0]} now, and deployments follow another one that had this name. Correct their ` +
        '`repo_url`.',
    )
}

async function isSameRepository({ database }: Services, { repo_key }: FollowedRepository, url: string) {
  const [[row]] = (await runAsSystem(database, sql`select ${repositoryKey(sql`${url}::text`)} = ${repo_key}`)) as [
    Row[],
  ]
  return row![0] === true
}

/** Without the right to make a webhook the comparison goes on: somebody may have made one by hand. */
async function ensureWebhook(
  { services, origin }: DeliveryContext,
  host: Githost,
  { repository, integration }: ComparedRepository,
  repo_url: string,
): Promise<Pick<Comparison, 'webhook_id' | 'webhook_error'>> {
  const secret = await openWebhookSecret(services.sealer, integration)
  if (services.config.publicUrl === undefined || secret === null) return { webhook_id: null, webhook_error: null }
  const webhook = { id: repository.webhook_id, url: origin + webhookPath(integration.id), secret }
  try {
    const ensure = () => host.ensureWebhook(repo_url, webhook)
    return { webhook_id: await watchRefusals(services, integration, 'webhook', ensure), webhook_error: null }
  } catch (error) {
    const refusal = refusalOf(error)
    if (refusal) return { webhook_id: null, webhook_error: refusal.message || `The host answered ${refusal.status}.` }
    if (!(error instanceof Failure) || error.code !== 'repository_not_found') throw error
    return { webhook_id: null, webhook_error: 'The host shows the account no webhooks of the repository.' }
  }
}

const MAX_REMOVALS = 10

/** A host that stays away keeps its webhook: its deliveries concern no deployment. */
async function removeWebhook(services: Services, { repository, integration, attempts }: ComparedRepository) {
  const { webhook_id, url } = repository
  if (webhook_id === null) return
  const caller = { services, origin: configuredOrigin(services.config) }
  await withHost(caller, integration, host => host.removeWebhook(url, webhook_id), 'webhook').catch(error => {
    if (refusalOf(error) === null && attempts < MAX_REMOVALS) throw error
  })
}

async function compareHeads(
  context: DeliveryContext,
  host: Githost,
  { integration }: ComparedRepository,
  url: string,
  followed: Followed[],
  etags: Etags,
  requireTime: RequireTime,
): Promise<void> {
  const byRef = Map.groupBy(followed, ({ repo_ref }) => fullRef(repo_ref))
  const refs = chooseSome([...byRef.keys()], MAX_REFS)
  const heads = await mapConcurrently(
    refs.map((_, i) => i),
    i => {
      requireTime()
      return host.head(url, refs[i]!, etags)
    },
  )
  for (const [i, head] of heads.entries()) {
    if (head === 'unchanged') continue
    const differs = byRef
      .get(refs[i]!)!
      .some(({ wanted_sha, is_gone }) => (head === null ? !is_gone : is_gone || wanted_sha !== head.sha))
    if (!differs) continue
    requireTime()
    await handlePush(context, integration, {
      kind: 'push',
      installation: null,
      sender: null,
      repo_urls: [url],
      ref: refs[i]!,
      before: null,
      after: head?.sha ?? null,
      created: false,
      deleted: head === null,
      forced: false,
      commit: null,
    })
  }
}

const chooseSome = <T>(all: T[], count: number): T[] => {
  const start = all.length > count ? Math.floor(Math.random() * all.length) : 0
  return [...all.slice(start), ...all.slice(0, start)].slice(0, count)
}

/** Returns whether repairs are left for the next comparison. */
async function comparePulls(
  context: DeliveryContext,
  host: Githost,
  { integration }: ComparedRepository,
  url: string,
  { now, parents: all }: Facts,
  etags: Etags,
  requireTime: RequireTime,
): Promise<boolean> {
  const parents = all.filter(({ kinds, has_pulls }) => kinds.includes('pull_requests') || has_pulls)
  if (parents.length === 0 || !canHost(integration.host, 'pull_requests')) return false
  requireTime()
  const open = await host.openPulls(url, etags)
  if (open === 'unchanged') return false
  const numbers = open.map(({ number }) => number)
  const missed: MissedChange[] = []
  const unlisted: { id: string; number: number }[] = []
  for (const parent of parents) {
    requireTime()
    const { services } = context
    const known = new Map((await findPulls(services, parent.id, numbers)).map(one => [one.number, one]))
    missed.push(...open.flatMap(pull => missedChange(parent, known.get(pull.number), pull, now) ?? []))
    const others = await findUnlistedPulls(services, parent.id, numbers, MAX_REPAIRS + 1)
    unlisted.push(...others.map(({ number }) => ({ id: parent.id, number: number! })))
  }
  // A long list is cut, so that only the pull request itself says that it is closed.
  for (const { id, number } of unlisted.slice(0, MAX_REPAIRS)) {
    requireTime()
    const pull = await host.pull(url, number)
    if (pull?.is_open) continue
    const closed = pull ?? { number, branch: '', head_sha: '', fork: false, at: new Date(now).toISOString() }
    missed.push({ parent_id: id, action: 'closed', pull: { ...closed, is_open: false } })
  }
  for (const { parent_id, action, pull } of missed.slice(0, MAX_REPAIRS)) {
    requireTime()
    const { is_open: _, ...members } = pull
    const event: PullRequest = {
      kind: 'pull_request',
      installation: null,
      sender: null,
      repo_urls: [url],
      action,
      ...members,
    }
    await handlePullRequest(context, integration, event, [parent_id])
  }
  const isPartial = Math.max(missed.length, unlisted.length) > MAX_REPAIRS
  // The list is asked for again until all of it is applied.
  if (isPartial) for (const name of Object.keys(etags)) delete etags[name]
  return isPartial
}

type MissedChange = { parent_id: string; action: PullRequest['action']; pull: HostedPull }

/** A preview that was removed, or has expired, comes back only with another commit. */
function missedChange(
  parent: PreviewParent,
  known: KnownPreview | undefined,
  pull: HostedPull,
  now: string,
): MissedChange | undefined {
  const change = (action: PullRequest['action']) => ({ parent_id: parent.id, action, pull })
  if (!known) {
    const isRecent = Date.parse(pull.at) > Date.parse(now) - parent.ttl_seconds * 1000
    const isCovered = parent.kinds.includes('pull_requests') && matchesBranch(parent.branches, pull.branch)
    return isRecent && isCovered ? change('opened') : undefined
  }
  const isLater = Date.parse(pull.at) > Date.parse(known.changed_at)
  if (known.state === 'ended' && known.end_reason === 'closed') return isLater ? change('reopened') : undefined
  if (known.head_sha === pull.head_sha) return undefined
  return known.state !== 'ended' || isLater ? change('synchronize') : undefined
}
