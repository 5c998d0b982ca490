// The members of a runtime configuration that decide what is started. An agent checks the rest, and names its faults.
import type { Site } from './build-plan.ts'

export type ExplicitStart = { path: string | null; start_command: string | null; site?: Site | null }

/** Throws a SyntaxError for a text that is not JSON. */
export function readExplicitStart(path: string, text: string | null): ExplicitStart {
  if (text === null) return { path: null, start_command: null }
  const { start_command, site } = Object(JSON.parse(text))
  return {
    path,
    start_command: typeof start_command === 'string' && start_command !== '' ? start_command : null,
    site: typeof site?.folder === 'string' ? { fallback: null, ...site } : null,
  }
}
