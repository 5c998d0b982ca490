// `npm run bench`: runs the benches that are named, or all of them, and prints one table. It measures; it asserts nothing.
import { readdir } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { chosen } from './support/chosen.ts'
import { type Bench, openShared } from './support/lab.ts'
import { inTurn, program, report } from './support/run.ts'

const here = import.meta.dirname

/** Every file p*.ts beside this one is a bench, in the order of their names. */
async function all(): Promise<Bench[]> {
  const files = (await readdir(here)).filter(name => /^p\d+-.*\.ts$/.test(name)).toSorted()
  return Promise.all(files.map(async file => (await import(join(here, file))).default))
}

await program(async everything => {
  const shared = openShared(everything)
  const benches = chosen(await all(), process.argv.slice(2), 'bench')
  const rows = await inTurn(benches, turn => ({ ...shared, ...turn }))
  await report(here, rows, { machine: `${cpus().length} × ${cpus()[0]?.model.trim()}` })
  const broken = rows.filter(({ error }) => error)
  if (broken.length > 0) throw new Error(`Broken: ${broken.map(({ id, error }) => `${id}: ${error}`).join('\n')}`)
})
