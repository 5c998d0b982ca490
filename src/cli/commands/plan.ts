// `slipway plan`: what a deploy would change.
import { showPlan } from '../change.ts'
import { findComposeFile } from '../compose/find-compose.ts'
import type { Declaration } from '../declaration.ts'
import {
  findTarget,
  openSource,
  planCreation,
  planPatch,
  type SourceFlags,
  showBuildPlan,
  withSource,
} from '../deploy-plan.ts'
import { EXIT } from '../failure.ts'
import type { Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[folder]',
  summary: 'show what a deploy would change',
  options: command => withSource(command).option('--exit-code', 'exit with 10 if there are changes'),
}

type Flags = SourceFlags & { exitCode?: boolean }

/** Uploads a folder, because a plan names the archive. An archive that no revision uses is deleted after a day. */
export async function run(session: Session, options: Flags, [folder]: [string?]): Promise<void> {
  const compose = findComposeFile(folder ?? '.', options)
  if (compose !== undefined) {
    const { planCompose } = await import('../compose/deploy-compose.ts')
    return planCompose(session, compose, options)
  }
  const source = await openSource(session, folder, options)
  const target = await findTarget(session, source, options.name, true)
  await showBuildPlan(session, source, target)
  const { name, deployment } = target
  const { plan } = deployment
    ? await planPatch(session, source, deployment, options)
    : await planCreation(session, source, name, options)
  showPlan(session, plan)
  if (options.exitCode && (plan.changes.length > 0 || plan.creates_revision)) process.exitCode = EXIT.hasChanges
}
