// A job under the lease of a worker, the context in which it acts, and writes that count only while the lease does.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, run, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import { type Ctx, createKeylessCaller } from '../../kernel/http/context.ts'
import { configuredOrigin } from '../../kernel/http/origin.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { INSIGHT_METHODS, InsightRequest } from './tables.ts'

/** Longer than the call of a model may take: see `MODEL_CALL_MS`. */
const LEASE = sql`interval '3 minutes'`
export const MODEL_CALL_MS = 120_000
export const MAX_JOB_MINUTES = 30

export type ClaimedJob = {
  id: string
  organization_id: string
  tenant_id: string
  session_id: string
  config_id: string | null
  name: string
  method: (typeof INSIGHT_METHODS)[number]
  request: InsightRequest
  summary_configuration_id: string | null
  cluster_configuration_id: string | null
  start_time: string | null
  end_time: string | null
  num_runs: number | null
  metadata: Record<string, unknown>
  lease: number
  /** The current attempt counts too. */
  attempts: number
  /** It has run for as long as a job may. */
  is_late: boolean
}

/** The result of a step: `more` if the job needs another one. */
export type StepOutcome = 'more' | 'done'

/**
 * The condition is on jobs `j`. The first is of the workspace with the fewest that run. Null if none waits, or other
 * workers have them.
 */
export async function claimJob({ platform, database }: Services, condition: SQL): Promise<ClaimedJob | null> {
  const claim = sql<Row>`
    update insight_jobs j
    set status = 'running', lease = j.lease + 1, leased_until = clock() + ${LEASE}, attempts = j.attempts + 1,
      started_at = coalesce(j.started_at, clock())
    where j.id = (
      select j.id
      from insight_jobs j
      where j.status in ('queued', 'running') and j.leased_until <= clock() and ${condition}
      order by
        (
          select count(*)
          from insight_jobs o
          where o.tenant_id = j.tenant_id and o.status = 'running' and o.leased_until > clock()
        ),
        j.leased_until
      limit 1
      for update skip locked
    )
    returning (
      to_jsonb(j) || jsonb_build_object('is_late', clock() > j.started_at + ${MAX_JOB_MINUTES} * interval '1 minute')
    )::text`
  const [, rows] = (await runAsSystem(database, setClock(platform), claim)) as [unknown, [string][]]
  return rows[0] ? JSON.parse(rows[0][0]) : null
}

/** Row-level security confines it to the workspace. No access policy does: those are about people and keys. */
export function actAsJob(services: Services, job: ClaimedJob): Ctx {
  const { id, organization_id: organization, tenant_id: tenant, name } = job
  const actor = { kind: 'cron' as const, id, name, organization, tenant }
  return {
    ...createKeylessCaller(services, actor, `insights-${id}`, configuredOrigin(services.config)),
    permission: null,
  }
}

/** Another worker has the job, or it is deleted. The work of this one is not stored. */
export class LeaseLostError extends Error {}

/**
 * Writes under the lease, and extends it. `ctes` may read the `job`, which has no row once the lease is lost. The job's
 * own columns change by `set`.
 */
export async function writeUnderLease(ctx: Ctx, job: ClaimedJob, ctes: SQL[], set: SQL[] = []): Promise<void> {
  const extend = [sql`leased_until = clock() + ${LEASE}`, sql`attempts = 0`, sql`updated_at = clock()`]
  const statement = sql<Row>`
    with ${sql.join(
      [
        sql`job as (
      update insight_jobs
      set ${sql.join([...extend, ...set], sql`, `)}
      where ${isHeld(job)}
      returning id, organization_id, tenant_id
    )`,
        ...ctes,
      ],
      sql`, `,
    )}
    select id
    from job`
  // A statement of its own: a worker that waited for the row sees the other one's lease.
  const lock = sql`select from insight_jobs where id = ${job.id}::uuid and tenant_id = current_tenant() for update`
  if ((await run(ctx, statement, lock)).length === 0) throw new LeaseLostError()
}

/** Ends the claim: the job waits until a time, or ends by its new status. `ctes` may read the `job`. */
export async function releaseJob(ctx: Ctx, job: ClaimedJob, set: SQL[], ctes: SQL[] = []): Promise<void> {
  const updated = sql`job as (
      update insight_jobs
      set ${sql.join([...set, sql`updated_at = clock()`], sql`, `)}
      where ${isHeld(job)}
      returning id, tenant_id
    )`
  await run(
    ctx,
    sql<Row>`
    with ${sql.join([updated, ...ctes], sql`, `)}
    select id
    from job`,
  )
}

const isHeld = ({ id, lease }: ClaimedJob): SQL => sql`id = ${id}::uuid
        and tenant_id = current_tenant()
        and lease = ${lease}::integer
        and status = 'running'`
