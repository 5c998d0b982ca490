// Reads the runtime configuration out of the files of a source.
import { Unworkable } from '../engines/engine.ts'
import { RuntimeConfiguration } from '../runtime.schema.ts'
import { jsonOf } from './json-of.ts'

const LARGEST_KB = 256

/** Undefined where the source has no such file. */
export function configurationAt(folder: string, path: string): RuntimeConfiguration | undefined {
  const value = jsonOf(folder, path, LARGEST_KB)
  if (value === undefined) return undefined
  const parsed = RuntimeConfiguration.safeParse(value)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(
    ({ path, message }) => `${path.length ? `\`${path.join('.')}\`` : 'it'} ${message}`,
  )
  throw new Unworkable(`\`${path}\` does not fit the runtime configuration: ${faults.join('; ')}.`)
}
