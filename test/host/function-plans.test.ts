// A function that writes keeps one plan for all values: it finds rows by keys, and to plan takes longer than to run.
import { expect, it } from 'vitest'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { query } from '../support/postgres.ts'

/** Functions that may write, and why they have no plan mode. */
const WITHOUT_PLAN_MODE: Record<string, string> = {
  ...Object.fromEntries(
    [
      'become_listener',
      'count_address_failures',
      'count_ingestion',
      'count_ingestion_of_keys',
      'count_request',
      'count_requests',
      'count_requests_of_callers',
      'count_session_request',
      'enter_by_deployment',
      'enter_by_key',
      'enter_by_session',
    ].map(name => [name, 'begins a request: Postgres keeps its plans anyway, and the clause costs time']),
  ),
  ...Object.fromEntries(
    [
      'attach_runs_partition',
      'create_runs_partition',
      'drop_expired_runs',
      'drop_runs_partition',
      'make_runs_partition',
      'make_runs_partitions',
    ].map(name => [name, 'changes partitions by statements that it composes']),
  ),
  follow_health: 'reads no rows',
  keep_cleared_stores: 'reads no rows',
  refuse: 'reads no rows',
  take_count_slot: 'reads no rows',
}

it('every function that may write has a plan mode', async () => {
  // A trigger with the changed rows of a statement as a table is planned for their number.
  const rows = await query(
    await createMigratedDatabase(),
    `select p.proname
    from pg_proc p
    join pg_language l on l.oid = p.prolang
    where p.pronamespace = 'public'::regnamespace
      and l.lanname = 'plpgsql'
      and p.provolatile = 'v'
      and not coalesce('plan_cache_mode=force_generic_plan' = any(p.proconfig), false)
      and not exists (
        select from pg_trigger t where t.tgfoid = p.oid and coalesce(t.tgnewtable, t.tgoldtable) is not null
      )`,
  )
  expect(rows.map(({ proname }) => proname).toSorted()).toEqual(Object.keys(WITHOUT_PLAN_MODE).toSorted())
})
