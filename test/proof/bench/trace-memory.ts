// P23: the memory of a Node instance while it takes a thousand runs of 10 KB a second, and the CPU time of a batch.
import { setTimeout as delay } from 'node:timers/promises'
import type { RunOperation } from '../../../src/tracing/store/store.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { CPU_TIMES_MISSING, hasCpuTimes } from '../support/cpu.ts'
import { makeTenant } from '../support/database.ts'
import { startInstance } from '../support/instance.ts'
import { formatNumber, median } from '../support/statistics.ts'
import { makeOperations } from '../support/trace-operations.ts'

/** At 10 KB a run. */
const [BATCH, BYTES, RUNS_PER_SECOND, SECONDS, WARM_UP_SECONDS] = [100, 10_000, 1000, 12, 3]
const TARGET_MB = 512

export default {
  id: 'P23',
  what: `memory of a Node instance at ${RUNS_PER_SECOND} runs of 10 KB a second; CPU of a batch of ${BATCH}`,
  target: `≤ ${TARGET_MB} MB`,
  async run(context: BenchContext) {
    if (!hasCpuTimes) return CPU_TIMES_MISSING
    const { url } = await context.database()
    const { api_key } = await makeTenant(url, { organization: 'Bench', workspace: 'Traces' })
    const instance = await startInstance(context, url)
    const idle = instance.memory().now
    const durations: number[] = []
    const samples: number[] = []
    let [stored, refused] = [0, 0]

    const sendBatch = async (): Promise<void> => {
      const body = toBatch(makeOperations(BATCH, BYTES))
      const start = performance.now()
      const response = await fetch(`${instance.url}/runs/batch`, {
        method: 'POST',
        headers: { 'X-Api-Key': api_key, 'Content-Type': 'application/json' },
        body,
      })
      await response.arrayBuffer()
      if (response.status === 202) stored += BATCH
      else refused += BATCH
      durations.push(performance.now() - start)
      samples.push(instance.memory().now)
    }
    /** Sends at the rate whether or not earlier batches were answered, as many clients would. */
    const sendFor = async (seconds: number): Promise<void> => {
      const sent: Promise<void>[] = []
      const start = performance.now()
      for (let i = 0; i < (seconds * RUNS_PER_SECOND) / BATCH; i++) {
        await delay(Math.max(0, start + (i * 1000 * BATCH) / RUNS_PER_SECOND - performance.now()))
        sent.push(sendBatch())
      }
      await Promise.all(sent)
    }

    context.progress('warming up')
    await sendFor(WARM_UP_SECONDS)
    durations.length = samples.length = stored = refused = 0
    context.progress(`${SECONDS} s`)
    const [cpu, start] = [instance.cpuMs(), performance.now()]
    await sendFor(SECONDS)
    const seconds = (performance.now() - start) / 1000
    const cpuOfBatch = (instance.cpuMs() - cpu) / ((stored + refused) / BATCH)
    const { peak } = instance.memory()
    const p99 = durations.toSorted((a, b) => a - b)[Math.floor(durations.length * 0.99)]!
    return {
      measured: `${Math.round(peak)} MB; ${formatNumber(cpuOfBatch, 1)} ms`,
      met: peak <= TARGET_MB && refused === 0,
      notes: [
        `idle ${Math.round(idle)} MB, median under load ${Math.round(median(samples))} MB, peak ${Math.round(peak)} MB`,
        `${Math.round(stored / seconds)} runs a second stored, ${refused} refused`,
        `a batch takes ${formatNumber(median(durations), 0)} ms, p99 ${formatNumber(p99, 0)} ms`,
      ],
      figures: { idle, peak, samples, cpu_ms_of_batch: cpuOfBatch, durations, stored, refused },
    }
  },
} satisfies Bench

const PAYLOADS = ['inputs', 'outputs', 'extra'] as const

/** The body of `POST /runs/batch`, as a client writes it. */
function toBatch(operations: RunOperation[]): string {
  const toWire = ({ kind: _, loc: __, ...run }: RunOperation) => ({
    ...run,
    ...Object.fromEntries(PAYLOADS.flatMap(name => (run[name] ? [[name, JSON.parse(run[name])]] : []))),
  })
  const ofKind = (kind: RunOperation['kind']) => operations.filter(one => one.kind === kind).map(toWire)
  return JSON.stringify({ post: ofKind('post'), patch: ofKind('patch') })
}
