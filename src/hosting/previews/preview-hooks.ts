// The hooks of preview policies: stored with the change they announce, and sent until the receiver accepts them.
import { type SQL, sql } from 'drizzle-orm'
import type { Row } from '../../kernel/db/db.ts'
import { AttemptError, drainInTurns, LEASE, listInTurns, type Outbox, type OutboxItem } from '../../kernel/db/outbox.ts'
import { createGuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { messageHeaders, signBySecret } from '../../protocol/webhook-signing.ts'

/** Hook secrets are sealed for the parent, in a context that no variable's name can equal. */
export const HOOK_SEAL_CONTEXT = 'preview hooks'

const MAX_ATTEMPTS = 10
const MAX_CONCURRENT = 8

/**
 * Inserts a hook for each ended preview that had a deployment: a CTE of the statement that ends them, whose CTE `ended`
 * has their ids. It reads them as they were before the statement, with the policy that the statement may delete.
 */
export const insertEndHooks = (ended: string, domain: string | undefined): SQL => sql`hooks as (
    insert into preview_hooks (organization_id, tenant_id, preview_id, url, parent_id, secret, body)
    select v.organization_id, v.tenant_id, v.id, h.on_delete, v.parent_id, h.hook_secret,
      preview_hook_body(v, 'preview.deleted', 'https://' || d.name || ${domain ? `.${domain}` : null}::text)
    from ${sql.identifier(ended)} e
    join previews v on v.id = e.id
    join preview_policies h on h.id = v.parent_id and h.tenant_id = v.tenant_id
    left join deployments d on d.id = v.deployment_id and d.tenant_id = v.tenant_id
    where h.on_delete is not null and h.hook_secret is not null and v.deployment_id is not null)`

// ---- sent

type Hook = OutboxItem & { url: string; parent_id: string; secret: string; body: unknown }

const LIST_HOOKS = listInTurns(sql`
  select id, tenant_id as workspace, next_attempt_at as due_at
  from preview_hooks
  where next_attempt_at <= clock()`)
const claimHook = (id: string) => sql<Row>`
  update preview_hooks
  set attempts = attempts + 1, next_attempt_at = clock() + ${LEASE}
  where id = (
    select id
    from preview_hooks
    where id = ${id}::uuid and next_attempt_at <= clock()
    for update skip locked)
  returning json_build_object(
    'id', id, 'attempts', attempts, 'url', url, 'parent_id', parent_id, 'secret', secret, 'body', body)::text`

const isOwnAttempt = ({ id, attempts }: Hook): SQL => sql`id = ${id}::uuid and attempts = ${attempts}`
const deleteHook = (hook: Hook): SQL => sql`delete from preview_hooks where ${isOwnAttempt(hook)}`

const OUTBOX: Outbox<Hook> = {
  maxAttempts: MAX_ATTEMPTS,
  work: sendHook,
  markDone: deleteHook,
  markFailed: (hook, { message, isLast, nextAttemptAt }) =>
    isLast
      ? deleteHook(hook)
      : sql`
        update preview_hooks
        set error = ${message}, next_attempt_at = ${nextAttemptAt}
        where ${isOwnAttempt(hook)}`,
  logMembers: ({ id }) => ({ hook: id }),
}

export const sweepHooks = (services: Services): Promise<void> =>
  drainInTurns(services, OUTBOX, { list: LIST_HOOKS, claim: claimHook, maxConcurrent: MAX_CONCURRENT })

/** Every attempt has the same `webhook-id`, by which a receiver can ignore repeats. */
async function sendHook(
  { config, platform, sealer }: Services,
  { id, url, parent_id, secret, body }: Hook,
): Promise<void> {
  const text = JSON.stringify(body)
  const message = { id, timestamp: Math.floor(Date.now() / 1000), body: text }
  const signature = await signBySecret(await sealer.open(secret, parent_id, HOOK_SEAL_CONTEXT), message)
  const client = createGuardedClient({ config, platform }, configuredOrigin(config))
  client.stage('preview hook')
  const headers = messageHeaders(message, [signature])
  const response = await client.fetch(url, { method: 'POST', headers, body: text })
  await response.body?.cancel()
  if (!response.ok) throw new AttemptError('hook_refused', `the receiver answered ${response.status}`)
}
