// `slipway env import`: adds and replaces the variables of a file. Variables that it does not name stay.
import { readFileSync } from 'node:fs'
import { parseEnvFile } from '../../client/env-file.ts'
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { type FollowFlags, withFollow } from '../flags.ts'
import { readStdin } from '../secret-input.ts'
import type { Session } from '../session.ts'
import { changeVariables, readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <file>',
  summary: 'add or replace those of a .env file, or - for stdin',
  options: withFollow,
}

export async function run(session: Session, flags: FollowFlags, [name, file]: [string | undefined, string]) {
  const text = file === '-' ? await readStdin() : readFileSync(file, 'utf8')
  const values = parseEnvFile(text)
  if (Object.keys(values).length === 0) throw usageError(`${file} has no lines of the form NAME=value.`)
  await changeVariables(session, ['import', file], await readDeployment(session, name), values, [], flags)
}
