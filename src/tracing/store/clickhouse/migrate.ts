// `npm run db:migrate` with TRACES_CLICKHOUSE_URL: creates the database of traces and log lines, and applies the new
// migrations.

import { LOG_MIGRATION } from '../../../hosting/logs/store/clickhouse-tables.ts'
import { connectClickHouse } from '../../../kernel/clickhouse/client.ts'
import { name, sql } from '../../../kernel/clickhouse/sql.ts'
import { RUN_MIGRATION } from './schema.ts'

/** A new migration comes last. */
const MIGRATIONS = [RUN_MIGRATION, LOG_MIGRATION]
const MIGRATION_SECONDS = 60
const APPLIED = `
  create table if not exists migrations (number UInt32, applied_at DateTime default now())
  engine = MergeTree
  order by number`

/** ClickHouse has no transactions. Each statement can be repeated, so the next run finishes a failed one. */
export async function migrateClickHouse(url: string, log: (line: string) => void = console.log): Promise<void> {
  const database = new URL(url).pathname.slice(1)
  const server = connectClickHouse(Object.assign(new URL(url), { pathname: '/default' }).href)
  await server.execute(sql`create database if not exists ${name(database)}`)
  const clickHouse = connectClickHouse(url)
  await clickHouse.execute(sql`${name(APPLIED)}`)
  const [row] = await clickHouse.query<[string]>(sql`select toString(max(number)) from migrations`)
  for (const [i, statements] of MIGRATIONS.entries()) {
    if (i + 1 <= Number(row![0])) continue
    for (const statement of statements) await clickHouse.execute(name(statement), MIGRATION_SECONDS)
    await clickHouse.insert('migrations', [{ number: i + 1 }])
    log(`ClickHouse: applied migration ${i + 1}.`)
  }
}
