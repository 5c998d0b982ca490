// Failures of a command: what is wrong, the next command, and the exit code.
import { ApiError, ConnectionError } from '../client/errors.ts'

export const EXIT = {
  done: 0,
  failed: 1,
  usage: 2,
  timedOut: 3,
  notSignedIn: 4,
  stalePlan: 5,
  hasChanges: 10,
  interrupted: 130,
} as const
type ExitCode = (typeof EXIT)[keyof typeof EXIT]

export type FailureReport = {
  code: string
  message: string
  request_id?: string | undefined
  errors?: { loc: (string | number)[]; msg: string }[]
  /** The last lines in the log of a revision that failed. */
  last_lines?: string[] | undefined
  next?: string | undefined
}

export class CommandFailure extends Error {
  readonly exitCode: ExitCode
  readonly code: string
  readonly next: string | undefined
  readonly lastLines: string[] | undefined
  readonly errors: FailureReport['errors']
  constructor(
    exitCode: ExitCode,
    code: string,
    message: string,
    next?: string,
    lastLines?: string[],
    errors?: FailureReport['errors'],
  ) {
    super(message)
    this.lastLines = lastLines
    this.errors = errors
    this.exitCode = exitCode
    this.code = code
    this.next = next
  }
}

/** A word of a next command, as a shell reads it: people and programs run that command as it is. */
export const shellWord = (text: string): string =>
  /^[\w@%+=:,./-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`

export const usageError = (message: string, next?: string) => new CommandFailure(EXIT.usage, 'usage', message, next)

const NEXT: Record<string, string> = {
  deployment_name_taken: 'slipway deploy --name NAME',
  archive_too_large: 'slipway deploy --dry-run',
  provider_id_conflict: 'slipway providers list',
  registration_unsupported: 'slipway providers discover URL --client-id ID --client-secret',
  listener_exists: 'slipway listeners list',
  listener_in_use: 'slipway list',
  role_not_found: 'slipway api GET /orgs/current/roles',
  audit_logs_off: 'slipway events',
  workspace_required: 'slipway whoami',
  plan_stale: 'Run the command again to see the new plan.',
}

/** Replaces messages of the API about headers, which a person does not set here. */
const MESSAGES: Record<string, string> = {
  workspace_required: 'This key belongs to the organization. Set SLIPWAY_WORKSPACE to the id of a workspace.',
}

export function toReport(error: unknown): { report: FailureReport; exitCode: ExitCode } {
  if (error instanceof CommandFailure) {
    const { exitCode, code, message, next, lastLines, errors } = error
    const report = { code, message, next, ...(lastLines && { last_lines: lastLines }), ...(errors && { errors }) }
    return { exitCode, report }
  }
  if (error instanceof ApiError) {
    const { code, requestId: request_id, errors } = error
    const message = MESSAGES[code] ?? error.message
    const isSignIn = error.status === 401
    const exitCode = isSignIn ? EXIT.notSignedIn : code === 'plan_stale' ? EXIT.stalePlan : EXIT.failed
    const next = isSignIn ? 'slipway login' : NEXT[code]
    return { exitCode, report: { code, message, request_id, ...(errors.length > 0 && { errors }), next } }
  }
  if (error instanceof ConnectionError)
    return { exitCode: EXIT.failed, report: { code: 'no_connection', message: error.message, next: 'slipway whoami' } }
  const { message, code, path } = error as NodeJS.ErrnoException
  if (code === 'ENOENT' && path)
    return { exitCode: EXIT.usage, report: { code: 'usage', message: `There is no file ${path}.` } }
  if (error instanceof TypeError && code === undefined) {
    const meant = `The server answered with something that this version of slipway does not understand: ${message}.`
    return { exitCode: EXIT.failed, report: { code: 'unexpected', message: meant, next: 'slipway doctor' } }
  }
  return { exitCode: EXIT.failed, report: { code: code ?? 'unexpected', message } }
}
