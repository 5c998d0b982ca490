// Tells a git host that is away for a moment from one that refuses, by what git printed (pure).
import { isSshUrl } from '../../protocol/ssh-url.ts'
import { PermanentError, SourceUnavailable } from '../engine.ts'
import { classifySshFailure, describeSshProblem } from './ssh-failures.ts'

const HTTP_STATUS = /returned error: (\d{3})/
const REFUSED = /Authentication failed for|could not read (?:Username|Password) for/i
/** The words of git, in small letters, about a host that does not answer or stops in the middle of an answer. */
const PASSING = [
  ...['could not connect', "couldn't connect", 'failed to connect', 'could not resolve', 'timed out', 'too slow'],
  ...['connection refused', 'connection reset', 'connection was reset', 'empty reply from server', 'early eof'],
  ...['unexpected disconnect', 'hung up unexpectedly', 'transfer closed', 'closed abruptly', 'ssl_error_syscall'],
  ...['unexpected eof', 'rpc failed'],
]
const PASSING_STATUSES = [408, 425, 429]
const REFUSALS: Record<number, string> = {
  401: 'its host refused the credential (401). Replace the token of the integration.',
  403: 'its host forbids it (403). Give the integration access to the repository.',
  404: 'its host has no such repository, or hides it from the integration (404). Correct `repo_url`, or give access.',
}

const REFUSED_BY_SSH = { host_key_changed: true, key_refused: true, repository_missing: true }
type RefusedBySsh = keyof typeof REFUSED_BY_SSH
const TOO_LARGE = 'git needs too much memory for it. It has too many branches and tags, or too large files'
const HIDDEN = 'its host hides it from the public, or has no such repository'

/** `output` is the end of what git printed, with what the host said in lines that begin with `remote:`. */
export function describeGitFailure(url: string, error: PermanentError, isAnonymous = false): Error {
  const output = error.message
  const ssh = isSshUrl(url) ? classifySshFailure(output) : null
  if (ssh === 'host_away') return new SourceUnavailable(describeSshProblem(ssh, url))
  if (ssh && ssh in REFUSED_BY_SSH) return new PermanentError(describeSshProblem(ssh as RefusedBySsh, url))
  const status = Number(HTTP_STATUS.exec(output)?.[1] ?? (REFUSED.test(output) ? 401 : Number.NaN))
  if (status >= 500 || PASSING_STATUSES.includes(status))
    return new SourceUnavailable(`The host of ${url} answers ${status}.`)
  // Git's own words: those of a host begin with `remote:`, and it lacks memory itself.
  if (/^fatal: out of memory/im.test(output))
    return new PermanentError(`The repository ${url} cannot be read: ${TOO_LARGE}.`)
  const refusal = REFUSALS[status] ?? (isMissing(output) ? REFUSALS[404] : undefined)
  if (refusal && isAnonymous) return new PermanentError(`The repository ${url} cannot be read: ${HIDDEN}.`)
  if (refusal) return new PermanentError(`The repository ${url} cannot be read: ${refusal}${hostWords(output)}`)
  const lower = output.toLowerCase()
  if (Number.isNaN(status) && PASSING.some(words => lower.includes(words)))
    return new SourceUnavailable(`The host of ${url} does not answer.`)
  return error
}

const isMissing = (output: string) => output.includes('fatal: repository ') && output.includes(' not found')

function hostWords(output: string): string {
  const words = output
    .split('\n')
    .filter(line => line.startsWith('remote: '))
    .map(line => line.slice('remote: '.length).trim())
    .filter(line => line !== '')
  return words.length > 0 ? ` The host said: ${words.join(' ')}` : ''
}
