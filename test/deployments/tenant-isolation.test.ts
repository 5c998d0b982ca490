// R8 and R9 in short: tenants who use each other's ids, with both walls and with the second alone.
import { expect, inject, it } from 'vitest'
import { runRandomOperations } from '../../chaos/support/random-operations.ts'
import { getApp, startApp } from '../support/app.ts'
import { findTenantPredicate, stripTenantPredicates } from '../support/tenant-predicates.ts'

const { seed } = inject('fuzz')

it.each(['gateway', 'withoutTenantPredicates'] as const)(
  `through the %s nothing foreign is seen or touched (seed ${seed})`,
  async through => {
    const app = through === 'gateway' ? getApp() : startApp({ through })
    const { foreign, broken, asked, succeeded, swapped } = await runRandomOperations({
      app,
      tenants: 8,
      operations: 600,
      seed,
    })
    expect(foreign).toEqual([])
    expect(broken).toEqual([])
    expect(swapped).toBeGreaterThan(asked / 3)
    expect(succeeded).toBeGreaterThan(asked / 10)
  },
)

it.each([
  'c.tenant_id = current_tenant()',
  '"deployments"."tenant_id" = current_tenant()',
  '"organizations"."id" = current_organization()',
  '"workspaces"."id" = coalesce(current_tenant(), "workspaces"."id")',
])('the first wall is taken out as %s', predicate => {
  expect(findTenantPredicate(predicate)).not.toBeNull()
  expect(stripTenantPredicates(`where ${predicate} and x`)).toBe('where true and x')
})

it.each([
  'current_tenant() = c.tenant_id',
  'tenant_id in (current_tenant())',
  'c.tenant_id is not distinct from current_tenant()',
])('and would be missed as %s, which nobody shall write', predicate =>
  expect(findTenantPredicate(stripTenantPredicates(predicate))).not.toBeNull(),
)

it('a tenant that is written is no predicate', () => {
  const written = 'insert into t (tenant_id) values (current_tenant(), current_organization())'
  expect(findTenantPredicate(written)).toBeNull()
  expect(
    findTenantPredicate(
      'select current_scope(), current_organization(), current_tenant(), $1 from changed where x = 1',
    ),
  ).toBeNull()
})
