// The largest disk that a deployment may ask for: no disk can have more than its file system.
import * as fs from 'node:fs'

const GIB = 1024 ** 3

/** `set`: by the operator. Null: the agent does not see the file system. */
export function largestDisk(set: number | null, folder: string): number | null {
  if (set !== null) return set
  try {
    const { blocks, bsize } = fs.statfsSync(folder)
    return Math.max(1, Math.floor((blocks * bsize) / GIB))
  } catch {
    return null
  }
}
