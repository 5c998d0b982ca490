// Reads a JSON file of a source. The source is untrusted: the file may be missing, a link, or invalid.
import { PermanentError } from '../engine.ts'
import { readInside } from '../system/files.ts'

export function readSourceJson(folder: string, path: string, maxKb: number): unknown {
  const read = readInside(folder, path, maxKb * 1000)
  if (read === undefined) return undefined
  if (read.text === undefined)
    throw new PermanentError(
      read.fault === 'outside'
        ? `\`${path}\` is a link that leads out of the source. Replace it by the file itself.`
        : `\`${path}\` is not a file of at most ${maxKb} KB. Replace it, or make it smaller.`,
    )
  try {
    return JSON.parse(read.text)
  } catch (error) {
    throw new PermanentError(`\`${path}\` is not valid JSON: ${(error as Error).message}.`)
  }
}
