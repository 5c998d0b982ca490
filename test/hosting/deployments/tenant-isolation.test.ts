// A short run of the trials R8 and R9: with tenant filters in SQL and row-level security, then with the latter alone.
import { expect, inject, it } from 'vitest'
import { runRandomOperations } from '../../proof/support/random-operations.ts'
import { getApp, startApp } from '../../support/app.ts'
import { findTenantPredicate, stripTenantPredicates } from '../../support/tenant-predicates.ts'

const { seed } = inject('fuzz')

it.each(['gateway', 'withoutTenantPredicates'] as const)(
  `no tenant reads or changes data of another tenant (database access: %s, seed ${seed})`,
  async through => {
    const app = through === 'gateway' ? getApp() : startApp({ through })
    const { foreign, broken, sent, succeeded, swapped } = await runRandomOperations({
      app,
      tenants: 8,
      operations: 600,
      seed,
    })
    expect(foreign).toEqual([])
    expect(broken).toEqual([])
    expect(swapped).toBeGreaterThan(sent / 3)
    expect(succeeded).toBeGreaterThan(sent / 10)
  },
)

it.each([
  'c.tenant_id = current_tenant()',
  '"deployments"."tenant_id" = current_tenant()',
  '"organizations"."id" = current_organization()',
  '"workspaces"."id" = coalesce(current_tenant(), "workspaces"."id")',
])('the tenant filter %s is found in SQL and removed', predicate => {
  expect(findTenantPredicate(predicate)).not.toBeNull()
  expect(stripTenantPredicates(`where ${predicate} and x`)).toBe('where true and x')
})

it.each([
  'current_tenant() = c.tenant_id',
  'tenant_id in (current_tenant())',
  'c.tenant_id is not distinct from current_tenant()',
])('the tenant filter %s, which cannot be removed, is found in SQL', predicate =>
  expect(findTenantPredicate(stripTenantPredicates(predicate))).not.toBeNull(),
)

it('a tenant that is selected or inserted is not taken for a filter', () => {
  const insert = 'insert into t (tenant_id) values (current_tenant(), current_organization())'
  expect(findTenantPredicate(insert)).toBeNull()
  expect(
    findTenantPredicate(
      'select current_scope(), current_organization(), current_tenant(), $1 from changed where x = 1',
    ),
  ).toBeNull()
})
