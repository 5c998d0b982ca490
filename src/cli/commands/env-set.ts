// `slipway env set`: adds or replaces one variable.
import type { Declaration } from '../declaration.ts'
import { usageError } from '../failure.ts'
import { type FollowFlags, withFollow } from '../flags.ts'
import { readHidden, readStdin } from '../secret-input.ts'
import type { Session } from '../session.ts'
import { changeVariables, readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <name>',
  summary: 'set one, read from stdin or a hidden prompt',
  options: withFollow,
}

/** Reads no value from the arguments, because a shell keeps them in its history. */
export async function run(session: Session, flags: FollowFlags, [name, variable]: [string | undefined, string]) {
  if (variable.includes('='))
    throw usageError('Give the name only. The value is read from standard input or a hidden prompt.')
  const value = session.out.isInteractive
    ? await readHidden(`Value of ${variable}: `)
    : (await readStdin()).replace(/\r?\n$/, '')
  if (value === '') throw usageError(`The value of ${variable} is empty. To store an empty value, import a .env file.`)
  const read = await readDeployment(session, name)
  await changeVariables(session, ['set', variable], read, { [variable]: value }, [], flags)
}
