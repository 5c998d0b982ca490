// `slipway diff`: what differs between two revisions of a deployment.
import { compareRevisions, describeRevisions, showChanges } from '../comparison.ts'
import { CommandFailure, EXIT, usageError } from '../failure.ts'
import { type Deployment, findDeployment, findRevision, type Session } from '../session.ts'

export type DiffOptions = { exitCode?: boolean }

export async function showDifference(session: Session, words: string[], options: DiffOptions): Promise<void> {
  const { out } = session
  const { name, before, after } = readWords(words)
  const deployment = await findDeployment(session, name)
  const comparison = await compareRevisions(
    session,
    deployment.id,
    await chooseRevisions(session, deployment, before, after),
  )
  out.emit({ type: 'comparison', ...comparison })
  if (!out.isMachine) {
    const { before, after, changes } = comparison
    out.raw(describeRevisions(session, deployment, comparison).join('\n'))
    showChanges(session, changes)
    if (before.id === after.id) out.text('These are the same revision.')
    else if (changes.length === 0) out.text('Their configurations and secrets are the same.')
  }
  if (options.exitCode && comparison.changes.length > 0) process.exitCode = EXIT.hasChanges
}

/** Numbers alone are revisions of the linked deployment. */
function readWords(words: string[]): {
  name?: string | undefined
  before?: string | undefined
  after?: string | undefined
} {
  const [first, second, third] = words
  if (third === undefined && first !== undefined && /^\d+$/.test(first)) return { before: first, after: second }
  return { name: first, before: second, after: third }
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
  const serving = active_revision_id
  const next = `slipway revisions ${name}`
  if (serving === null) throw usageError(`No revision of ${name} serves. Give two revisions to compare.`, next)
  if (before !== undefined) return [await find(before), serving]
  if (latest_revision_id !== null) return [serving, latest_revision_id]
  throw new CommandFailure(EXIT.failed, 'revision_not_found', `${name} has no revision yet.`, next)
}
