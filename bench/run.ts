// `npm run bench`: runs the benches that are named, or all of them, and prints one table. It measures; it asserts nothing.
import { readdir, writeFile } from 'node:fs/promises'
import { cpus } from 'node:os'
import { join } from 'node:path'
import { chosen } from './support/chosen.ts'
import { type Bench, type Measured, openShared } from './support/lab.ts'
import { progress, table } from './support/terminal.ts'

export type Row = Pick<Bench, 'id' | 'what' | 'target'> & Partial<Measured> & { error?: string }

const here = import.meta.dirname
const everything = new AsyncDisposableStack()
let interrupted = false

async function main() {
  const benches = chosen(await all(), process.argv.slice(2), 'bench')
  const shared = openShared(everything)
  const rows: Row[] = []
  for (const { run, ...bench } of benches) {
    progress(`${bench.id}  ${bench.what}`)
    // Nested, so that an interrupt in the middle of a bench ends what the bench has started, too.
    const own = everything.use(new AsyncDisposableStack())
    const defer = (end: () => unknown) => own.defer(async () => void (await end()))
    const lab = { ...shared, defer, progress: (text: string) => progress(`${bench.id}  ${bench.what}`, text) }
    const measured = await run(lab).catch((error: Error) => ({ error: error.message }))
    if (interrupted) return
    await own.disposeAsync()
    rows.push({ ...bench, ...measured })
  }
  progress()
  console.log(table(rows))
  const machine = `${cpus().length} × ${cpus()[0]?.model.trim()}`
  const results = { at: new Date().toISOString(), node: process.version, machine, results: rows }
  await writeFile(join(here, 'results.json'), `${JSON.stringify(results, null, 2)}\n`)
  const broken = rows.filter(({ error }) => error)
  if (broken.length > 0) throw new Error(`Broken: ${broken.map(({ id, error }) => `${id}: ${error}`).join('\n')}`)
}

/** Every file p*.ts beside this one is a bench, in the order of their names. */
async function all(): Promise<Bench[]> {
  const files = (await readdir(here)).filter(name => /^p\d+-.*\.ts$/.test(name)).toSorted()
  return Promise.all(files.map(async file => (await import(join(here, file))).default))
}

for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) {
  process.once(signal, async () => {
    interrupted = true
    progress()
    await everything.disposeAsync().catch(() => {})
    process.exit(130)
  })
}

try {
  await main()
} catch (error) {
  console.error(error instanceof Error ? error.message : error)
  process.exitCode = 1
} finally {
  await everything.disposeAsync()
}
