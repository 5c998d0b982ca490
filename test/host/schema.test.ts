// drizzle/schema.sql, functions/ and policies/ show the database that the migrations make.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { beforeAll, expect, it } from 'vitest'
import { compareWithFiles, DRIZZLE, readSchema } from '../../scripts/schema/compare.ts'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { query } from '../support/postgres.ts'

let url: string
beforeAll(async () => {
  url = await createMigratedDatabase()
})

it('schema.sql is the database that the migrations make (npm run db:generate)', async () => {
  expect(await readSchema(url)).toBe(readFileSync(join(DRIZZLE, 'schema.sql'), 'utf8'))
})

it('the migrations make the functions, triggers, policies and grants of the files (npm run db:generate)', async () => {
  expect(await compareWithFiles(url)).toBe('')
})

it('a migration mends what differs from the files', async () => {
  const changed = await createMigratedDatabase()
  const differences = [
    [
      'create or replace function custom_path(p_url text) returns text immutable return null',
      'custom_path(p_url text)',
    ],
    ['create function extra() returns void return null', 'drop function extra()'],
    ['create aggregate extra_sum(integer) (sfunc = int4pl, stype = integer)', 'drop aggregate extra_sum(integer)'],
    ['drop trigger chain_event on events', 'CREATE TRIGGER chain_event'],
    ['alter policy own on deployments using (true)', 'create policy own on deployments'],
    ['create policy extra on deployments to slipway_app using (true)', 'drop policy extra on deployments'],
    ['grant delete on organizations to slipway_app', 'revoke all on organizations from slipway_app'],
    ['grant update (id) on deployments to slipway_agent', 'on deployments to slipway_agent'],
    [
      'grant execute on function chain_event() to slipway_app',
      'revoke execute on function chain_event() from slipway_app',
    ],
    ['alter function is_own_role(uuid) owner to session_user', 'alter function is_own_role(uuid) owner to'],
    ['alter table revisions disable row level security', 'alter table revisions enable row level security'],
  ] as const
  await query(changed, differences.map(([statement]) => statement).join(';'))
  const changes = await compareWithFiles(changed)
  for (const [statement, mended] of differences) expect(changes, statement).toContain(mended)
  await query(changed, `begin; ${changes}; commit`)
  expect(await compareWithFiles(changed)).toBe('')
})
