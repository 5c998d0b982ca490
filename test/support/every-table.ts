// A row in every table of a database, with values that are hard to copy. All ids are the same, so every reference fits.
import type pg from 'pg'

export const FILLED_ID = '00000000-0000-4000-8000-00000000abcd'
/** Characters that COPY escapes, and those that it takes for a null or an end. */
const TEXT = 'tab\t line\n back\\n slash\\ \\N \\. quote" comma, ü 😀'

const VALUES: Record<string, string> = {
  uuid: `'${FILLED_ID}'`,
  text: `e'${TEXT.replaceAll('\\', '\\\\')}'`,
  timestamptz: `'2026-01-02 03:04:05.678901+00'`,
  json: `'{"a": "tab\\t \\\\N", "big": 12345678901234567890}'`,
  jsonb: `'{"a": "tab\\t \\\\N", "b": [null, 0.1]}'`,
  int4: '21',
  int8: '9007199254740993',
  float8: '0.1::float8 + 0.2',
  numeric: '123456789.000000000123',
  bool: 'true',
  date: `'2026-01-02'`,
  bytea: `'\\x00ff0a5c'`,
  interval: `'1 month 2 days 03:04:05.000006'`,
}
/** Values for columns that a partition or a constraint limits. */
const OTHER_VALUES: Record<string, string> = {
  'runs.trace_tier': `'shortlived'`,
  'runs.order_time': `'2026-02-03 04:05:06+00'`,
  'annotation_queue_items.thread_id': 'null',
  'events.seq': '5',
  'journals.seq': '5',
}

/** The client is a superuser: neither triggers nor quotas run. */
export async function fillEveryTable(client: pg.Client): Promise<void> {
  await client.query(`set session_replication_role = 'replica'`)
  const { rows } = await client.query<{ table: string; columns: string[]; types: string[] }>(`
    select c.relname as table, array_agg(a.attname::text order by attnum) as columns,
      array_agg(t.typname::text order by attnum) as types
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped and a.attgenerated = ''
    join pg_type t on t.oid = a.atttypid
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p') and not c.relispartition
    group by c.relname`)
  const { rows: checks } = await client.query<{ column: string; definition: string }>(`
    select conrelid::regclass || '.' || attname as column, pg_get_constraintdef(pg_constraint.oid) as definition
    from pg_constraint
    join pg_attribute on attrelid = conrelid and attnum = conkey[1]
    where contype = 'c' and cardinality(conkey) = 1`)
  const enumerations = checks.map(({ column, definition }) => [column, /ARRAY\[('\w+')/.exec(definition)?.[1]] as const)
  const others = { ...Object.fromEntries(enumerations.filter(([, value]) => value)), ...OTHER_VALUES }
  for (const { table, columns, types } of rows) {
    const values = columns.map((column, i) => others[`${table}.${column}`] ?? chooseValue(types[i]!))
    await client.query(`insert into "${table}" ("${columns.join('", "')}") values (${values.join(', ')})`)
  }
}

function chooseValue(type: string): string {
  const value = VALUES[type.replace(/^_/, '')]
  if (value === undefined) throw new Error(`There is no value of the type ${type}.`)
  return type.startsWith('_') ? `array[${value}, ${value}]::${type.slice(1)}[]` : value
}

/** Reads the contents of every table, and the rest of the schema. */
export async function describeDatabase(client: pg.Client, without: string[] = []): Promise<Record<string, unknown>> {
  const { rows } = await client.query<{ table: string }>(`
    select relname as table from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p') and not relispartition
    order by 1`)
  const contents: Record<string, unknown> = {}
  for (const { table } of rows) {
    const row = `(to_jsonb(t)${without.map(column => ` - '${column}'`).join('')})`
    const { rows: found } = await client.query(
      `select count(*)::integer as rows, md5(string_agg(${row}::text, '|' order by ${row}::text)) as hash
      from "${table}" t`,
    )
    contents[table] = found[0]
  }
  const { rows: schema } = await client.query(`
    select
      (select json_agg(row(conrelid::regclass, conname, convalidated, pg_get_constraintdef(oid))::text
        order by conrelid::regclass::text, conname) from pg_constraint where connamespace = 'public'::regnamespace)
        as constraints,
      (select json_agg(row(tgrelid::regclass, tgname, tgenabled)::text order by tgrelid::regclass::text, tgname)
        from pg_trigger where not tgisinternal) as triggers,
      (select json_agg(row(relname, relrowsecurity, relforcerowsecurity, relispartition, relacl)::text order by relname)
        from pg_class where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')) as tables`)
  return { ...contents, schema: schema[0] }
}
