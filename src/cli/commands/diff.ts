// `slipway diff`: what differs between two revisions of a deployment, or what `slipway apply -f` would change.
import { listWrites } from '../../client/apply/apply.ts'
import { compareRevisions, describeRevisions, showChanges } from '../comparison.ts'
import type { Declaration } from '../declaration.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { type DocumentFlags, withDocuments } from '../flags.ts'
import { type Deployment, findDeployment, findRevision, type Session } from '../session.ts'

export const declaration: Declaration = {
  arguments: '[deployment] [before] [after]',
  summary: 'show what differs between two revisions, or what -f would change',
  description:
    'show what differs between two revisions, by number or id: by default, from the one that serves to the latest',
  options: command => withDocuments(command.option('--exit-code', 'exit with 10 if there are differences')),
}

type Flags = DocumentFlags & { exitCode?: boolean }

export async function run(session: Session, flags: Flags, words: string[]): Promise<void> {
  const hasChanges = await (flags.file ? showApplyDiff(session, flags) : showDifference(session, words))
  if (flags.exitCode && hasChanges) process.exitCode = EXIT.hasChanges
}

async function showApplyDiff(session: Session, flags: DocumentFlags): Promise<boolean> {
  const { makePlan, showPlan } = await import('../document-plan.ts')
  const plan = await makePlan(session, flags)
  showPlan(session, plan)
  return listWrites(plan).length > 0
}

async function showDifference(session: Session, words: string[]): Promise<boolean> {
  const { out } = session
  // Numbers alone are revisions of the linked deployment.
  const isLinked = words.length < 3 && /^\d+$/.test(words[0] ?? '')
  const [name, before, after] = isLinked ? [undefined, ...words] : words
  const deployment = await findDeployment(session, name)
  const chosen = await chooseRevisions(session, deployment, before, after)
  const comparison = await compareRevisions(session, deployment.id, chosen)
  out.emit({ type: 'comparison', ...comparison })
  if (!out.isMachine) {
    const { before, after, changes } = comparison
    out.raw(describeRevisions(session, deployment, comparison).join('\n'))
    showChanges(session, changes)
    if (before.id === after.id) out.text('These are the same revision.')
    else if (changes.length === 0) out.text('Their configurations and secrets are the same.')
  }
  return comparison.changes.length > 0
}

async function chooseRevisions(
  session: Session,
  deployment: Deployment,
  before: string | undefined,
  after: string | undefined,
): Promise<[string, string]> {
  const { name, active_revision_id, latest_revision_id } = deployment
  const find = async (wanted: string) => (await findRevision(session, deployment, wanted)).id
  if (before !== undefined && after !== undefined) return Promise.all([find(before), find(after)])
  const next = `slipway revisions ${name}`
  if (active_revision_id === null)
    throw usageError(`No revision of ${name} serves. Give two revisions to compare.`, next)
  if (before !== undefined) return [await find(before), active_revision_id]
  if (latest_revision_id !== null) return [active_revision_id, latest_revision_id]
  throw new CommandFailure(EXIT.failed, 'revision_not_found', `${name} has no revision yet.`, next)
}
