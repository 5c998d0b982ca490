import { PgDialect } from 'drizzle-orm/pg-core'
import { expect, it } from 'vitest'
import { mine, ours } from '../src/kernel/db.ts'
import { apiKeys } from '../src/tables.ts'
import { isolation } from './support/isolation.ts'
import { withoutFirstWall } from './support/walls.ts'

it.each([mine(apiKeys), ours(apiKeys)])('the first wall is really gone', predicate => {
  expect(withoutFirstWall(new PgDialect().sqlToQuery(predicate).sql)).toBe('true')
})

isolation('unwalled')
