// `slipway db reset`: empties the database of a deployment.
import { dumpInto, newDumpName, runTool, withDatabase } from '../database.ts'
import type { Declaration } from '../declaration.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'empty the database of a deployment',
  description: 'Removes all schemas, tables and large objects of the database. A dump of what was there is kept first.',
}

/** Connections and the login stay. */
const RESET = `do $$
declare
  item text;
begin
  for item in
    select nspname from pg_namespace where nspname !~ '^pg_' and nspname <> 'information_schema'
  loop
    execute format('drop schema %I cascade', item);
  end loop;
  perform lo_unlink(oid) from pg_largeobject_metadata;
  create schema public;
end
$$`

export async function run(session: Session, _: object, [name]: [string?]): Promise<void> {
  await withDatabase(session, name, ['psql', 'pg_dump'], async (forward, deployment) => {
    const question = `Empty the database of ${deployment.name}? All tables and rows are removed.`
    await confirm(session, question, `slipway db reset ${deployment.name} --yes`)
    const kept = newDumpName(deployment.name, '-before-reset')
    await dumpInto(forward, kept)
    session.out.note(`The database as it was is in ${kept}.`)
    await runTool(forward, ['psql', '--no-psqlrc', '--quiet', '--set=ON_ERROR_STOP=1', `--command=${RESET}`])
    session.out.emit({ type: 'reset', kept }, () => `Emptied the database of ${deployment.name}.`)
  })
}
