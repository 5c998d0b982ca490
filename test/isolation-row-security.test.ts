import { sql } from 'drizzle-orm'
import { PgDialect } from 'drizzle-orm/pg-core'
import { describe, expect, it } from 'vitest'
import { inOrganization, inTenant } from '../src/kernel/db/db.ts'
import { apiKeys } from '../src/people/access/api-keys.tables.ts'
import { type AppOptions, startApp } from './support/app.ts'
import { describeIsolation } from './support/isolation-suite.ts'
import { stripTenantPredicates } from './support/tenant-predicates.ts'

it.each([
  ['tenant', inTenant(apiKeys)],
  ['organization', inOrganization(apiKeys)],
] as const)('stripTenantPredicates() removes the filter by %s from the SQL', (_, predicate) => {
  expect(stripTenantPredicates(new PgDialect().sqlToQuery(predicate).sql)).toBe('true')
})

it('functions that requests call are without their filters by tenant, too', async () => {
  const source = (name: string) => sql`select prosrc from pg_proc where oid = to_regproc(${name})`
  const names = ['lock_deployment', 'restore_revision', 'queue_revision', 'deploy_push']
  const readBy = (through: NonNullable<AppOptions['through']>) => startApp({ through }).database(names.map(source))
  const [stored, used] = [await readBy('gateway'), await readBy('withoutTenantPredicates')]
  for (const [i, [before]] of stored.entries()) {
    const [after] = used[i]!
    expect(before).not.toEqual(after)
    expect(after).toEqual([stripTenantPredicates((before as string[])[0]!)])
  }
})

describeIsolation({ through: 'withoutTenantPredicates' })
describe('callers whom access policies limit', () => {
  describeIsolation({ through: 'withoutTenantPredicates', policiesFor: 1 })
})
describe('without row-level security', () => describeIsolation({ through: 'withoutRowSecurity', policiesFor: 2 }))
