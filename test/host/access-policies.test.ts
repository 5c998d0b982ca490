// Access policies behind every table, and what they cost those who have none. On a real Postgres.
import type pg from 'pg'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { describeAccess } from '../../src/kernel/access-scopes.ts'
import type { Permission } from '../../src/kernel/permissions.ts'
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
    alert_settings: 'a switch',
    alert_mutes: 'ids of deployments at most',
    alert_states: 'numbers and ids; written by decisions, and shown by incidents alone',
    channels: 'managing and reading them needs a permission that no policy gives',
    notices: 'shown with channels',
    drains: 'ids of deployments at most; managing them needs a permission that no policy gives',
    drain_states: 'counts alone',
    webhooks: 'a write looks whether there are any; managing them needs a permission that no policy gives',
    deleted_projects: 'ids of what is gone',
    upgraded_traces: 'ids of traces',
    waiting_patches: 'read by ingestion only',
    open_runs: 'read by ingestion only',
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

describe('a caller without policies', () => {
  const explain = async (role: string, statement: string) => {
    await admin.query(`set local role ${role}`)
    const { rows } = await admin.query(`explain (verbose, costs off) ${statement}`)
    await admin.query('reset role')
    return rows.map(row => row['QUERY PLAN']).join('\n')
  }

  it('has the plans of a database in which no table has such a policy', async () => {
    const { rows } = await admin.query(
      `select polrelid::regclass::text as name from pg_policy where polname = 'admitted' order by 1`,
    )
    expect(rows.length).toBeGreaterThan(30)
    await admin.query('begin')
    try {
      const plansOf = async (role: string) => {
        const plans: Record<string, string> = {}
        for (const { name } of rows) plans[name] = await explain(role, `select count(*) from ${name}`)
        plans.joined = await explain(
          role,
          `select r.* from runs r join projects p on p.id = r.session_id
          where r.tenant_id = current_tenant() and p.name = 'default' order by r.order_time desc limit 100`,
        )
        return plans
      }
      const [plans, limited] = [await plansOf('slipway_app'), await plansOf('slipway_limited')]
      for (const { name } of rows) await admin.query(`drop policy admitted on ${name}`)
      expect(await plansOf('slipway_app')).toEqual(plans)
      expect(await plansOf('slipway_limited')).toEqual(plans)
      for (const { name } of rows) expect(limited[name], name).not.toBe(plans[name])
    } finally {
      await admin.query('rollback')
    }
  })

  it('is not limited by policies of its role about other permissions', async () => {
    const ids = Array.from({ length: 5 }, () => crypto.randomUUID())
    const [organization, tenant, role, key, policy] = ids
    const name = 'text'
    await admin.query(`insert into organizations (id, display_name) values ('${organization}', '${name}')`)
    await admin.query(
      `insert into workspaces (id, organization_id, display_name) values ('${tenant}', '${organization}', '${name}')`,
    )
    await admin.query(`insert into roles (id, organization_id, scope, display_name, permissions)
      values ('${role}', '${organization}', 'workspace', '${name}', '{deployments:read, projects:read}')`)
    await admin.query(`insert into api_keys (id, organization_id, tenant_id, description, hint, key_hash, role_id)
      values ('${key}', '${organization}', '${tenant}', '${name}', '${name}', '${key}', '${role}')`)
    const enter = async (permission: Permission) => {
      const access = describeAccess(permission, {}, true)
      const { rows } = await admin.query(
        `select is_limited from enter_by_key($1, null, $2, true, 'x', '0 ms', false, null, null, $3::jsonb)`,
        [key, permission, access],
      )
      return rows[0].is_limited
    }
    expect([await enter('deployments:read'), await enter('projects:read')]).toEqual([false, false])
    const conditions = [{ attribute_key: 'Secret', operator: 'equals', attribute_value: 'yes' }]
    const groups = [{ permission: 'projects:read', resource_type: 'project', conditions }]
    await admin.query(
      `insert into access_policies (id, organization_id, name, effect, condition_groups) values ($1, $2, 'x', $3, $4)`,
      [policy, organization, 'deny', JSON.stringify(groups)],
    )
    await admin.query(
      'insert into role_access_policies (organization_id, access_policy_id, role_id) values ($1, $2, $3)',
      [organization, policy, role],
    )
    expect([await enter('deployments:read'), await enter('projects:read')]).toEqual([false, true])
  })
})
