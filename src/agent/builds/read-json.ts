// A JSON file of a source, which is not ours: it may be missing, anything else than a file, or wrong.
import { PermanentError } from '../engines/engine.ts'
import { readInside } from '../system/files.ts'

/** Undefined where there is none. */
export function readSourceJson(folder: string, path: string, largestKb: number): unknown {
  const read = readInside(folder, path, largestKb * 1000)
  if (read === undefined) return undefined
  if (read.text === undefined)
    throw new PermanentError(
      read.fault === 'outside'
        ? `\`${path}\` leads out of the source: put the file itself there.`
        : `\`${path}\` is not a file of at most ${largestKb} KB.`,
    )
  try {
    return JSON.parse(read.text)
  } catch (error) {
    throw new PermanentError(`\`${path}\` is not JSON: ${(error as Error).message}.`)
  }
}
