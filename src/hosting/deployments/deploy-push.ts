// Deploys a push to a deployment, or records that its ref is gone.
import { sql } from 'drizzle-orm'
import { textArray } from '../../kernel/db/db.ts'
import { describeWrite, runWrite } from '../../kernel/db/journal.ts'
import type { Row } from '../../kernel/db/statement.ts'
import { verb } from '../../kernel/http/context.ts'
import type { Revision } from './schema.ts'

type Commit = NonNullable<Revision['commit']>
export type RefHead = {
  deployment_id: string
  /** The spellings of the ref that a deployment may have stored; a push of another ref does not concern it. */
  refs: string[]
  /** The database's time before the host was asked: an answer that is older than the last one does not count. */
  queried_at: string
}
export type PushedCommit = RefHead & {
  /** The head of the ref. */
  commit: Commit
  /** Set for previews, which follow their pull request even without `build_on_push`. */
  ignoresBuildOnPush?: boolean
  /** The other members of the event: who pushed which commits. */
  journalData: Record<string, unknown>
}
/** `stale`: a later answer of the host was applied already, or no deployment with this ref exists any more. */
export type PushOutcome = 'created' | 'held_back' | 'unchanged' | 'stale'

export const deployPush = verb('deployments:update', async (ctx, input: PushedCommit): Promise<PushOutcome> => {
  const { deployment_id, refs, queried_at, commit: head, ignoresBuildOnPush = false, journalData } = input
  const statement = sql<Row>`
    select answer, has_webhooks
    from deploy_push(
      ${deployment_id}::uuid,
      ${crypto.randomUUID()}::uuid,
      ${textArray(refs)},
      ${queried_at}::timestamptz,
      ${JSON.stringify(head)}::json,
      ${ignoresBuildOnPush},
      ${JSON.stringify({ commit: head.sha, ...journalData })}::json,
      ${describeWrite(ctx)}::jsonb
    )`
  const [outcome = 'stale'] = await runWrite<PushOutcome>(ctx, statement)
  return outcome
})

type MovedRepository = { integration_id: string; repo_key: string; url: string }

/** Gives the deployments of a repository, and their previews, the URL that it has now. */
export const moveRepository = verb(
  'deployments:update',
  async (ctx, { integration_id, repo_key, url }: MovedRepository) => {
    const statement = sql<Row>`
      select answer, has_webhooks
      from move_repository(${integration_id}::uuid, ${repo_key}, ${url}, ${describeWrite(ctx)}::jsonb)`
    await runWrite(ctx, statement)
  },
)

/** The deployment keeps serving; `explain` shows that its ref is gone. */
export const recordMissingRef = verb(
  'deployments:update',
  async (ctx, { deployment_id, refs, queried_at }: RefHead) => {
    const statement = sql<Row>`
      select answer, has_webhooks
      from record_missing_ref(
        ${deployment_id}::uuid,
        ${textArray(refs)},
        ${queried_at}::timestamptz,
        ${describeWrite(ctx)}::jsonb
      )`
    return (await runWrite(ctx, statement)).length > 0
  },
)
