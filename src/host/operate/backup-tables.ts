// The tables of an installation, as a backup reads them and a restore fills them.
import type pg from 'pg'
import { from as copyFrom, to as copyTo } from 'pg-copy-streams'
import { readChecked, writeChecked } from './checked-files.ts'
import { type CheckedFile, type Manifest, tableFile } from './manifest.ts'

export type Table = { name: string; columns: string[] }
type Identity = Manifest['identities'][number]

/** Every server writes values as the same text, and no timeout ends a long copy. */
export const TEXT_SETTINGS = `
  select set_config('datestyle', 'ISO, YMD', true), set_config('timezone', 'UTC', true),
    set_config('intervalstyle', 'postgres', true), set_config('extra_float_digits', '1', true),
    set_config('bytea_output', 'hex', true),
    (select string_agg(set_config(name, '0', true), '') from pg_settings
      where name in ('statement_timeout', 'idle_in_transaction_session_timeout', 'transaction_timeout'))`

/** By the policy that each of our tables has: the database may have tables of other applications. */
export async function listTables(client: pg.Client): Promise<Table[]> {
  const { rows } = await client.query<Table>(`
    select c.relname as name,
      array(
        select a.attname::text
        from pg_attribute a
        where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
        order by a.attnum
      ) as columns
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
      and exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'everything')
    order by c.relname`)
  return rows
}

export async function listPartitions(client: pg.Client): Promise<string[]> {
  const { rows } = await client.query<{ name: string }>(`
    select c.relname as name
    from pg_class c
    where c.relnamespace = 'public'::regnamespace and c.relkind = 'r' and c.relispartition
      and c.relname ~ '^runs_(shortlived|longlived)_[0-9]+$'
    order by 1`)
  return rows.map(({ name }) => name)
}

export async function listIdentities(client: pg.Client): Promise<Identity[]> {
  const { rows } = await client.query<Identity>(`
    select c.relname as table, a.attname as column, s.last_value::text
    from pg_attribute a
    join pg_class c on c.oid = a.attrelid
    join pg_sequences s
      on format('%I.%I', s.schemaname, s.sequencename)::regclass
        = pg_get_serial_sequence(format('%I.%I', 'public', c.relname), a.attname)::regclass
    where c.relnamespace = 'public'::regnamespace and a.attidentity <> ''
      and exists (select from pg_policy p where p.polrelid = c.oid and p.polname = 'everything')
    order by 1, 2`)
  // Before migration 0051, slipway_system may not read sequences.
  for (const identity of rows.filter(({ last_value }) => last_value === null)) {
    const { rows: found } = await client.query(
      `select max("${identity.column}")::text as last from "${identity.table}"`,
    )
    identity.last_value = found[0].last
  }
  return rows
}

const columnList = (columns: string[]): string => columns.map(name => `"${name}"`).join(', ')

export const dumpTable = (client: pg.Client, folder: string, { name, columns }: Table): Promise<CheckedFile> =>
  dumpQuery(client, `select ${columnList(columns)} from "${name}"`, tableFile(folder, name))

export const dumpQuery = (client: pg.Client, query: string, file: string): Promise<CheckedFile> =>
  writeChecked(file, client.query(copyTo(`copy (${query}) to stdout`)))

export async function loadTable(client: pg.Client, folder: string, table: Table & CheckedFile): Promise<void> {
  const sink = client.query(copyFrom(`copy "${table.name}" (${columnList(table.columns)}) from stdin`))
  await readChecked(tableFile(folder, table.name), table, sink)
  if (sink.rowCount !== table.rows)
    throw new Error(`${table.name} got ${sink.rowCount} rows, and the backup has ${table.rows}.`)
}

/**
 * Takes away what would refuse or repeat the rows: triggers, foreign keys, and row-level security, which allows COPY to
 * no one whom it holds. `bringBack` adds them again, and checks every reference. Needs no more than the owner's rights.
 */
export async function bareTables(client: pg.Client, tables: Table[]): Promise<{ bringBack(): Promise<void> }> {
  const { rows: foreignKeys } = await client.query<{ table: string; name: string; definition: string }>(
    `select conrelid::regclass::text as table, quote_ident(conname) as name, pg_get_constraintdef(oid) as definition
    from pg_constraint
    where contype = 'f' and conparentid = 0 and conrelid = any($1::regclass[])
    order by 1, 2`,
    [tables.map(({ name }) => `public."${name}"`)],
  )
  const names = tables.map(({ name }) => `"${name}"`)
  for (const { table, name } of foreignKeys) await client.query(`alter table ${table} drop constraint ${name}`)
  for (const name of names) await client.query(`alter table ${name} no force row level security, disable trigger user`)
  // Migrations bring rows of their own, such as the built-in roles.
  await client.query(`truncate ${names.join(', ')}`)
  return {
    async bringBack() {
      for (const { table, name, definition } of foreignKeys)
        await client.query(`alter table ${table} add constraint ${name} ${definition}`)
      for (const name of names) await client.query(`alter table ${name} force row level security, enable trigger user`)
    },
  }
}

/** Runs of a day or month that has no partition would go to the ones for wrong clocks. */
export async function createPartitions(client: pg.Client, partitions: string[]): Promise<void> {
  await client.query('set local role slipway_system')
  for (const name of partitions) {
    const [, tier, digits = ''] = name.split('_')
    const from = `${digits.slice(0, 4)}-${digits.slice(4, 6)}-${digits.slice(6) || '01'}T00:00:00Z`
    const { rows } = await client.query('select make_runs_partition($1, $2::timestamptz) as made', [tier, from])
    if (!rows[0].made) throw new Error(`The partition ${name} could not be made: another transaction locks the runs.`)
  }
  await client.query('reset role')
}

export async function setIdentities(client: pg.Client, identities: Identity[]): Promise<void> {
  for (const { table, column, last_value } of identities)
    if (last_value !== null)
      await client.query('select setval(pg_get_serial_sequence($1, $2), $3::bigint)', [table, column, last_value])
}
