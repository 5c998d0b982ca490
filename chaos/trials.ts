// Every trial: the files r*.ts beside this one, in the order of their names.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Trial } from './support/testbed.ts'

const trialsFolder = import.meta.dirname

export async function loadTrials(): Promise<Trial[]> {
  const files = (await readdir(trialsFolder)).filter(name => /^r\d+-.*\.ts$/.test(name)).toSorted()
  return Promise.all(files.map(async file => (await import(join(trialsFolder, file))).default))
}
