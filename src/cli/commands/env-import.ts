// `slipway env import`: adds and replaces the variables of a file. Variables that it does not name stay.
import type { Declaration } from '../declaration.ts'
import { readEnvFile } from '../environment-flags.ts'
import { type FollowFlags, withFollow } from '../flags.ts'
import type { Session } from '../session.ts'
import { changeVariables, readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <file>',
  summary: 'add or replace those of a .env file, or - for stdin',
  options: withFollow,
}

export async function run(session: Session, flags: FollowFlags, [name, file]: [string | undefined, string]) {
  const values = await readEnvFile(session, file)
  await changeVariables(session, ['import', file], await readDeployment(session, name), values, [], flags)
}
