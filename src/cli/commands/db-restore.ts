// `slipway db restore`: replaces the tables of a database by those of a file, in one transaction.
import { open } from 'node:fs/promises'
import { dumpInto, newDumpName, runTool, withDatabase } from '../database.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { confirm, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <file>',
  summary: 'read a file of pg_dump into the database of a deployment',
  description:
    'Reads a file of pg_dump (its custom format, or SQL) into the database of a deployment, in one transaction. ' +
    'Objects of the same names are replaced, if the file is of the custom format. A dump of what was there is kept ' +
    'first.',
}

/** The beginning of a file in the custom format. */
const MAGIC = 'PGDMP'

export async function run(session: Session, _: object, [name, file]: [string | undefined, string]): Promise<void> {
  const isCustom = (await readBeginning(file)) === MAGIC
  await withDatabase(session, name, ['psql', 'pg_dump', 'pg_restore'], async (forward, deployment) => {
    const question = `Read ${file} into the database of ${deployment.name}? Tables of the same names are replaced.`
    await confirm(session, question, `slipway db restore ${deployment.name} ${file} --yes`)
    const kept = newDumpName(deployment.name, '-before-restore')
    await dumpInto(forward, kept)
    session.out.note(`The database as it was is in ${kept}.`)
    const { PGDATABASE } = forward.variables
    const safely = [
      '--no-owner',
      '--no-privileges',
      '--single-transaction',
      '--exit-on-error',
      '--clean',
      '--if-exists',
    ]
    await (isCustom
      ? runTool(forward, ['pg_restore', ...safely, `--dbname=${PGDATABASE}`, file])
      : runTool(forward, [
          'psql',
          '--no-psqlrc',
          '--quiet',
          '--single-transaction',
          '--set=ON_ERROR_STOP=1',
          `--file=${file}`,
        ]))
    session.out.emit({ type: 'restored', file, kept }, () => `Restored ${deployment.name} from ${file}.`)
  })
}

async function readBeginning(file: string): Promise<string> {
  const handle = await open(file).catch(() => {
    throw usageError(`${file} cannot be read.`)
  })
  const { buffer, bytesRead } = await handle.read(Buffer.alloc(MAGIC.length)).finally(() => handle.close())
  return buffer.toString('latin1', 0, bytesRead)
}
