// The result of a bench, and its context: resources that all benches share, and a cleanup of its own.
import { type BenchDatabase, openDatabase } from './database.ts'
import type { DatasetOptions } from './dataset.ts'
import { openClickHouse, type SeededClickHouse } from './seeded-clickhouse.ts'
import { type LargeDatabase, openLargeDatabase, openSeededDatabase, type SeededDatabase } from './seeded-database.ts'
import { openEvents, type SeededEvents } from './seeded-events.ts'
import { openTraces, type SeededTraces } from './seeded-traces.ts'
import { type BuiltWorker, buildWorker } from './workerd.ts'

const FEW_DEPLOYMENTS = 10_000

export type Measurement = {
  /** The table's cell. */
  measured: string
  met: boolean
  /** Not measured, for a reason in the notes. */
  skipped?: boolean
  /** Lines below the row. */
  notes?: string[]
  /** Goes into the file of results. */
  figures?: Record<string, unknown>
}

export type Bench = {
  id: string
  what: string
  target: string
  /** Another program on the machine does not change it. */
  isCount?: boolean
  run(context: BenchContext): Promise<Measurement>
}

export type BenchContext = {
  /** Runs when the bench ends, also when it fails. */
  defer(end: () => unknown): void
  progress(text: string): void
  /** The Worker as it is deployed. */
  worker(): Promise<BuiltWorker>
  /** Migrated, with one tenant and a gateway. A bench may write to it. */
  database(): Promise<BenchDatabase>
  /** Ten thousand, a tenth of them in one tenant, on the same server. */
  fewDeployments(): Promise<SeededDatabase>
  /** The datasets are read-only. BENCH_ROWS deployments of a thousand tenants, a tenth of them in one. */
  deployments(): Promise<LargeDatabase>
  /** A workspace of BENCH_EVENTS events and one of a thousand. */
  events(): Promise<SeededEvents>
  /** BENCH_RUNS runs in Postgres. */
  traces(): Promise<SeededTraces>
  /** The same in ClickHouse. Rejects where it cannot be installed. */
  clickHouse(): Promise<SeededClickHouse>
}

/** Each is created when the first bench needs it, and ends with the run. `onPrepared` gets the time that it took. */
export function openSharedResources(
  run: AsyncDisposableStack,
  options: DatasetOptions,
  onPrepared: (ms: number) => void,
) {
  let isPreparing = false
  /** One may be made for another. */
  const makeTimed = async <T>(make: () => Promise<T>): Promise<T> => {
    if (isPreparing) return make()
    isPreparing = true
    const start = performance.now()
    return make().finally(() => {
      isPreparing = false
      onPrepared(performance.now() - start)
    })
  }
  const once = <T>(make: () => Promise<T>) => {
    let resource: Promise<T> | undefined
    return () => {
      resource ??= makeTimed(make)
      return resource
    }
  }
  const defer = (end: () => unknown) => run.defer(async () => void (await end()))
  const database = once(() => openDatabase({ defer }))
  return {
    worker: once(() => buildWorker({ defer }, 'src/host/workers.ts')),
    database,
    fewDeployments: once(async () =>
      openSeededDatabase({ defer }, await database(), { tenants: 10, deployments: FEW_DEPLOYMENTS }),
    ),
    deployments: once(() => openLargeDatabase({ defer }, options)),
    events: once(() => openEvents({ defer }, options)),
    traces: once(() => openTraces({ defer }, options)),
    clickHouse: once(() => openClickHouse({ defer }, options)),
  }
}
