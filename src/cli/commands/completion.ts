// `slipway completion` prints a shell's script, which asks `slipway __complete` for candidates.
import type { Command } from 'commander'
import { findPlace, type Place } from '../completion.ts'
import { usageError } from '../failure.ts'
import { findDeployment, findRevision, openSession, type Session, takeItems } from '../session.ts'

const BASH = `_slipway() {
  local IFS=$'\\n'
  COMPREPLY=($("\${COMP_WORDS[0]}" __complete -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null </dev/null))
}
complete -o default -F _slipway slipway`

const ZSH = `_slipway() {
  local -a found
  found=(\${(f)"$("\${words[1]}" __complete -- "\${(@)words[2,CURRENT]}" 2>/dev/null </dev/null)"})
  if (( \${#found} )); then compadd -a found; else _files; fi
}
(( \${+functions[compdef]} )) || { autoload -Uz compinit && compinit }
compdef _slipway slipway`

const FISH = `function __slipway_complete
  set -l words (commandline -opc) (commandline -ct)
  set -l found ($words[1] __complete -- $words[2..-1] 2>/dev/null </dev/null)
  if test (count $found) -gt 0
    printf '%s\\n' $found
  else
    __fish_complete_path (commandline -ct)
  end
end
complete -c slipway -f -a '(__slipway_complete)'`

const SCRIPTS: Record<string, string> = { bash: BASH, zsh: ZSH, fish: FISH }

export function printCompletion(shell: string): void {
  const script = SCRIPTS[shell]
  if (!script) throw usageError(`${shell} is not one of the shells ${Object.keys(SCRIPTS).join(', ')}.`)
  process.stdout.write(`${script}\n`)
}

/** Slow networks need more. */
const DEADLINE_MS = Number(process.env.SLIPWAY_COMPLETION_MS) || 1000
const MAX_CANDIDATES = 100
/** Bash types a candidate as it is, so one with `$(` of a server would run when the person presses Enter. */
const IS_PLAIN = /^[\w@%+:,./-]+$/

/** A shell waits for the answer, so there is none rather than a late one or an error. */
export async function complete(program: Command, words: string[]): Promise<void> {
  const deadline = AbortSignal.timeout(DEADLINE_MS)
  const typed = words.at(-1) ?? ''
  const session = openSession({ isSilent: true }, deadline)
  const candidates = await findCandidates(session, findPlace(program, words), typed).catch(() => [])
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
  if (kind === 'deployment' || (kind === 'name' && ['deploy', 'plan'].includes(command)))
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
