// The objects of a database, each as the SQL that creates it, read from the catalogs of Postgres. schema.sql and the
// comparison of two databases are made of them.
import type pg from 'pg'

export type Kind = 'type' | 'function' | 'aggregate' | 'table' | 'index' | 'trigger' | 'security' | 'policy' | 'grant'
export type DatabaseObject = {
  kind: Kind
  /** Unique within its kind: `enter(text, uuid)`, or `own on deployments`. */
  name: string
  /** The table that it is part of. */
  table: string | null
  /** Without the last semicolon. */
  create: string
  drop: string
  /** The function belongs to slipway_system, which creates it and grants it. */
  isOfSystem: boolean
}
type Found = DatabaseObject & { oid: string }

export const SYSTEM = 'slipway_system'

/** In an order in which they can be created. Two databases with the same objects have the same order. */
export async function readCatalog(client: pg.Client): Promise<DatabaseObject[]> {
  // Names are written without their schema.
  await client.query('set search_path = public, pg_temp')
  const found: Found[] = []
  for (const text of QUERIES) found.push(...(await client.query(text)).rows)
  const { rows } = await client.query(DEPENDENCIES)
  await client.query('reset search_path')
  return sortByNeed(found, rows as { oid: string; needed: string }[]).map(
    ({ kind, name, table = null, create, drop, isOfSystem = false }) => ({
      kind,
      name,
      table,
      create,
      drop,
      isOfSystem,
    }),
  )
}

const KINDS: Kind[] = ['type', 'table', 'index', 'trigger', 'security', 'policy', 'function', 'aggregate', 'grant']

/** Types, tables with their parts, and functions, by name, but each after what it needs. */
function sortByNeed(found: Found[], dependencies: { oid: string; needed: string }[]): Found[] {
  const needsOf = Map.groupBy(dependencies, ({ oid }) => oid)
  const byOid = Map.groupBy(found, ({ oid }) => oid)
  const keyOf = ({ kind, name, table }: Found) => {
    const room = kind === 'type' ? 0 : kind === 'table' || table ? 1 : 2
    return [room, table ?? (kind === 'table' ? name : ''), KINDS.indexOf(kind), name].join(' ')
  }
  const inOrder = (objects: Found[]) => objects.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1))
  const sorted = new Set<Found>()
  const begun = new Set<Found>()
  const visit = (object: Found) => {
    if (begun.has(object)) return
    begun.add(object)
    const needed = (needsOf.get(object.oid) ?? []).flatMap(({ needed }) => byOid.get(needed) ?? [])
    for (const other of inOrder(needed)) visit(other)
    sorted.add(object)
  }
  for (const object of inOrder(found)) visit(object)
  return [...sorted]
}

const IN_PUBLIC = `'public'::regnamespace`
/** Partitions for a time are made as time goes on. */
const IS_DECLARED = String.raw`c.relnamespace = ${IN_PUBLIC} and c.relkind in ('r', 'p') and c.relname !~ '_\d{6,8}$'`

const TYPES = `
  select
    'type' as kind,
    t.typname as name,
    'pg_type ' || t.oid as oid,
    format(E'create type %I as (\n%s\n)', t.typname, string_agg(
      format('  %I %s', a.attname, format_type(a.atttypid, a.atttypmod)), E',\n' order by a.attnum
    )) as create,
    format('drop type %I', t.typname) as drop
  from pg_type t
  join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
  join pg_attribute a on a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  where t.typnamespace = ${IN_PUBLIC}
  group by t.oid`

const SIGNATURE = `format('%I(%s)', p.proname, (
  select string_agg(format_type(type, null), ', ' order by place)
  from unnest(p.proargtypes::oid[]) with ordinality arguments (type, place)
))`

const FUNCTIONS = String.raw`
  select
    'function' as kind,
    ${SIGNATURE} as name,
    'pg_proc ' || p.oid as oid,
    regexp_replace(
      rtrim(pg_get_functiondef(p.oid), E'\n'), '^CREATE OR REPLACE FUNCTION public\.', 'create or replace function '
    ) as create,
    'drop function ' || ${SIGNATURE} as drop,
    p.proowner = '${SYSTEM}'::regrole as "isOfSystem"
  from pg_proc p
  where p.pronamespace = ${IN_PUBLIC} and p.prokind = 'f'`

const AGGREGATES = `
  select
    'aggregate' as kind,
    ${SIGNATURE} as name,
    'pg_proc ' || p.oid as oid,
    format(E'create aggregate %I(%s) (\n  sfunc = %s,\n  stype = %s%s%s\n)',
      p.proname,
      pg_get_function_arguments(p.oid),
      a.aggtransfn::regproc,
      format_type(a.aggtranstype, null),
      case when a.aggfinalfn <> 0 then format(E',\n  finalfunc = %s', a.aggfinalfn::regproc) end,
      E',\n  initcond = ' || quote_literal(a.agginitval)
    ) as create,
    'drop aggregate ' || ${SIGNATURE} as drop
  from pg_proc p
  join pg_aggregate a on a.aggfnoid = p.oid
  where p.pronamespace = ${IN_PUBLIC}`

const COLUMN = `
  format('  %I %s', a.attname, format_type(a.atttypid, a.atttypmod))
  || coalesce(' collate ' || (
    select quote_ident(l.collname)
    from pg_collation l
    join pg_type t on t.oid = a.atttypid
    where l.oid = a.attcollation and l.oid <> t.typcollation
  ), '')
  || case
    when a.attidentity = 'a' then ' generated always as identity'
    when a.attidentity = 'd' then ' generated by default as identity'
    when a.attgenerated = 's' then format(' generated always as (%s) stored', pg_get_expr(d.adbin, d.adrelid))
    else coalesce(' default ' || pg_get_expr(d.adbin, d.adrelid), '')
  end
  || case when a.attnotnull then ' not null' else '' end`

/** With keys, checks and references, but without the constraints that repeat "not null". */
const COLUMNS = `
  (
    select string_agg(${COLUMN}, E',\n' order by a.attnum)
    from pg_attribute a
    left join pg_attrdef d on d.adrelid = a.attrelid and d.adnum = a.attnum
    where a.attrelid = c.oid and a.attnum > 0 and not a.attisdropped
  )
  || coalesce((
    select string_agg(
      format(E',\n  constraint %I %s', n.conname, pg_get_constraintdef(n.oid)),
      '' order by array_position('{p,u,x,c,f}', n.contype::text), n.conname
    )
    from pg_constraint n
    where n.conrelid = c.oid and n.contype in ('p', 'u', 'x', 'c', 'f')
  ), '')`

const TABLES = `
  select
    'table' as kind,
    c.relname as name,
    'pg_class ' || c.oid as oid,
    concat(
      case c.relpersistence when 'u' then 'create unlogged table ' else 'create table ' end,
      quote_ident(c.relname),
      case when c.relispartition
        then format(' partition of %I %s', h.inhparent::regclass, pg_get_expr(c.relpartbound, c.oid))
        else format(E' (\n%s\n)', ${COLUMNS})
      end,
      ' partition by ' || pg_get_partkeydef(c.oid),
      ' with (' || array_to_string(c.reloptions, ', ') || ')'
    ) as create,
    format('drop table %I', c.relname) as drop
  from pg_class c
  left join pg_inherits h on h.inhrelid = c.oid
  where ${IS_DECLARED}`

/** Indexes of constraints come with their table, and those of partitions with the index of the parent. */
const INDEXES = `
  select
    'index' as kind,
    i.relname as name,
    c.relname as table,
    'pg_class ' || i.oid as oid,
    replace(pg_get_indexdef(i.oid), ' ON ONLY ', ' ON ') as create,
    format('drop index %I', i.relname) as drop
  from pg_index x
  join pg_class i on i.oid = x.indexrelid and not i.relispartition
  join pg_class c on c.oid = x.indrelid
  where ${IS_DECLARED} and not exists (select from pg_constraint n where n.conindid = i.oid and n.contype <> 'f')`

/** Triggers of partitions come with the trigger of the parent. */
const TRIGGERS = `
  select
    'trigger' as kind,
    format('%s on %s', t.tgname, c.relname) as name,
    c.relname as table,
    'pg_trigger ' || t.oid as oid,
    pg_get_triggerdef(t.oid) as create,
    format('drop trigger %I on %I', t.tgname, c.relname) as drop
  from pg_trigger t
  join pg_class c on c.oid = t.tgrelid
  where ${IS_DECLARED} and not t.tgisinternal and t.tgparentid = 0`

const SECURITY = `
  select
    'security' as kind,
    'row level security on ' || c.relname as name,
    c.relname as table,
    'security ' || c.oid as oid,
    format('alter table %I enable row level security%s', c.relname,
      case when c.relforcerowsecurity then ', force row level security' end) as create,
    format('alter table %I disable row level security', c.relname) as drop
  from pg_class c
  where ${IS_DECLARED} and c.relrowsecurity`

const POLICIES = `
  select
    'policy' as kind,
    format('%s on %s', p.polname, c.relname) as name,
    c.relname as table,
    'pg_policy ' || p.oid as oid,
    concat(
      format('create policy %I on %I', p.polname, c.relname),
      case when not p.polpermissive then ' as restrictive' end,
      case p.polcmd
        when 'r' then ' for select' when 'a' then ' for insert' when 'w' then ' for update' when 'd' then ' for delete'
      end,
      ' to ' || (
        select string_agg(role::regrole::text, ', ' order by role::regrole::text) from unnest(p.polroles) role
      ),
      E'\n  using (' || pg_get_expr(p.polqual, p.polrelid) || ')',
      E'\n  with check (' || pg_get_expr(p.polwithcheck, p.polrelid) || ')'
    ) as create,
    format('drop policy %I on %I', p.polname, c.relname) as drop
  from pg_policy p
  join pg_class c on c.oid = p.polrelid
  where ${IS_DECLARED}`

const IS_SEQUENCE = `c.relnamespace = ${IN_PUBLIC} and c.relkind = 'S'`

/** The rights of a role on a table or a sequence. Its owner may do everything. */
const GRANTS_ON_TABLES = `
  with rights as (
    select c.oid, c.relname, a.grantee::regrole as role, lower(a.privilege_type) as right, null as columns
    from pg_class c, aclexplode(c.relacl) a
    where (${IS_DECLARED} or ${IS_SEQUENCE}) and a.grantee <> c.relowner
    union all
    select c.oid, c.relname, x.grantee::regrole, lower(x.privilege_type),
      string_agg(quote_ident(a.attname), ', ' order by a.attnum)
    from pg_class c
    join pg_attribute a on a.attrelid = c.oid and not a.attisdropped, aclexplode(a.attacl) x
    where ${IS_DECLARED}
    group by c.oid, c.relname, x.grantee, x.privilege_type
  )
  select
    'grant' as kind,
    format('%s to %s', relname, role) as name,
    relname as table,
    'grant ' || oid as oid,
    format('grant %s on %I to %s',
      string_agg(concat("right", ' (' || columns || ')'), ', ' order by columns is not null, "right"),
      relname,
      role
    ) as create,
    format('revoke all on %I from %s', relname, role) as drop
  from rights
  group by oid, relname, role`

/** Everyone may call a function, unless this says who. The login that migrates has another name elsewhere. */
const GRANTS_ON_FUNCTIONS = `
  select
    'grant' as kind,
    'on function ' || ${SIGNATURE} as name,
    'grant ' || p.oid as oid,
    concat(
      format('revoke execute on function %s from public', ${SIGNATURE}),
      format(E';\ngrant execute on function %s to ', ${SIGNATURE}) || (
        select string_agg(
          case when a.grantee = current_user::regrole then 'session_user' else a.grantee::regrole::text end,
          ', ' order by a.grantee = current_user::regrole, a.grantee::regrole::text
        )
        from aclexplode(p.proacl) a
        where a.grantee <> p.proowner
      )
    ) as create,
    concat(
      format('grant execute on function %s to public', ${SIGNATURE}),
      format(E';\nrevoke execute on function %s from ', ${SIGNATURE}) || (
        select string_agg(distinct a.grantee::regrole::text, ', ')
        from aclexplode(p.proacl) a
        where a.grantee <> p.proowner and a.grantee <> current_user::regrole
      )
    ) as drop,
    p.proowner = '${SYSTEM}'::regrole as "isOfSystem"
  from pg_proc p
  where p.pronamespace = ${IN_PUBLIC} and p.proacl is not null
    and not exists (select from aclexplode(p.proacl) where grantee = 0)`

/** Each object, and another one that it needs. Defaults, constraints and rows belong to their table. */
const DEPENDENCIES = `
  with known as (
    select d.*,
      coalesce(f.adrelid, n.conrelid) as of_table,
      coalesce(nullif(t.typrelid, 0), nullif(e.typrelid, 0)) as row_of,
      k.reltype as composite
    from pg_depend d
    left join pg_attrdef f on d.classid = 'pg_attrdef'::regclass and f.oid = d.objid
    left join pg_constraint n on d.classid = 'pg_constraint'::regclass and n.oid = d.objid and n.conrelid <> 0
    left join pg_type t on d.refclassid = 'pg_type'::regclass and t.oid = d.refobjid
    left join pg_type e on e.oid = t.typelem and t.typlen = -1
    left join pg_class k on k.relkind = 'c' and k.oid = d.objid and d.classid = 'pg_class'::regclass
    where d.refobjid >= 16384 and d.deptype in ('n', 'a')
  ),
  named as (
    select
      case
        when of_table is not null then 'pg_class ' || of_table
        when composite is not null then 'pg_type ' || composite
        else format('%s %s', classid::regclass, objid)
      end as oid,
      case
        when row_of is null then format('%s %s', refclassid::regclass, refobjid)
        when (select relkind from pg_class where oid = row_of) = 'c'
          then 'pg_type ' || (select reltype from pg_class where oid = row_of)
        else 'pg_class ' || row_of
      end as needed
    from known
  )
  select distinct oid, needed from named where oid <> needed
  union
  select 'pg_class ' || inhrelid, 'pg_class ' || inhparent from pg_inherits`

const QUERIES = [
  TYPES,
  FUNCTIONS,
  AGGREGATES,
  TABLES,
  INDEXES,
  TRIGGERS,
  SECURITY,
  POLICIES,
  GRANTS_ON_TABLES,
  GRANTS_ON_FUNCTIONS,
]
