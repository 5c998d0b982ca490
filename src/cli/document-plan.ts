// The plan that makes the workspace as documents declare it, for `slipway apply` and `slipway diff -f`.
import { readFileSync } from 'node:fs'
import type { Schema } from '@cfworker/json-schema'
import { ApplyFailure, listWrites } from '../client/apply/apply.ts'
import { type DocumentFault, titleOf } from '../client/apply/documents.ts'
import { planApply } from '../client/apply/plan.ts'
import type { Action, ApplyPlan } from '../client/apply/planner.ts'
import { findWorkspace } from '../client/export.ts'
import { describeUnreadLines, parseEnvFile } from '../protocol/env-file.ts'
import { paintMark, showChanges } from './comparison.ts'
import { checkAgainstSchema } from './document-check.ts'
import { readDocumentFiles, toDeclared } from './document-files.ts'
import { CommandFailure, EXIT, shellWord, toReport, usageError } from './failure.ts'
import type { DocumentFlags } from './flags.ts'
import type { Session } from './session.ts'
import { oneLine } from './terminal-text.ts'

export async function makePlan(session: Session, flags: DocumentFlags): Promise<ApplyPlan> {
  const { client, login, signal } = session
  const files = flags.file ?? []
  if (files.length === 0) throw usageError('Name the files: -f PATH', 'slipway apply -f PATH')
  if (flags.prune && flags.owner === undefined)
    throw usageError('--prune deletes resources of an owner. Name the owner with --owner.')
  const secrets = readSecrets(flags.secretsFile ?? [])
  const { documents, faults } = await readDocumentFiles(files)
  const { reply: schema } = await client.send({ method: 'GET', path: '/schemas/slipway.json', signal })
  const all = [...faults, ...checkAgainstSchema(documents, schema as unknown as Schema)]
  if (all.length > 0) throw refuseDocuments(all)
  // An empty file is more often a mistake than the intent to delete all resources of an owner.
  if (documents.length === 0) throw usageError(`${files.join(', ')}: there is no document in it. Nothing was changed.`)
  const workspace = await findWorkspace(client, { workspace: login.workspace, signal })
  if (!workspace) throw usageError('Name the workspace: the key is of the organization.', 'SLIPWAY_WORKSPACE=ID …')
  const { owner, takeOver, prune } = flags
  const options = { workspace: workspace.id, owner, takeOver, prune, secrets, signal }
  const plan = await planApply(client, documents.map(toDeclared), options)
  if (plan.faults.length > 0) throw refuseDocuments(plan.faults)
  return plan
}

const MAX_SHOWN_FAULTS = 500

export function refuseDocuments(faults: DocumentFault[]): CommandFailure {
  const errors = faults.slice(0, MAX_SHOWN_FAULTS).map(({ file, line, document, path, message }) => ({
    loc: [[file, line].filter(part => part !== undefined).join(':'), document, path].filter(part => part !== ''),
    msg: message,
  }))
  const count = faults.length === 1 ? 'a fault' : `${faults.length} faults`
  const message = `The documents have ${count}. Nothing was changed.`
  return new CommandFailure(EXIT.failed, 'documents_invalid', message, undefined, undefined, errors)
}

function readSecrets(files: string[]): Map<string, string> {
  const values = new Map<string, string>()
  for (const file of files) {
    const text = readFileSync(file, 'utf8')
    const fault = describeUnreadLines(text)
    if (fault) throw usageError(`${file}: ${fault}`)
    for (const [name, value] of Object.entries(parseEnvFile(text))) values.set(name, value)
  }
  return values
}

const MARKS = { create: 'added', change: 'changed', delete: 'removed' } as const

export function count({ steps }: ApplyPlan): string {
  const parts = (['create', 'change', 'delete'] as const).flatMap(action => {
    const number = steps.filter(step => step.action === action).length
    return number > 0 ? [`${number} to ${action}`] : []
  })
  return parts.join(', ') || 'nothing to do'
}

export function showPlan(session: Session, plan: ApplyPlan): void {
  const { out } = session
  for (const { run: _, ...step } of plan.steps) {
    out.emit({ type: 'planned', ...step })
    if (!out.isMachine && step.action !== 'nothing') showAction(session, { ...step, action: step.action })
  }
  const number = (action: Action['action']) => plan.steps.filter(step => step.action === action).length
  const counts = { create: number('create'), change: number('change'), delete: number('delete') }
  out.emit({ type: 'plan', ...counts, unchanged: number('nothing'), plan_digest: plan.digest }, () =>
    listWrites(plan).length === 0
      ? 'The workspace is as the documents declare it.'
      : `${count(plan)}, ${number('nothing')} unchanged. Plan digest: ${plan.digest}`,
  )
}

function showAction(session: Session, step: Action & { action: keyof typeof MARKS }): void {
  const { out } = session
  out.text('')
  out.raw(`${paintMark(out, MARKS[step.action])} ${out.paint('bold', oneLine(titleOf(step)))}`)
  showChanges(session, step.changes)
  for (const { name, change } of step.secrets) out.raw(`${paintMark(out, change)} secrets.${oneLine(name)}`)
  for (const warning of step.warnings) out.text(`Warning: ${warning}`)
}

/** The next command, with the same flags. */
export function writeCommand(
  verb: string,
  { file = [], owner, prune, takeOver, secretsFile = [] }: DocumentFlags,
): string {
  const words = [
    ...file.flatMap(path => ['-f', path]),
    ...(owner === undefined ? [] : ['--owner', owner]),
    ...(prune ? ['--prune'] : []),
    ...(takeOver ? ['--take-over'] : []),
    ...secretsFile.flatMap(path => ['--secrets-file', path]),
  ]
  return ['slipway', verb, ...words].map(shellWord).join(' ')
}

/** `next`: the command that goes on. */
export function describeFailure({ out }: Session, error: unknown, next: string): unknown {
  if (!(error instanceof ApplyFailure)) return error
  const { applied, failed, left } = error
  const namesOf = (actions: Action[]) => actions.map(titleOf)
  out.emit({ type: 'partial', applied: namesOf(applied), failed: titleOf(failed), left: namesOf(left) }, () =>
    [
      `Applied: ${namesOf(applied).join(', ') || 'nothing'}.`,
      `Not applied: ${namesOf([failed, ...left]).join(', ')}.`,
    ].join('\n'),
  )
  const { report, exitCode } = toReport(error.cause)
  const message = `${titleOf(failed)}: ${report.message}`
  return new CommandFailure(exitCode, report.code, message, next, undefined, report.errors)
}
