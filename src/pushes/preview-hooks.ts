// A policy's hooks: what they are to be told is written with what happened, and told until they have heard it.

import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../kernel/db.ts'
import { createGuardedClient } from '../kernel/guarded-fetch.ts'
import { setClock } from '../kernel/journal.ts'
import { configuredOrigin } from '../kernel/origin.ts'
import type { Services } from '../kernel/routes.ts'
import { runWorkerPool } from './worker-pool.ts'

/** Their secret is sealed for the parent under a name that no variable can have. */
export const HOOK_SEAL_CONTEXT = 'preview hooks'

const MAX_ATTEMPTS = 10
const MAX_CONCURRENT = 8
const LEASE = sql`interval '2 minutes'`

type HookEvent = 'preview.created' | 'preview.deleted'
/** Where deployments are served, in SQL over a name. */
const deploymentUrlSql = (domain: string | undefined, name: SQL): SQL =>
  domain ? sql`'https://' || ${name} || ${`.${domain}`}::text` : sql`null::text`

/**
 * In the statement that makes or ends previews: a hook for each row of `from` that has (`was`) a deployment, by the policies in `policy`.
 * `name` is the deployment's, in SQL over such a row (`v`).
 */
export const insertHooks = (
  from: string,
  policy: SQL,
  type: HookEvent,
  domain: string | undefined,
  name: SQL = DEPLOYMENT_NAME,
): SQL => {
  const url = type === 'preview.created' ? sql`h.on_create` : sql`h.on_delete`
  return sql`hooks as (
    insert into preview_hooks (organization_id, tenant_id, preview_id, url, parent_id, secret, body)
    select v.organization_id, v.tenant_id, v.id, ${url}, v.parent_id, h.hook_secret, json_build_object('type', ${type}::text, 'timestamp', clock(),
      'data', json_build_object('preview_id', v.id, 'number', v.number, 'branch', v.branch, 'head_sha', v.head_sha, 'fork', v.fork,
        'deployment_id', v.deployment_id, 'parent_deployment_id', v.parent_id, 'url', ${deploymentUrlSql(domain, name)}))
    from ${sql.identifier(from)} v join ${policy} h on h.id = v.parent_id and h.tenant_id = v.tenant_id
    where ${url} is not null and h.hook_secret is not null and v.was)`
}
const DEPLOYMENT_NAME = sql`(select d.name from deployments d where d.id = v.deployment_id and d.tenant_id = v.tenant_id)`

type DueHook = { id: string; url: string; parent_id: string; secret: string; body: unknown; attempts: number }

/** As Standard Webhooks sign: the id, the time and the body, under the secret that `whsec_` writes in base64. */
export async function signHook(secret: string, id: string, timestamp: number, body: string): Promise<string> {
  const bytes = secret.startsWith('whsec_') ? Buffer.from(secret.slice(6), 'base64') : new TextEncoder().encode(secret)
  const hmac = { name: 'HMAC', hash: 'SHA-256' }
  const key = await crypto.subtle.importKey('raw', bytes, hmac, false, ['sign'])
  const mac = await crypto.subtle.sign('HMAC', key, new TextEncoder().encode(`${id}.${timestamp}.${body}`))
  return `v1,${Buffer.from(mac).toString('base64')}`
}

/** Each is told under the same id, however often. */
async function sendHook({ config, sealer }: Services, { id, url, parent_id, secret, body }: DueHook): Promise<void> {
  const text = JSON.stringify(body)
  const timestamp = Math.floor(Date.now() / 1000)
  const signature = await signHook(await sealer.open(secret, parent_id, HOOK_SEAL_CONTEXT), id, timestamp, text)
  const way = createGuardedClient(config, configuredOrigin(config))
  way.stage('preview hook')
  const headers = {
    'Content-Type': 'application/json',
    'webhook-id': id,
    'webhook-timestamp': String(timestamp),
    'webhook-signature': signature,
  }
  const answer = await way.fetch(url, { method: 'POST', headers, body: text })
  await answer.body?.cancel()
  if (!answer.ok) throw new Error(`it answered ${answer.status}`)
}

/** Those that are due. */
export async function sweepHooks(services: Services): Promise<void> {
  await runWorkerPool({
    atOnce: MAX_CONCURRENT,
    claim: () => claimHook(services),
    work: due => processHook(services, due),
  })
}

/** Counts the attempt before it is made. */
async function claimHook({ config, database }: Services): Promise<DueHook | null> {
  const statement = sql<Row>`
    update preview_hooks
    set attempts = attempts + 1, next_attempt_at = clock() + ${LEASE}
    where id = (
      select id
      from preview_hooks
      where next_attempt_at <= clock()
      order by next_attempt_at
      limit 1
      for update skip locked)
    returning json_build_object('id', id, 'url', url, 'parent_id', parent_id, 'secret', secret, 'body', body, 'attempts', attempts)::text`
  const [, [row]] = (await runAsSystem(database, setClock(config), statement)) as [unknown, Row[]]
  return row ? (JSON.parse(row[0] as string) as DueHook) : null
}

async function processHook(services: Services, due: DueHook): Promise<void> {
  const { config, database } = services
  // One attempt more than there are: the worker of the last one died.
  const failure = due.attempts > MAX_ATTEMPTS ? 'worker_died' : await trySendHook(services, due)
  const over = failure === null || due.attempts >= MAX_ATTEMPTS
  if (failure !== null && over) config.log({ level: 'error', error: failure, hook: due.id, attempts: due.attempts })
  const pause = Math.min(3600, 15 * 2 ** due.attempts)
  const held = sql`id = ${due.id}::uuid and attempts = ${due.attempts}`
  const outcome = over
    ? sql`delete from preview_hooks where ${held}`
    : sql`
      update preview_hooks
      set error = ${failure}, next_attempt_at = clock() + ${pause} * interval '1 second'
      where ${held}`
  // Where even that fails, its lease ends.
  await runAsSystem(database, setClock(config), outcome).catch(() => {})
}

const trySendHook = (services: Services, due: DueHook): Promise<string | null> =>
  sendHook(services, due).then(
    () => null,
    error => String(error instanceof Error ? error.message : error),
  )
