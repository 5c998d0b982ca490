// What a bench works with: its measurements, what it shares with the others, and the end of all that it starts.
import { type BenchDatabase, openDatabase } from './database.ts'
import { openSeededDatabase, ROWS, type SeededDatabase } from './seeded-database.ts'
import { showProgress } from './terminal.ts'
import { type BuiltWorker, buildWorker } from './workerd.ts'

export type Measurement = {
  /** As the table shows it. */
  measured: string
  met: boolean
  /** Not measured, for a reason in the notes. */
  skipped?: boolean
  /** Beneath the table, a line each. */
  notes?: string[]
  /** For results.json. */
  figures?: Record<string, unknown>
}

export type Bench = {
  id: string
  what: string
  target: string
  run(lab: BenchContext): Promise<Measurement>
}

export type BenchContext = {
  /** Ends with the bench, however that ends. */
  defer(end: () => unknown): void
  progress(text: string): void
  /** The Worker as it is deployed; built once for all. */
  worker(): Promise<BuiltWorker>
  /** Migrated, with one tenant and the gateway over it; one for all. */
  database(): Promise<BenchDatabase>
  /** With BENCH_ROWS deployments over a thousand tenants, a tenth in one; one for all. */
  seeded(): Promise<SeededDatabase>
}

/** What all benches share is made by the first that asks, and ends with the run. */
export function openSharedResources(run: AsyncDisposableStack) {
  const once = <T>(make: () => Promise<T>) => {
    let made: Promise<T> | undefined
    return () => {
      made ??= make()
      return made
    }
  }
  const defer = (end: () => unknown) => run.defer(async () => void (await end()))
  const database = once(() => openDatabase({ defer }))
  const seeding = (text: string) => showProgress('seeded database', text)
  const size = { tenants: 1000, deployments: ROWS }
  return {
    worker: once(() => buildWorker({ defer }, 'src/worker.ts')),
    database,
    seeded: once(async () => openSeededDatabase({ defer }, await database(), size, seeding)),
  }
}
