// Every table of the schema is bounded, and docs/reference/table-bounds.md says by what.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { expect, it } from 'vitest'
import { createApp } from '../../../src/app.ts'
import { readConfig } from '../../../src/env.ts'
import { createServerPlatform } from '../../../src/host/host.ts'
import { TABLE_BOUNDS } from '../../../src/host/operate/table-bounds.ts'
import { createMigratedDatabase } from '../../support/migrated-postgres.ts'

const KINDS = {
  quota: 'a quota',
  expires: 'retention',
  perRow: 'one for each row of another table',
  content: 'what people write',
}
const PAGE = join(import.meta.dirname, '../../../docs/reference/table-bounds.md')

async function listTables() {
  const client = new pg.Client({ connectionString: await createMigratedDatabase() })
  await client.connect()
  const { rows } = await client.query<{ name: string; has_quota: boolean }>(`
    select c.relname as name,
      exists (select from pg_trigger t where t.tgrelid = c.oid and t.tgname = 'enforce_quota') as has_quota
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    order by c.relname`)
  await client.end()
  return rows
}

it('every table has a bound, and a quota is one that a trigger enforces', async () => {
  const tables = await listTables()
  expect(Object.keys(TABLE_BOUNDS).sort()).toEqual(tables.map(({ name }) => name).sort())
  const quotas = Object.entries(TABLE_BOUNDS).filter(([, { kind }]) => kind === 'quota')
  const enforced = tables.filter(({ has_quota }) => has_quota).map(({ name }) => name)
  expect(enforced).toEqual(expect.arrayContaining(quotas.map(([name]) => name)))
})

it('every sweep that bounds a table is scheduled work of the app', () => {
  const env = { DATABASE_URL: 'postgres://a/b', SEALING_KEYS: `k1:${'A'.repeat(43)}`, PUBLIC_URL: 'https://a.test' }
  const config = readConfig(env)
  const { sweeps } = createApp(config, { ...createServerPlatform(env, config), log: () => {} })
  const named = Object.values(TABLE_BOUNDS).flatMap(({ sweep }) => sweep ?? [])
  expect(Object.keys(sweeps)).toEqual(expect.arrayContaining(named))
})

it('the page lists every table with its bound', () => {
  const rows = Object.entries(TABLE_BOUNDS).map(([table, { kind, bound, sweep }]) => {
    const linked = bound.replaceAll(/\b[A-Z]+(_[A-Z]+)+\b/g, '`$&`')
    return `| \`${table}\` | ${KINDS[kind]} | ${linked} | ${sweep ? `\`${sweep}\`` : ''} |`
  })
  const page = readFileSync(PAGE, 'utf8')
  const isListed = (row: string) => page.includes(`\n${row}\n`)
  expect(rows.filter(row => !isListed(row))).toEqual([])
  expect(page.split('\n').filter(line => line.startsWith('| `'))).toHaveLength(rows.length)
})
