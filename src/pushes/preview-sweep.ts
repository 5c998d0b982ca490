// The schedule of previews: those whose time is over go, those that wait for nothing more come up, and hosts and hooks are told.

import { sql } from 'drizzle-orm'
import { createKeylessCaller } from '../kernel/context.ts'
import { type Row, runAsSystem } from '../kernel/db.ts'
import { setClock } from '../kernel/journal.ts'
import { configuredOrigin } from '../kernel/origin.ts'
import type { Services } from '../kernel/routes.ts'
import { sweepHooks } from './preview-hooks.ts'
import { deletePreviewDeployment, type EndReason, endPreview, reconcilePreview } from './preview-lifecycle.ts'
import { notifyPullRequests } from './pull-request-notifications.ts'

const MAX_PER_SWEEP = 50
const RETENTION = sql`interval '30 days'`

type DuePreview = { organization: string; tenant: string; parent_id: string; number: number; reason: EndReason }
type OrphanDeployment = { organization: string; tenant: string; id: string }

export async function sweepPreviews(services: Services): Promise<void> {
  const { config, database } = services
  const clock = setClock(config)
  const what = sql`json_build_object('organization', v.organization_id, 'tenant', v.tenant_id, 'parent_id', v.parent_id, 'number', v.number`
  const over = sql<Row>`
    select ${what}, 'reason', case when d.deleting_at is not null then 'parent_deleted' when v.expires_at <= clock() then 'expired' else 'deleted' end)::text
    from previews v join deployments d on d.id = v.parent_id left join deployments c on c.id = v.deployment_id
    where v.state <> 'ended' and (d.deleting_at is not null or v.expires_at <= clock()
      or v.deployment_id is not null and (c.id is null or c.deleting_at is not null))
    order by v.expires_at limit ${MAX_PER_SWEEP}`
  const ready = sql<Row>`
    select ${what})::text from previews v where (v.state = 'full' or v.state = 'awaiting_approval' and v.approved_sha = v.head_sha)
    order by v.updated_at limit ${MAX_PER_SWEEP}`
  // What has no preview any more to be one of; a parent that goes took its previews' rows along.
  const orphans = sql<Row>`
    select json_build_object('organization', v.organization_id, 'tenant', v.tenant_id, 'id', v.id)::text from deployments v
    where v.parent_deployment_id is not null and v.deleting_at is null
      and not exists (select from previews p where p.deployment_id = v.id and p.state <> 'ended') limit ${MAX_PER_SWEEP}`
  const forgotten = sql`delete from previews v where v.state = 'ended' and v.updated_at < clock() - ${RETENTION}`
  const [, ended, raised, left] = (await runAsSystem(database, clock, over, ready, orphans, forgotten)) as Row[][]
  const parsed = <T>(rows: Row[] | undefined) => (rows ?? []).map(([text]) => JSON.parse(text as string) as T)
  const as = ({ organization, tenant }: { organization: string; tenant: string }) => {
    const actor = { kind: 'cron', id: null, organization, tenant } as const
    return createKeylessCaller(services, actor, `previews-${crypto.randomUUID()}`, configuredOrigin(config))
  }
  // One that cannot be done keeps nobody from the next.
  const each = async <T>(all: T[], work: (one: T) => Promise<void>) => {
    for (const one of all)
      await work(one).catch((error: unknown) => config.log({ level: 'error', error: String(error) }))
  }
  await each(parsed<DuePreview>(ended), one => endPreview(as(one), one, one.reason))
  await each(parsed<OrphanDeployment>(left), one => deletePreviewDeployment(as(one), one.id))
  await each(parsed<DuePreview>(raised), one => reconcilePreview(as(one), one))
  await Promise.all([notifyPullRequests(services), sweepHooks(services)])
}
