// Patches that name no project and came before their post wait in Postgres.
import { sql } from 'drizzle-orm'
import type { ClickHouse } from '../../../kernel/clickhouse/client.ts'
import { type Row, run, uuidArray } from '../../../kernel/db/db.ts'
import type { Ctx } from '../../../kernel/http/context.ts'
import type { StoredRuns } from '../../ingest/run-objects.ts'
import { lockTraces } from '../postgres/locks.ts'
import { findPlaces } from './find-runs.ts'
import { OPEN_RUNS, openOr, queueStatement, readPlaces } from './place-statement.ts'
import { insertRuns, type PlacedRun, toWriteRow } from './write-rows.ts'

type WaitingPatch = { row: StoredRuns['runs'][number]; place: PlacedRun; waiting_id: string; created_at: string }

/**
 * Merges the patches that waited for these runs. They are deleted after they are stored: a repeat stores the same rows
 * again.
 */
export async function mergeWaitingPatches(clickHouse: ClickHouse, ctx: Ctx, ids: string[]): Promise<void> {
  const known = JSON.stringify(await findPlaces(clickHouse, ctx, ids))
  const waiting = sql<Row>`
    select coalesce(json_agg(json_build_object(
      'row', w.patch, 'place', to_json(r), 'waiting_id', w.id::text,
      'created_at', (extract(epoch from w.created_at) * 1000000)::bigint::text
    ) order by w.id), '[]')
    from waiting_patches w
    cross join lateral (
      select k.*
      from ${openOr(known)} k
      where k.tenant_id = current_tenant() and k.id = w.run_id
      limit 1
    ) r
    where w.tenant_id = current_tenant() and w.run_id = any(${uuidArray(ids)})
      and (select require_admitted_projects(array(select session_id from ${readPlaces(known)} k), '{}'))`
  const [row] = await run(ctx, waiting, lockTraces([], { traceIds: [], runIds: ids }, OPEN_RUNS))
  const patches = JSON.parse(row![0] as string) as WaitingPatch[]
  if (patches.length === 0) return
  const now = ctx.platform.clock.now()
  const rows = patches.map(({ row, place, created_at }) =>
    toWriteRow(ctx.requestInfo.tenant!, place, row, BigInt(created_at), now),
  )
  await insertRuns(clickHouse, rows)
  const merged = sql<Row>`
    with ended as (
      delete from open_runs
      where tenant_id = current_tenant()
        and id = any(${uuidArray(patches.filter(({ row }) => row.end_time ?? row.error).map(({ place }) => place.id))})
    )
    delete from waiting_patches
    where tenant_id = current_tenant()
      and id = any(${sql.param(patches.map(({ waiting_id }) => waiting_id))}::bigint[])`
  await run(ctx, merged)
  await run(ctx, queueStatement({ runs: JSON.stringify(patches.map(({ place }) => place)) }))
}
