// `slipway env unset`: removes variables.
import type { Declaration } from '../declaration.ts'
import { type FollowFlags, withFollow } from '../flags.ts'
import type { Session } from '../session.ts'
import { changeVariables, readDeployment } from '../variables.ts'

export const declaration: Declaration = {
  arguments: '[deployment] <names...>',
  summary: 'remove some',
  options: withFollow,
}

export async function run(
  session: Session,
  flags: FollowFlags,
  [name, ...variables]: [string | undefined, ...string[]],
): Promise<void> {
  await changeVariables(session, ['unset', ...variables], await readDeployment(session, name), {}, variables, flags)
}
