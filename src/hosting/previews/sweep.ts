// The schedule of previews: ends those that are over, creates those that were waiting, notifies hosts and hooks.
import { sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { deleteExpired } from '../../kernel/db/sweep.ts'
import { createKeylessCaller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import { isOpenPull } from './branch-previews.ts'
import { sweepHooks } from './preview-hooks.ts'
import {
  deletePreviewDeployment,
  type EndReason,
  endPreview,
  type PreviewKey,
  reconcilePreview,
} from './preview-lifecycle.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'

const MAX_PER_SWEEP = 50
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

const SELECT_WAITING = sql<Row>`
  select json_build_object(
    'organization', v.organization_id,
    'tenant', v.tenant_id,
    'parent_id', v.parent_id,
    'id', v.id)::text
  from previews v
  left join deployments c on c.id = v.deployment_id and c.deleting_at is null
  where v.state = 'full'
    or v.state = 'awaiting_approval' and v.approved_sha = v.head_sha
    or v.updated_at < clock() - ${PENDING_TIME}
      and (v.state = 'pending'
        -- A new head was stored, and not deployed. A rollback holds it back.
        or v.state = 'live'
          and c.hold is null
          and c.source_revision_config ->> 'repo_commit_sha' <> v.head_sha)
  order by v.updated_at
  limit ${MAX_PER_SWEEP}`

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
  const results = await runAsSystem(database, setClock(platform), SELECT_OVERDUE, SELECT_WAITING, SELECT_ORPHANS)
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
  await forEachRow<WaitingPreview>(waiting, preview => reconcilePreview(callerOf(preview), preview))
  await Promise.all([notifyPullRequests(services), sweepHooks(services)])
}
