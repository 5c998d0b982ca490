// Reads the runtime configuration from the files of a source.

import { describeIssue } from '../../protocol/fault-messages.ts'
import { PermanentError } from '../engine.ts'
import { readSourceJson } from './read-json.ts'
import { RuntimeConfiguration } from './runtime.schema.ts'

const MAX_CONFIGURATION_KB = 256

export function readRuntimeConfiguration(folder: string, path: string): RuntimeConfiguration | undefined {
  const value = readSourceJson(folder, path, MAX_CONFIGURATION_KB)
  if (value === undefined) return undefined
  const parsed = RuntimeConfiguration.safeParse(value, { error: describeIssue })
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(
    ({ path, message }) => `${path.length ? `\`${path.join('.')}\`` : 'it'} ${message}`,
  )
  throw new PermanentError(`\`${path}\` is not a valid runtime configuration: ${faults.join('; ')}. Correct the file.`)
}
