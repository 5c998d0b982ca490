// Gives every build of an image a limit of time, and errors with the last lines of its log.
import { type BuildTask, PermanentError, type RevisionSpec } from '../engine.ts'
import type { DockerApi } from './docker-api.ts'

export type BuildJob = {
  api: DockerApi
  owner: string
  spec: RevisionSpec
  task: BuildTask
}

export const BUILD_TIMEOUT_MS = 15 * 60_000
export const BUILD_MEMORY = 4 * 1024 ** 3
const LAST_LINES = 10

export const builtImageName = ({ deployment_id }: RevisionSpec) => `slipway/${deployment_id}`

/** A signal that ends with the task or the build timeout, and errors that include the last log lines. */
export function watchBuild(task: BuildTask) {
  const timeout = AbortSignal.timeout(BUILD_TIMEOUT_MS)
  const last: string[] = []
  const log = (line: string) => {
    last.push(line)
    last.splice(0, last.length - LAST_LINES)
    task.log(line)
  }
  const failed = (cause: unknown): unknown => {
    if (task.signal.aborted) return task.signal.reason
    if (typeof cause !== 'string' && !timeout.aborted) return cause
    const message = timeout.aborted ? `The build did not end within ${BUILD_TIMEOUT_MS / 60_000} minutes.` : cause
    return new PermanentError(`${message}${last.length ? ` Its last lines:\n${last.join('\n')}` : ''}`)
  }
  return { signal: AbortSignal.any([task.signal, timeout]), log, failed }
}
