// Reads the runtime configuration out of the files of a source.
import * as fs from 'node:fs'
import { join, sep } from 'node:path'
import { Unworkable } from '../engines/engine.ts'
import { RuntimeConfiguration } from '../runtime.schema.ts'

const LARGEST = 256 * 1024

/** Undefined where the source has no such file. */
export function configurationAt(folder: string, path: string): RuntimeConfiguration | undefined {
  let file: string
  try {
    file = fs.realpathSync(join(folder, path))
  } catch {
    return undefined
  }
  // A link in the source may lead to what is ours.
  if (!file.startsWith(fs.realpathSync(folder) + sep))
    throw new Unworkable(`\`${path}\` leads out of the source: put the file itself there.`)
  const stat = fs.statSync(file)
  if (!stat.isFile() || stat.size > LARGEST)
    throw new Unworkable(`\`${path}\` is not a file of at most ${LARGEST / 1024} KB.`)
  let value: unknown
  try {
    value = JSON.parse(fs.readFileSync(file, 'utf8'))
  } catch (error) {
    throw new Unworkable(`\`${path}\` is not JSON: ${(error as Error).message}.`)
  }
  const parsed = RuntimeConfiguration.safeParse(value)
  if (parsed.success) return parsed.data
  const faults = parsed.error.issues.map(
    ({ path, message }) => `${path.length ? `\`${path.join('.')}\`` : 'it'} ${message}`,
  )
  throw new Unworkable(`\`${path}\` does not fit the runtime configuration: ${faults.join('; ')}.`)
}
