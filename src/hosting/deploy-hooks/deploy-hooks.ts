// Creates, lists and deletes deploy hooks, and deploys what a request to one asks for.
import { and, eq, sql } from 'drizzle-orm'
import type * as z from 'zod'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { db, inTenant, type Row, refuseUnless, run, runAsSystem, textArray } from '../../kernel/db/db.ts'
import { commit, describeWrite, openOwnAnswer, ownerOfAnswer, runWrite } from '../../kernel/db/journal.ts'
import { createdMembers, deletedMembers, recordColumns } from '../../kernel/db/recorded-changes.ts'
import { requireRow, toIsoTime } from '../../kernel/db/rows.ts'
import { type Placeholders, prepareStatement } from '../../kernel/db/statement.ts'
import { createKeylessCaller, type OpenRequest, verb } from '../../kernel/http/context.ts'
import { Failure, fail } from '../../kernel/http/errors.ts'
import { afterCursor, newestFirst, pageBounds, toListPage } from '../../kernel/http/paging.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { RevisionRow } from '../deployments/rows.ts'
import type { DeploymentRef } from '../deployments/schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { deployments } from '../deployments/tables.ts'
import { matchesBranch } from '../pushes/branch-globs.ts'
import type * as schema from './schema.ts'
import { deployHooks } from './tables.ts'

type DeploymentParams = z.output<typeof DeploymentRef>
type HookParams = z.output<typeof schema.DeployHookRef>
type HookRow = typeof deployHooks.$inferSelect

const MAX_HOOKS = 20
const TOKEN_BYTES = 32
const TOKEN_PLACE = 'deploy_hook'

const toWire = (row: HookRow): schema.DeployHook => ({
  id: row.id,
  deployment_id: row.deployment_id,
  name: row.name,
  refs: row.refs,
  last_used_at: row.last_used_at === null ? null : toIsoTime(row.last_used_at),
  created_at: toIsoTime(row.created_at),
})

const RECORDED = recordColumns(deployHooks, ['name', 'refs'])

type ListInput = DeploymentParams & z.output<typeof schema.DeployHookQuery>

/** Selects from the deployment, to tell an unknown deployment from one without hooks. */
const pageStatement = prepareStatement(({ deployment_id, ...query }: Placeholders<ListInput>) => {
  const page = db
    .select()
    .from(deployHooks)
    .where(and(eq(deployHooks.deployment_id, deployment_id), inTenant(deployHooks), afterCursor(deployHooks, query)))
    .orderBy(...newestFirst(deployHooks))
    .limit(query.limit)
    .offset(query.offset)
    .as('hook')
  return db.select().from(deployments).leftJoinLateral(page, sql`true`).where(isDeployment(deployment_id))
})

export const listDeployHooks = verb('deployments:read', async (ctx, input: ListInput) => {
  const rows = await run(ctx, pageStatement({ ...input, ...pageBounds(input) }))
  requireRow(rows, 'deployment_not_found')
  return toListPage(
    rows.flatMap(({ hook }) => (hook ? [hook as HookRow] : [])),
    input,
    toWire,
  )
})

const newToken = (): string => Buffer.from(crypto.getRandomValues(new Uint8Array(TOKEN_BYTES))).toString('base64url')

export const createDeployHook = verb(
  'deployments:update',
  async (ctx, { deployment_id, name, refs }: DeploymentParams & z.output<typeof schema.NewDeployHook>) => {
    const token = newToken()
    // A repeated request is answered from the stored row.
    const sealed = await ctx.sealer.seal(token, ownerOfAnswer(ctx), TOKEN_PLACE)
    const hasRoom = refuseUnless(
      'deploy_hooks_full',
      sql`(
        select count(*) from deploy_hooks h
        where h.deployment_id = d.id and h.tenant_id = current_tenant()) < ${MAX_HOOKS}`,
    )
    const change = sql<HookRow & { sealed_token: string }>`
      insert into deploy_hooks (organization_id, tenant_id, deployment_id, name, token_hash, refs)
      select d.organization_id, d.tenant_id, d.id, ${name}, ${sha256Hex(token)}, ${textArray(refs ?? [])}
      from deployments d
      where d.id = ${deployment_id}::uuid
        and d.tenant_id = current_tenant()
        and ${refuseUnless('deployment_deleting', sql`d.deleting_at is null`)}
        and case
          when d.source = 'githost' and d.parent_deployment_id is null then true
          else refuse('source_rule', 'deploy hooks need a deployment of source githost that is not a preview')
        end
        and ${hasRoom}
      returning *, ${sealed}::text as sealed_token`
    const lock = sql`select from ${deployments} where ${isDeployment(deployment_id)} for update`
    const parts = { lock, changes: createdMembers(RECORDED) }
    const rows = await commit(ctx, 'deploy_hook.created', change, { deployment_id }, parts)
    const row = requireRow(rows, 'deployment_not_found')
    return {
      ...toWire(row),
      url: `${ctx.origin}/v2/deploy-hooks/${await openOwnAnswer(ctx, row.sealed_token, TOKEN_PLACE)}`,
    }
  },
)

export const deleteDeployHook = verb('deployments:update', async (ctx, ref: HookParams) => {
  const { deployment_id, hook_id } = ref
  const isHook = and(eq(deployHooks.id, hook_id), eq(deployHooks.deployment_id, deployment_id), inTenant(deployHooks))
  const change = db.delete(deployHooks).where(isHook).returning()
  const parts = { changes: deletedMembers(RECORDED) }
  requireRow(await commit(ctx, 'deploy_hook.deleted', change, { deployment_id }, parts), 'deploy_hook_not_found')
})

// ---- used

type Use = { token: string; ref: string | null; key: string | null }
type FoundHook = Pick<HookRow, 'id' | 'name' | 'refs'> & { organization: string; tenant: string; repo_ref: string }

async function findHook({ database }: Services, token: string): Promise<FoundHook> {
  const query = sql<Row>`
    select json_build_object(
      'id', h.id,
      'name', h.name,
      'refs', h.refs,
      'organization', h.organization_id,
      'tenant', h.tenant_id,
      'repo_ref', d.source_revision_config ->> 'repo_ref')::text
    from deploy_hooks h
    join deployments d on d.id = h.deployment_id
    where h.token_hash = ${sha256Hex(token)} and d.deleting_at is null`
  const [[row]] = (await runAsSystem(database, query)) as [Row[]]
  if (!row) throw fail('deploy_hook_not_found')
  return JSON.parse(row[0] as string) as FoundHook
}

const BUSY_SECONDS = '60'

/** A request whose key is that of the last one gets the same revision. */
export async function runDeployHook(
  services: Services,
  { requestId, origin, request }: OpenRequest,
  { token, ref, key }: Use,
): Promise<{ reply: schema.HookedRevision; isRepeated: boolean }> {
  const hook = await findHook(services, token)
  if (ref !== null && ref !== hook.repo_ref && !matchesBranch(hook.refs, ref)) throw fail('deploy_hook_ref')
  const { organization, tenant } = hook
  const actor = { kind: 'push', id: null, name: `deploy hook ${hook.name}`, organization, tenant } as const
  const caller = createKeylessCaller(services, actor, requestId, origin, request)
  const newId = crypto.randomUUID()
  const revision = await deployByHook(caller, { hook_id: hook.id, newId, ref, key }).catch(error => {
    const isBusy = error instanceof Failure && error.code === 'deploy_hook_busy'
    throw isBusy ? fail('deploy_hook_busy', { headers: { 'Retry-After': BUSY_SECONDS } }) : error
  })
  const { id: revision_id, deployment_id, number, status } = revision
  const reply = { deployment_id, revision_id, number, status: status as schema.HookedRevision['status'] }
  return { reply, isRepeated: revision_id !== newId }
}

const deployByHook = verb(
  'deployments:update',
  async (ctx, { hook_id, newId, ref, key }: Omit<Use, 'token'> & { hook_id: string; newId: string }) => {
    const statement = sql<Row>`
      select answer, has_webhooks
      from use_deploy_hook(
        ${hook_id}::uuid,
        ${newId}::uuid,
        ${ref},
        ${key === null ? null : sha256Hex(key)},
        ${describeWrite(ctx)}::jsonb
      )`
    return requireRow(await runWrite<RevisionRow>(ctx, statement), 'deploy_hook_not_found')
  },
)
