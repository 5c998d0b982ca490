// Every trial: the files r*.ts beside this one, in the order of their names.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'
import type { Trial } from './support/lab.ts'

const here = import.meta.dirname

export async function trials(): Promise<Trial[]> {
  const files = (await readdir(here)).filter(name => /^r\d+-.*\.ts$/.test(name)).toSorted()
  return Promise.all(files.map(async file => (await import(join(here, file))).default))
}
