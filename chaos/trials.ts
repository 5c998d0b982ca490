// All trials: the files r*.ts beside this one.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Trial } from './support/testbed.ts'

const trialsFolder = import.meta.dirname

export async function loadTrials(): Promise<Trial[]> {
  const files = (await readdir(trialsFolder)).filter(name => /^r\d+-.*\.ts$/.test(name)).toSorted()
  return Promise.all(files.map(async file => (await import(join(trialsFolder, file))).default))
}
