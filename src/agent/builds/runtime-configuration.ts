// Reads the runtime configuration from the files of a source.

import { GRAPH_REFUSAL } from '../../build-plan/providers/graph.ts'
import { RuntimeConfiguration } from '../../build-plan/runtime.schema.ts'
import { describeIssue } from '../../protocol/fault-messages.ts'
import { nearestName } from '../../protocol/nearest-name.ts'
import { PermanentError } from '../engine.ts'
import { readSourceJson } from './read-json.ts'

const MAX_CONFIGURATION_KB = 256
const KNOWN = [...Object.keys(RuntimeConfiguration.shape), '$schema']
const MAX_NAMED = 10

export function readRuntimeConfiguration(folder: string, path: string): RuntimeConfiguration | undefined {
  const value = readSourceJson(folder, path, MAX_CONFIGURATION_KB)
  if (value === undefined) return undefined
  const parsed = RuntimeConfiguration.safeParse(value, { error: describeIssue })
  const unknown = Object.keys(Object(value)).filter(name => !KNOWN.includes(name))
  if (unknown.includes('graphs')) throw new PermanentError(GRAPH_REFUSAL)
  const faults = [
    ...(parsed.error?.issues ?? []).map(
      ({ path, message }) => `${path.length ? `\`${path.join('.')}\`` : 'it'} ${message}`,
    ),
    ...unknown.slice(0, MAX_NAMED).map(describeUnknown),
  ]
  if (parsed.success && faults.length === 0) return parsed.data
  throw new PermanentError(`\`${path}\` is not a valid runtime configuration: ${faults.join('; ')}. Correct the file.`)
}

function describeUnknown(name: string): string {
  const meant = nearestName(name, KNOWN)
  return `\`${name.slice(0, 100)}\` is not known${meant ? `; did you mean \`${meant}\`` : ''}`
}
