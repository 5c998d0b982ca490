import { PgDialect } from 'drizzle-orm/pg-core'
import { describe, expect, it } from 'vitest'
import { inOrganization, inTenant } from '../src/kernel/db.ts'
import { apiKeys } from '../src/tables/api-keys.ts'
import { describeIsolation } from './support/isolation-suite.ts'
import { stripTenantPredicates } from './support/tenant-predicates.ts'

it.each([
  ['tenant', inTenant(apiKeys)],
  ['organization', inOrganization(apiKeys)],
] as const)('stripTenantPredicates() removes the filter by %s from the SQL', (_, predicate) => {
  expect(stripTenantPredicates(new PgDialect().sqlToQuery(predicate).sql)).toBe('true')
})

describeIsolation({ through: 'withoutTenantPredicates' })
describe('callers whom access policies limit', () => {
  describeIsolation({ through: 'withoutTenantPredicates', hasPolicies: true })
})
describe('without row-level security', () => describeIsolation({ through: 'withoutRowSecurity', hasPolicies: true }))
