// `slipway init`: prepares a folder for its first deploy. Writes files that are missing, and creates nothing remote.
import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { CONFIGURATION } from '../../client/archive-rules.ts'
import { listFiles } from '../archive.ts'
import type { Declaration } from '../declaration.ts'
import { shellWord, usageError } from '../failure.ts'
import { exampleStart, showBuildPlan, tryToPlan } from '../folder-plan.ts'
import { requireFolder, suggestName } from '../folder-source.ts'
import { ask, type Deployment, findByName, findDeployment, type Session } from '../session.ts'
import { type Link, readLink, writeLink } from '../settings.ts'

export const declaration: Declaration = {
  arguments: '[folder]',
  summary: 'prepare a folder for its first deploy, and create nothing elsewhere',
  options: command =>
    command
      .option('--start <command>', 'what starts the application, for a folder that does not say so')
      .option('--name <name>', 'link the folder to this deployment'),
}

type Flags = { start?: string; name?: string }

const IGNORE_FILE = '.slipwayignore'
const IGNORED_FOLDERS = ['coverage', '.idea', '.vscode']
/** Patterns of files that folders often hold and no build needs. */
const CANDIDATES: { pattern: string; isMatch: (name: string) => boolean }[] = [
  { pattern: '*.log', isMatch: name => name.endsWith('.log') },
  ...IGNORED_FOLDERS.map(folder => ({ pattern: `${folder}/`, isMatch: (name: string) => name === `${folder}/` })),
]
/** The names of the folders on the path, each with a slash, and of the file. */
const namesOf = (path: string): string[] => path.split(/(?<=\/)/)

export async function run(session: Session, options: Flags, [given]: [string?]): Promise<void> {
  const { out } = session
  const folder = requireFolder(given ?? '.')
  const files = listFiles(folder)
  if (files.length === 0)
    throw usageError(`${folder} is empty. To begin with an application, deploy a template.`, 'slipway templates')
  const written: string[] = []
  const write = (name: string, content: string) => {
    writeFileSync(join(folder, name), content, { flag: 'wx' })
    written.push(name)
    out.note(`Wrote ${name}`)
  }
  const start = await findStartCommand(session, { folder, files }, options)
  const linked = await findLink(session, folder, options)
  if (start) write(CONFIGURATION, `${JSON.stringify({ start_command: start }, null, 2)}\n`)
  const names = new Set(files.flatMap(namesOf))
  const ignored = CANDIDATES.filter(({ isMatch }) => [...names].some(isMatch)).map(({ pattern }) => pattern)
  if (ignored.length > 0 && !files.includes(IGNORE_FILE)) write(IGNORE_FILE, `${ignored.join('\n')}\n`)
  if (linked) writeLink(folder, linked)
  const next = `slipway deploy${given === undefined ? '' : ` ${shellWord(given)}`}`
  out.emit(
    { type: 'result', outcome: 'prepared', folder, written, deployment: linked?.name ?? null, next },
    () => `${linked ? `Linked to ${linked.name}. ` : ''}Ready. Deploy it with: ${next}`,
  )
}

/** Undefined if the folder says itself how it starts. */
type Listed = { folder: string; files: string[] }
async function findStartCommand(session: Session, { folder, files }: Listed, { start }: Flags) {
  const { out, signal } = session
  const hasConfiguration = existsSync(join(folder, CONFIGURATION))
  if (start !== undefined && hasConfiguration)
    throw usageError(`${CONFIGURATION} is there already, and is not overwritten. Set start_command in it.`)
  if (start !== undefined || hasConfiguration) return start
  const outcome = tryToPlan(folder, { files })
  if ('plan' in outcome) {
    showBuildPlan(session, outcome.plan)
    return undefined
  }
  const { message, remedy } = outcome.refusal
  if (!remedy.lacksStart) throw usageError(message)
  if (out.isInteractive) out.note(message)
  const example = exampleStart(files)
  const answer = out.isInteractive ? await ask(`What starts the application? For example ${example}: `, signal) : ''
  if (answer) return answer
  throw usageError(message, `slipway init --start ${shellWord(example)}`)
}

/** The deployment to link to: the one that is named, or on a terminal one that has the name of the folder. */
async function findLink(session: Session, folder: string, { name }: Flags): Promise<Link | undefined> {
  const { out, signal } = session
  const present = readLink(folder)
  if (present && name !== undefined && name !== present.name)
    throw usageError(`This folder is linked to ${present.name}.`, 'slipway unlink')
  if (present || (name === undefined && !out.isInteractive)) return undefined
  const deployment = name === undefined ? await findNamesake(session, folder) : await findDeployment(session, name)
  if (deployment && deployment.source !== 'internal_source') {
    if (name === undefined) return undefined
    throw usageError(`${name} is deployed from ${deployment.source}, not from a folder.`, 'slipway list')
  }
  if (!deployment) return undefined
  const question = `The deployment ${deployment.name} exists. Link this folder to it? [y/N] `
  if (name === undefined && !/^y(es)?$/i.test(await ask(question, signal))) return undefined
  return { url: session.client.url, deployment_id: deployment.id, name: deployment.name }
}

/** A folder can be prepared before its owner signs in, and without a network. */
const findNamesake = (session: Session, folder: string): Promise<Deployment | undefined> =>
  Promise.resolve()
    .then(() => findByName(session, suggestName(folder)))
    .catch(() => {
      session.signal.throwIfAborted()
      return undefined
    })
