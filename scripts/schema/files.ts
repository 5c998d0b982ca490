// drizzle/functions and drizzle/policies show functions, triggers, policies and grants as they are. This brings a
// database to what they say, so that it can be compared with one that has only the migrations.
import { readdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import type pg from 'pg'
import { splitStatements } from '../../src/host/migration-plan.ts'
import { SYSTEM } from './catalog.ts'

/** For a superuser, on a database that has every migration. Tables stay as they are. */
export async function applyFiles(client: pg.Client, folder: string): Promise<void> {
  const statements = ['functions', 'policies'].flatMap(part => readStatements(join(folder, part)))
  const isGrant = ({ text }: Statement) => /^(grant|alter function)\b/.test(text)
  await client.query(FORGET)
  await client.query('set check_function_bodies = off')
  await applyInAnyOrder(
    client,
    statements.filter(one => !isGrant(one)),
  )
  await client.query(FORGET_FUNCTIONS)
  await applyInAnyOrder(client, statements.filter(isGrant))
  await client.query('reset check_function_bodies')
  // Again, so that Postgres checks each body against the others.
  const functions = statements.filter(({ text }) => text.startsWith('create or replace function'))
  await applyInAnyOrder(client, functions)
}

type Statement = { file: string; text: string }

function readStatements(folder: string): Statement[] {
  const names = readdirSync(folder).filter(name => name.endsWith('.sql'))
  return names.sort().flatMap(name => {
    const file = join(folder, name)
    return splitStatements(readFileSync(file, 'utf8')).flatMap(statement => {
      const text = statement
        .replace(/^(\s*--.*(\n|$))+/, '')
        .trim()
        .replace(/^create function/, 'create or replace function')
      return text === '' ? [] : [{ file, text }]
    })
  })
}

/** Objects that do not exist yet: a later statement may create them. */
const UNDEFINED = ['42883', '42704', '42P01']

async function applyInAnyOrder(client: pg.Client, statements: Statement[]): Promise<void> {
  const waiting: Statement[] = []
  let missing: unknown
  for (const statement of statements)
    try {
      await client.query(statement.text)
    } catch (error) {
      missing = new Error(`${statement.file}: ${(error as Error).message}\n${statement.text.slice(0, 200)}`, {
        cause: error,
      })
      if (!UNDEFINED.includes((error as { code?: string }).code ?? '')) throw missing
      waiting.push(statement)
    }
  if (waiting.length === statements.length && waiting.length > 0) throw missing
  if (waiting.length > 0) await applyInAnyOrder(client, waiting)
}

/** Removes what the files say anew. Functions stay, because tables need some of them. */
const FORGET = `
do $$
declare
  v_drop text;
begin
  for v_drop in
    select format('drop trigger %I on %s', tgname, tgrelid::regclass)
    from pg_trigger
    where not tgisinternal and tgparentid = 0
    union all
    select format('drop policy %I on %s', polname, polrelid::regclass) from pg_policy
    union all
    select format('revoke all on %s from %s', c.oid::regclass, r.rolname)
    from pg_class c
    cross join pg_roles r
    where c.relnamespace = 'public'::regnamespace and c.relkind in ('r', 'p', 'S') and r.rolname ~ '^slipway_'
    union all
    select format('alter table %s disable row level security, no force row level security', oid::regclass)
    from pg_class
    where relnamespace = 'public'::regnamespace and relkind in ('r', 'p')
    union all
    select format('drop aggregate %s', oid::regprocedure)
    from pg_proc
    where pronamespace = 'public'::regnamespace and prokind = 'a'
    union all
    select format('drop type %I cascade', t.typname)
    from pg_type t
    join pg_class c on c.oid = t.typrelid and c.relkind = 'c'
    where t.typnamespace = 'public'::regnamespace
  loop
    execute replace(v_drop, 'drop type', 'drop type if exists');
  end loop;
end $$;
create temp table functions_before as
select oid, xmin::text as version from pg_proc where pronamespace = 'public'::regnamespace`

/** Removes those that no file has, and gives the others their owner. Grants follow. */
const FORGET_FUNCTIONS = `
do $$
declare
  v_function regprocedure;
  v_is_definer boolean;
  v_owner text;
  v_role text;
begin
  for v_function in
    select p.oid
    from pg_proc p
    join functions_before b on b.oid = p.oid and b.version = p.xmin::text
  loop
    execute format('drop function %s', v_function);
  end loop;
  for v_function, v_is_definer in
    select oid, prosecdef from pg_proc where pronamespace = 'public'::regnamespace and prokind = 'f'
  loop
    v_owner := case when v_is_definer then '${SYSTEM}' else session_user end;
    execute format('alter function %s owner to %I', v_function, v_owner);
    for v_role in
      select rolname
      from pg_roles
      where rolname = session_user or (rolname ~ '^slipway_' and rolname <> '${SYSTEM}')
    loop
      execute format('revoke all on function %s from %I', v_function, v_role);
    end loop;
    execute format('grant execute on function %s to public', v_function);
    execute format('grant execute on function %s to %I', v_function, v_owner);
    if v_is_definer then execute format('revoke execute on function %s from public', v_function); end if;
  end loop;
end $$;
drop table functions_before`
