// `slipway db dump`: writes the database of a deployment into a file of pg_dump.
import { dumpInto, newDumpName, withDatabase } from '../database.ts'
import type { Declaration } from '../declaration.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment]',
  summary: 'write the database of a deployment into a file',
  description: 'Writes the database of a deployment into a file of pg_dump, in its custom format, at one moment.',
  options: command => command.option('-o, --output <file>', 'the file. Default: the name and the time'),
}

export async function run(session: Session, { output }: { output?: string }, [name]: [string?]): Promise<void> {
  await withDatabase(session, name, ['psql', 'pg_dump'], async (forward, deployment) => {
    const file = output ?? newDumpName(deployment.name)
    await dumpInto(forward, file)
    session.out.emit({ type: 'dumped', file }, () => `Wrote ${file}.`)
  })
}
