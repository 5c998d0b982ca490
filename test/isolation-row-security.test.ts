import { PgDialect } from 'drizzle-orm/pg-core'
import { expect, it } from 'vitest'
import { inOrganization, inTenant } from '../src/kernel/db.ts'
import { apiKeys } from '../src/tables/api-keys.ts'
import { describeIsolation } from './support/isolation-suite.ts'
import { stripTenantPredicates } from './support/tenant-predicates.ts'

it.each([inTenant(apiKeys), inOrganization(apiKeys)])(
  'the filter by tenant is really removed from the SQL',
  predicate => {
    expect(stripTenantPredicates(new PgDialect().sqlToQuery(predicate).sql)).toBe('true')
  },
)

describeIsolation('withoutTenantPredicates')
