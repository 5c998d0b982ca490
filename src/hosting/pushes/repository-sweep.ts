// The schedule of comparisons: each repository every few minutes, at once after a start, in turns of workspaces.
import { type SQL, sql } from 'drizzle-orm'
import type { Row } from '../../kernel/db/db.ts'
import { journalTenantEvents, setRequestId } from '../../kernel/db/journal.ts'
import { backoffSeconds, drainInTurns, LEASE, listInTurns, type Outbox } from '../../kernel/db/outbox.ts'
import { Failure } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { type Comparison, compareRepository } from './compare-repository.ts'
import type { ComparedRepository } from './compared-repository.ts'
import { listFollowed } from './followed-repositories.ts'

const MAX_CONCURRENT = 6
const INTERVAL = sql`interval '5 minutes' * (0.9 + 0.2 * random())`
/** A host that is back is compared soon, however long it was away. */
const MAX_BACKOFF_S = 300
/** For builds that were newer than what an agent had seen. */
const SECOND_LOOK = sql`interval '20 seconds'`
const MAX_ERROR_LENGTH = 500

/** While the host refuses the token of an integration, one of its repositories is asked for. */
const IS_DUE = sql`f.next_compare_at <= clock()
      and exists (
        select from integrations i
        where i.id = f.integration_id
          and (i.state = 'active'
            or i.state = 'revoked'
              and i.problem ->> 'code' = 'token_refused'
              and not exists (
                select from followed_repositories o where o.integration_id = f.integration_id and o.id < f.id)))`

const claimRepository = (id: string) => sql<Row>`
  with claimed as (
    update followed_repositories f
    set attempts = f.attempts + 1, next_compare_at = clock() + ${LEASE}
    where f.id = (
      select f.id
      from followed_repositories f
      where f.id = ${id}::uuid and ${IS_DUE}
      for update skip locked)
    returning f.*)
  select json_build_object(
    'id', f.id, 'attempts', f.attempts, 'repository', to_json(f), 'integration', to_json(i))::text
  from claimed f
  join integrations i on i.id = f.integration_id`

const isOwnAttempt = ({ id, attempts }: ComparedRepository): SQL => sql`id = ${id}::uuid and attempts = ${attempts}`

const isAway = (error: unknown): error is Failure => error instanceof Failure && error.code.startsWith('upstream_')
/** A sentence about a host that does not answer as it should. */
const awayReason = (error: unknown): string | undefined => (isAway(error) ? error.extra.about : undefined)

/** One failure may be that of a network, or of a host that restarts. */
const FAILURES_UNTIL_UNREACHABLE = 3
const UNREACHABLE_CODES = ['repository_not_found', 'host_slow']

/** `update` changes the row of an attempt, which has an event if `isReachable` differs from what was known. */
const withReachability = (
  item: ComparedRepository,
  update: SQL,
  isReachable: boolean,
  reason: string | null,
): SQL[] => {
  const events = sql`
    select
      c.tenant_id,
      c.organization_id,
      ${isReachable ? 'integration.repository_reachable' : 'integration.repository_unreachable'}::text as type,
      c.integration_id as subject_id,
      json_strip_nulls(json_build_object('repository', c.url, 'reason', ${reason}::text)) as data,
      null::json as changes
    from changed c
    join before b on b.id = c.id
    where (b.unreachable_since is null) <> (c.unreachable_since is null)`
  const statement = sql`
    with before as materialized (
      select id, unreachable_since
      from followed_repositories
      where ${isOwnAttempt(item)}
    ),
    changed as (${update} returning followed_repositories.*)
    select ${journalTenantEvents(events)}
    from (select count(*) from changed) counted
    where counted.count > 0`
  return [setRequestId(`comparison-${item.id}`), statement]
}

const OUTBOX: Outbox<ComparedRepository, Comparison | null> = {
  maxAttempts: Number.MAX_SAFE_INTEGER,
  work: compareRepository,
  // Null: no deployment follows it any more, and its webhook is gone.
  markDone: (item, comparison) =>
    comparison === null
      ? sql`delete from followed_repositories where ${isOwnAttempt(item)}`
      : withReachability(
          item,
          sql`
        update followed_repositories
        set
          attempts = 0,
          unreachable_since = null,
          compared_at = clock(),
          next_compare_at = clock() + ${comparison.isPartial ? sql`interval '0'` : INTERVAL},
          error = null,
          look_at = least(look_at, case when ${comparison.isSeenTooEarly} then clock() + ${SECOND_LOOK} end),
          host_id = ${comparison.host_id},
          webhook_id = ${comparison.webhook_id},
          webhook_error = ${comparison.webhook_error},
          etags = ${JSON.stringify(comparison.etags)}::json,
          followers = ${comparison.followers},
          branch_heads = ${comparison.branch_heads && JSON.stringify(comparison.branch_heads)}::json
        where ${isOwnAttempt(item)}`,
          true,
          null,
        ),
  markFailed: (item, { code, message, error, nextAttemptAt }) => {
    const reason = (awayReason(error) ?? message).slice(0, MAX_ERROR_LENGTH)
    const isUnreachable =
      item.attempts >= FAILURES_UNTIL_UNREACHABLE && (isAway(error) || UNREACHABLE_CODES.includes(code))
    const update = sql`
      update followed_repositories
      set
        error = ${reason},
        unreachable_since = coalesce(unreachable_since, case when ${isUnreachable} then clock() end),
        next_compare_at = ${nextAttemptAt}
      where ${isOwnAttempt(item)}`
    return withReachability(item, update, false, reason)
  },
  logMembers: ({ repository }) => ({ repository: repository.id }),
  backoff: (attempts, error) => Math.min(MAX_BACKOFF_S, backoffSeconds(attempts, error)),
}

type Scope = {
  /** Only repositories of this integration. */
  integration_id?: string
}

export async function sweepRepositories(services: Services, { integration_id }: Scope = {}): Promise<void> {
  await listFollowed(services)
  const condition = integration_id === undefined ? sql`true` : sql`f.integration_id = ${integration_id}::uuid`
  const list = listInTurns(sql`
    select f.id, f.tenant_id as workspace, f.next_compare_at as due_at
    from followed_repositories f
    where ${condition} and ${IS_DUE}`)
  await drainInTurns(services, OUTBOX, { list, claim: claimRepository, maxConcurrent: MAX_CONCURRENT })
}
