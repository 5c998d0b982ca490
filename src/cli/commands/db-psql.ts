// `slipway db psql`, and `slipway db NAME`: psql in the database of a deployment.
import { withDatabase } from '../database.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { splitProgram } from '../flags.ts'
import { runProgram } from '../forward.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] [options...]',
  summary: 'open psql in the database of a deployment',
  description: 'Opens the psql of this machine in the database of a deployment. Write options of psql after --.',
}

export async function run(session: Session, _: object, args: (string | undefined)[]): Promise<void> {
  const [[name, ...rest], options] = splitProgram(args)
  if (rest.length > 0)
    throw usageError('Write -- before the options of psql.', `slipway db ${name} -- ${rest.join(' ')}`)
  await withDatabase(session, name, ['psql'], async forward => {
    process.exitCode = await runProgram(['psql', ...options], forward)
  })
}
