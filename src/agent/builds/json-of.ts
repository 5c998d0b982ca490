// A JSON file of a source, which is not ours: it may be missing, anything else than a file, or wrong.
import * as fs from 'node:fs'
import { join, sep } from 'node:path'
import { Unworkable } from '../engines/engine.ts'

/** Undefined where there is none. */
export function jsonOf(folder: string, path: string, largestKb: number): unknown {
  let file: string
  try {
    file = fs.realpathSync(join(folder, path))
  } catch {
    return undefined
  }
  // A link may lead to what is ours, or to what never ends; and so may whatever a command has put there.
  if (!file.startsWith(fs.realpathSync(folder) + sep))
    throw new Unworkable(`\`${path}\` leads out of the source: put the file itself there.`)
  const stat = fs.statSync(file)
  if (!stat.isFile() || stat.size > largestKb * 1000)
    throw new Unworkable(`\`${path}\` is not a file of at most ${largestKb} KB.`)
  try {
    return JSON.parse(fs.readFileSync(file, 'utf8'))
  } catch (error) {
    throw new Unworkable(`\`${path}\` is not JSON: ${(error as Error).message}.`)
  }
}
