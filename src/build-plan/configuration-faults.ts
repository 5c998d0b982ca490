// The faults of a runtime configuration, as one sentence (pure). It is strict: a member that is not known is one.
import { describeIssue } from '../protocol/fault-messages.ts'
import { nearestName } from '../protocol/nearest-name.ts'
import { RuntimeConfiguration } from './runtime.schema.ts'

const KNOWN = [...Object.keys(RuntimeConfiguration.shape), '$schema']
const MAX_NAMED = 10

export function describeConfigurationFaults(path: string, value: unknown): string | null {
  const { error } = RuntimeConfiguration.safeParse(value, { error: describeIssue })
  const isObject = typeof value === 'object' && value !== null && !Array.isArray(value)
  // The file of a graph application: its plan checks it.
  if (isObject && 'graphs' in value) return null
  const unknown = isObject ? Object.keys(value).filter(name => !KNOWN.includes(name)) : []
  const faults = [
    ...(error?.issues ?? []).map(({ path, message }) => `${path.length ? `\`${path.join('.')}\`` : 'it'} ${message}`),
    ...unknown.slice(0, MAX_NAMED).map(describeUnknown),
  ]
  if (faults.length === 0) return null
  return `\`${path}\` is not a valid runtime configuration: ${faults.join('; ')}. Correct the file.`
}

function describeUnknown(name: string): string {
  const meant = nearestName(name, KNOWN)
  return `\`${name.slice(0, 100)}\` is not known${meant ? `; did you mean \`${meant}\`` : ''}`
}
