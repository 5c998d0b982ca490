// What a bench returns, and what it works with: resources that all benches share, and a cleanup of its own.
import { type BenchDatabase, openDatabase } from './database.ts'
import { openSeededDatabase, ROWS, type SeededDatabase } from './seeded-database.ts'
import { showProgress } from './terminal.ts'
import { type BuiltWorker, buildWorker } from './workerd.ts'

export type Measurement = {
  /** The table's cell. */
  measured: string
  met: boolean
  /** Not measured, for a reason in the notes. */
  skipped?: boolean
  /** Lines below the row. */
  notes?: string[]
  /** Goes into results.json. */
  figures?: Record<string, unknown>
}

export type Bench = {
  id: string
  what: string
  target: string
  run(context: BenchContext): Promise<Measurement>
}

export type BenchContext = {
  /** Runs when the bench ends, also when it fails. */
  defer(end: () => unknown): void
  progress(text: string): void
  /** The Worker as it is deployed. */
  worker(): Promise<BuiltWorker>
  /** Migrated, with one tenant and a gateway. */
  database(): Promise<BenchDatabase>
  /** BENCH_ROWS deployments of a thousand tenants, a tenth of them in one. */
  seeded(): Promise<SeededDatabase>
}

/** Each is created when the first bench needs it, and ends with the run. */
export function openSharedResources(run: AsyncDisposableStack) {
  const once = <T>(make: () => Promise<T>) => {
    let resource: Promise<T> | undefined
    return () => {
      resource ??= make()
      return resource
    }
  }
  const defer = (end: () => unknown) => run.defer(async () => void (await end()))
  const database = once(() => openDatabase({ defer }))
  const showSeeding = (text: string) => showProgress('seeded database', text)
  const size = { tenants: 1000, deployments: ROWS }
  return {
    worker: once(() => buildWorker({ defer }, 'src/worker.ts')),
    database,
    seeded: once(async () => openSeededDatabase({ defer }, await database(), size, showSeeding)),
  }
}
