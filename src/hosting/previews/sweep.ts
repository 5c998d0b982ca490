// The schedule of previews: ends those that are over, creates those that were waiting, notifies hosts and hooks.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import { createKeylessCaller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { mapConcurrently } from '../git-hosts/request.ts'
import { isOpenPull } from './branch-previews.ts'
import { sweepHooks } from './preview-hooks.ts'
import {
  DEFAULT_POLICY,
  deletePreviewDeployment,
  type EndReason,
  endPreview,
  type PreviewKey,
  reconcilePreview,
} from './preview-lifecycle.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'

const MAX_PER_SWEEP = 50
const MAX_PER_WORKSPACE = 25
/** The next sweep does the rest of a workspace. A git host may take half a minute for an answer. */
const MAX_WORKSPACE_MS = 20_000
const RETENTION = sql`interval '30 days'`
/** A process that died has left what is pending for longer. */
const PENDING_TIME = sql`interval '1 minute'`
const HAS_PULL_REQUEST = sql`exists (select from previews o where ${isOpenPull(sql`v.parent_id`, sql`v.branch`)})`

type Owner = { organization: string; tenant: string }
type OverduePreview = Owner & PreviewKey & { reason: EndReason }
type WaitingPreview = Owner & PreviewKey
type OrphanDeployment = Owner & { id: string }

const SELECT_OVERDUE = sql<Row>`
  select json_build_object(
    'organization', v.organization_id,
    'tenant', v.tenant_id,
    'parent_id', v.parent_id,
    'id', v.id,
    'reason', case
      when d.deleting_at is not null then 'parent_deleted'
      when v.kind = 'branch' and ${HAS_PULL_REQUEST} then 'pull_request'
      when v.expires_at <= clock() then 'expired'
      else 'deleted'
    end)::text
  from previews v
  join deployments d on d.id = v.parent_id
  left join deployments c on c.id = v.deployment_id
  where v.state <> 'ended'
    and (d.deleting_at is not null
      or v.expires_at <= clock()
      or v.kind = 'branch' and ${HAS_PULL_REQUEST}
      or v.deployment_id is not null and (c.id is null or c.deleting_at is not null))
  order by v.expires_at
  limit ${MAX_PER_SWEEP}`

/**
 * Marks them as tried, so that those which fail again do not keep others from their turn. Workspaces take turns: one
 * that fills its policy, or whose git host never answers, holds up no other one.
 */
const TAKE_WAITING = sql<Row>`
  with live as (
    select parent_id, count(*) as count
    from previews
    where state <> 'ended' and deployment_id is not null
    group by parent_id),
  waiting as (
    select v.id, row_number() over (partition by v.tenant_id order by v.updated_at, v.id) as turn
    from previews v
    left join deployments c on c.id = v.deployment_id and c.deleting_at is null
    left join preview_policies p on p.id = v.parent_id
    left join live l on l.parent_id = v.parent_id
    where v.state = 'full' and coalesce(l.count, 0) < coalesce(p.max, ${DEFAULT_POLICY.max})
      or v.state = 'awaiting_approval' and v.approved_sha = v.head_sha
      or v.updated_at < clock() - ${PENDING_TIME}
        and (v.state = 'pending'
          -- A new head was stored, and not deployed. A rollback holds it back.
          or v.state = 'live'
            and c.hold is null
            and c.source_revision_config ->> 'repo_commit_sha' <> v.head_sha)),
  chosen as (
    select id from waiting where turn <= ${MAX_PER_WORKSPACE} order by turn, id limit ${MAX_PER_SWEEP}),
  locked as (
    select v.id from previews v join chosen using (id) for update of v skip locked)
  update previews v
  set updated_at = clock()
  from locked
  where v.id = locked.id
  returning json_build_object(
    'organization', v.organization_id,
    'tenant', v.tenant_id,
    'parent_id', v.parent_id,
    'id', v.id)::text`

/** Deployments whose preview is gone: deleting a parent deletes the rows of its previews. */
const SELECT_ORPHANS = sql<Row>`
  select json_build_object('organization', c.organization_id, 'tenant', c.tenant_id, 'id', c.id)::text
  from deployments c
  where c.parent_deployment_id is not null
    and c.deleting_at is null
    and not exists (select from previews v where v.deployment_id = c.id and v.state <> 'ended')
  limit ${MAX_PER_SWEEP}`

export async function sweepPreviews(services: Services): Promise<void> {
  const { config, platform, database } = services
  await deleteExpired(services, 'previews', [
    { table: 'previews', where: sql`state = 'ended' and updated_at < clock() - ${RETENTION}` },
  ])
  const results = await runAsSystem(database, setClock(platform), SELECT_OVERDUE, TAKE_WAITING, SELECT_ORPHANS)
  const [, overdue, waiting, orphans] = results as Row[][]
  const callerOf = ({ organization, tenant }: Owner) => {
    const actor = { kind: 'cron', id: null, organization, tenant } as const
    return createKeylessCaller(services, actor, `previews-${crypto.randomUUID()}`, configuredOrigin(config))
  }
  // A failure must not keep the sweep from the next row.
  const forEachRow = async <T>(rows: Row[] | undefined, work: (item: T) => Promise<void>) => {
    for (const [json] of rows ?? [])
      await work(JSON.parse(json as string)).catch((error: unknown) =>
        platform.log({ level: 'error', error: String(error) }),
      )
  }
  await forEachRow<OverduePreview>(overdue, preview => endPreview(callerOf(preview), preview, preview.reason))
  await forEachRow<OrphanDeployment>(orphans, orphan => deletePreviewDeployment(callerOf(orphan), orphan.id))
  const byWorkspace = [...Map.groupBy(waiting ?? [], ([json]) => (JSON.parse(json as string) as Owner).tenant).values()]
  await mapConcurrently([...byWorkspace.keys()], async i => {
    const deadline = performance.now() + MAX_WORKSPACE_MS
    await forEachRow<WaitingPreview>(byWorkspace[i], async preview => {
      if (performance.now() < deadline) await reconcilePreview(callerOf(preview), preview)
    })
  })
  await Promise.all([notifyPullRequests(services), sweepHooks(services)])
}
