// Access policies behind every table, and what they cost those who have none. On a real Postgres.
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { createMigratedDatabase } from '../support/migrated-postgres.ts'
import { connect } from '../support/postgres.ts'

let url: string
let admin: pg.Client
beforeAll(async () => {
  url = await createMigratedDatabase()
  admin = await connect(url)
})
afterAll(() => admin.end())

describe('a table that requests reach', () => {
  /** Tables that stay open to a caller that a policy lets in. */
  const OPEN: Record<string, string> = {
    organizations: 'its own',
    workspaces: 'its own',
    journals: 'a counter of the journal, which each write moves',
    idempotency_keys: 'those of the caller',
    tag_keys: 'shown with each resource',
    tag_values: 'shown with each resource',
    listeners: 'named by deployments',
    integrations: 'named by deployments',
    webhooks: 'a write looks whether there are any; managing them needs a permission that no policy gives',
    deleted_projects: 'ids of what is gone',
    upgraded_traces: 'ids of traces',
    example_objects: 'reached through an example',
  }

  it('has a policy for limited callers, or a reason that this test lists', async () => {
    const { rows } = await admin.query(`select c.relname as name from pg_class c
      where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
        and has_any_column_privilege('slipway_app', c.oid, 'select, insert, update')
        and not exists (
          select from pg_policy p
          where p.polrelid = c.oid and p.polname = 'admitted' and not p.polpermissive
            and p.polroles = array['slipway_limited'::regrole::oid])`)
    // docs/design/access-policies.md says what a new table needs.
    expect(rows.map(({ name }) => name).sort()).toEqual(Object.keys(OPEN).sort())
  })

  it('has no other policy for them, so that they see what slipway_app sees, or less', async () => {
    const { rows } = await admin.query(`select polname, polpermissive from pg_policy
      where 'slipway_limited'::regrole = any(polroles)`)
    for (const row of rows) expect(row).toEqual({ polname: 'admitted', polpermissive: false })
    const { rows: granted } = await admin.query(
      `select from pg_class where exists (select from aclexplode(relacl) where grantee = 'slipway_limited'::regrole)`,
    )
    expect(granted).toEqual([])
  })
})
