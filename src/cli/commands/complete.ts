// `slipway __complete`: the candidates for the last word of a command line, one a line.
import type { Command, Option } from 'commander'
import type { Declaration } from '../declaration.ts'
import { createProgram, declareAll, pathOf } from '../program.ts'
import { findDeployment, findRevision, openSession, type Session, takeItems } from '../session.ts'
import { SCRIPTS } from './completion.ts'

export const declaration: Declaration = { arguments: '[words...]', summary: '' }

/** Slow networks need more. */
const DEADLINE_MS = Number(process.env.SLIPWAY_COMPLETION_MS) || 1000
const MAX_CANDIDATES = 100
/** Bash types a candidate as it is, so one with `$(` of a server would run when the person presses Enter. */
const IS_PLAIN = /^[\w@%+:,./-]+$/

/** A shell waits for the answer, so there is none rather than a late one or an error. */
export async function run({ signal }: Session, _: object, words: string[]): Promise<void> {
  const deadline = AbortSignal.timeout(DEADLINE_MS)
  const typed = words.at(-1) ?? ''
  const session = openSession({ isSilent: true }, deadline)
  const place = await findPlace(createProgram(signal), words)
  const candidates = await findCandidates(session, place, typed).catch(() => [])
  const matching = candidates.filter(one => one.startsWith(typed) && IS_PLAIN.test(one))
  if (matching.length > 0) process.stdout.write(`${matching.join('\n')}\n`)
  process.exitCode = 0
}

const STATUSES = ['AWAITING_DATABASE', 'READY', 'UNUSED', 'AWAITING_DELETE', 'UNKNOWN']
const LEVELS = ['debug', 'info', 'warning', 'error', 'critical']

async function findCandidates(session: Session, place: Place, typed: string): Promise<string[]> {
  if ('candidates' in place) return place.candidates
  const { kind, given, command } = place
  const of = given[0]
  if (command.startsWith('env ') && (kind === 'name' || kind === 'names')) return listVariables(session, of)
  if (kind === 'deployment' || (kind === 'name' && ['deploy', 'plan', 'preview'].includes(command)))
    return listDeployments(session, typed)
  if (['revision', 'before', 'after'].includes(kind)) return listRevisions(session, of)
  if (command === 'list' && kind === 'status') return STATUSES
  if (command === 'logs' && kind === 'level') return LEVELS
  return kind === 'shell' ? Object.keys(SCRIPTS) : []
}

async function listDeployments({ client, signal }: Session, typed: string): Promise<string[]> {
  const query = { limit: MAX_CANDIDATES, ...(typed && { name_contains: typed }) }
  const [found] = await takeItems(client.list('GET /v2/deployments', { query, signal }), MAX_CANDIDATES)
  return found.map(({ name }) => name)
}

async function listRevisions(session: Session, name: string | undefined): Promise<string[]> {
  const { number } = await findRevision(session, await findDeployment(session, name))
  return Array.from({ length: Math.min(number, MAX_CANDIDATES) }, (_, i) => String(number - i))
}

async function listVariables(session: Session, name: string | undefined): Promise<string[]> {
  const { secrets, secret_references } = await findDeployment(session, name)
  return [...secrets, ...(secret_references ?? [])].map(({ name }) => name)
}

/** `kind` is the name of an argument or of an option's value; `given` are the arguments before it. */
type Place = { candidates: string[] } | { kind: string; given: string[]; command: string }

/** The last word is the one that is typed. */
async function findPlace(program: Command, words: string[]): Promise<Place> {
  const typed = words.at(-1) ?? ''
  let command = program
  let option: Option | undefined
  const given: string[] = []
  for (const word of words.slice(0, -1)) {
    if (option) {
      option = undefined
      continue
    }
    if (word.startsWith('-')) {
      option = optionsOf(command).find(one => [one.short, one.long].includes(word) && one.required)
      continue
    }
    const next: Command | undefined = visible(command).find(one => one.name() === word)
    if (next) {
      command = next
      if (command.commands.length === 0) await declareAll(command)
    } else given.push(word)
  }
  const path = pathOf(command)
  if (option) return { kind: option.attributeName(), given, command: path }
  if (typed.startsWith('-')) return { candidates: optionsOf(command).flatMap(({ long }) => long ?? []) }
  if (command.commands.length > 0) return { candidates: visible(command).map(one => one.name()) }
  const last = command.registeredArguments.at(-1)
  const argument = command.registeredArguments[given.length] ?? (last?.variadic ? last : undefined)
  return { kind: argument?.name() ?? '', given, command: path }
}

const visible = (command: Command) => command.createHelp().visibleCommands(command)
const optionsOf = (command: Command): Option[] => [...command.options, ...(command.parent?.options ?? [])]
