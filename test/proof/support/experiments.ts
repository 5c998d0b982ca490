// Benches and trials of faults: the files of a folder, each with one experiment as its default export.
import { readdir } from 'node:fs/promises'
import { join } from 'node:path'

const PROOF = join(import.meta.dirname, '..')

/** In the order of their ids. */
export async function loadExperiments<One extends { id: string }>(folder: 'bench' | 'faults'): Promise<One[]> {
  const files = (await readdir(join(PROOF, folder)))
    .filter(name => name.endsWith('.ts') && name !== 'run.ts')
    .toSorted()
  const all: One[] = await Promise.all(files.map(async file => (await import(join(PROOF, folder, file))).default))
  return all.toSorted((a, b) => parseInt(a.id.slice(1), 10) - parseInt(b.id.slice(1), 10))
}
