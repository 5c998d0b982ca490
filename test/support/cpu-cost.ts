// Measures the CPU time of a piece of work, independent of other load on the machine.
import { expect } from 'vitest'
import type * as z from 'zod'
import { Failure } from '../../src/kernel/http/errors.ts'
import { validateInput } from '../../src/kernel/http/input.ts'

const BUDGET_MS = 50
const BUDGET_BYTES = 64 * 1024
/** Other load inflates CPU time, so a result over the budget is measured again, within these limits. */
const MAX_REPEATS = 50
const MAX_TOTAL_MS = 5_000
/** However large the body, another request must not wait longer than this. */
const MAX_BUDGET_MS = 250

/** In workerd the clock stands still while code runs. The cost there is the same as on Node. */
const canMeasure = globalThis.navigator?.userAgent !== 'Cloudflare-Workers'

const readCpuMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

export const getCpuBudget = (bytes: number): number =>
  Math.min(MAX_BUDGET_MS, BUDGET_MS * Math.max(1, bytes / BUDGET_BYTES))

/** The budget of a decompressed body: it may be larger than others, and work must not grow faster than it. */
export const getRawCpuBudget = (bytes: number): number => BUDGET_MS * Math.max(1, bytes / BUDGET_BYTES)

const REFERENCE_TEXT = '[1,'.repeat(1_500_000)
/** The cost of the reference where a core has nothing else to do. */
const REFERENCE_MS = 15

function countDigits(text: string): number {
  let count = 0
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i)
    if (code > 0x30 && code <= 0x39) count++
  }
  return count
}

/** Shared machines change their speed by half from one second to the next. Known work beside the measured one tells. */
function measureSlowness(): number {
  const before = readCpuMs()
  countDigits(REFERENCE_TEXT)
  return Math.max(1, (readCpuMs() - before) / REFERENCE_MS)
}

/** The best of several runs in milliseconds, which is closest to the cost of the work alone. */
export async function measureCpu(work: () => unknown, enough = 0): Promise<number> {
  let best = Number.POSITIVE_INFINITY
  const deadline = performance.now() + MAX_TOTAL_MS
  for (let i = 0; i < MAX_REPEATS && best > enough && (i === 0 || performance.now() < deadline); i++) {
    const before = readCpuMs()
    await work()
    const cost = readCpuMs() - before
    best = Math.min(best, cost > enough ? cost / measureSlowness() : cost)
  }
  return best
}

export async function expectCheap(
  what: string,
  bytes: number,
  work: () => unknown,
  budget = getCpuBudget(bytes),
): Promise<void> {
  if (!canMeasure) return void (await work())
  const cost = await measureCpu(work, budget)
  expect(cost, `${what}: ${Math.round(cost)} ms of CPU for ${Math.ceil(bytes / 1024)} KiB`).toBeLessThanOrEqual(budget)
}

const EMPTY_REQUEST = { param: () => ({}), query: () => ({}) } as unknown as Parameters<typeof validateInput>[0]

/** Validates a body as a request does. It is synchronous, so no other work is counted. */
export function validateBody(body: z.ZodType, text: string): void {
  try {
    validateInput(EMPTY_REQUEST, { body }, text, [])
  } catch (error) {
    expect(error).toBeInstanceOf(Failure)
  }
}
