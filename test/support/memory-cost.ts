// Measures how far a piece of work raises the resident memory of this process. Linux alone tells its peak.
import { existsSync, readFileSync, writeFileSync } from 'node:fs'
import { expect } from 'vitest'

const MIB = 1024 * 1024
const ALLOWED_MIB = 64
const ALLOWED_FACTOR = 4
/** Garbage of earlier work may be in the way, so a result over the budget is measured again. */
const MAX_REPEATS = 3
const CLEAR_REFS = '/proc/self/clear_refs'
const isWorker = globalThis.navigator?.userAgent === 'Cloudflare-Workers'
const canMeasure = !isWorker && existsSync(CLEAR_REFS)

/** The resident memory of the process in MiB: its peak since the last reset, and now. */
function readResident(): { peak: number; now: number } {
  const status = readFileSync('/proc/self/status', 'utf8')
  const read = (name: string) => Number(new RegExp(`^${name}:\\s*(\\d+) kB`, 'm').exec(status)![1]) / 1024
  return { peak: read('VmHWM'), now: read('VmRSS') }
}

/** Fails if the work raises it by more than 64 MiB and four times the size of the body, decompressed. */
export async function expectSmall(what: string, bytes: number, work: () => unknown): Promise<void> {
  if (!canMeasure) return void (await work())
  const budget = ALLOWED_MIB + (ALLOWED_FACTOR * bytes) / MIB
  let rise = Number.POSITIVE_INFINITY
  for (let i = 0; i < MAX_REPEATS && rise > budget; i++) {
    writeFileSync(CLEAR_REFS, '5')
    const { now } = readResident()
    await work()
    rise = readResident().peak - now
  }
  expect(rise, `${what}: ${Math.round(rise)} MiB for ${Math.ceil(bytes / 1024)} KiB`).toBeLessThanOrEqual(budget)
}
