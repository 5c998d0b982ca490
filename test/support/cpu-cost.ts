// What a piece of work costs in CPU time, whoever else uses the machine.
import { expect } from 'vitest'
import type * as z from 'zod'
import { Failure } from '../../src/kernel/errors.ts'
import { validateInput } from '../../src/kernel/input.ts'

const BUDGET_MS = 50
const BUDGET_BYTES = 64 * 1024
/** Neighbours inflate CPU time: a result over the budget is measured again, within this time. */
const MAX_REPEATS = 50
const MAX_TOTAL_MS = 5_000
/** The longest that another request may have to wait, however large the body. */
const MAX_BUDGET_MS = 250

/** In workerd no clock moves while it computes: there the cost is that of Node. */
const canMeasure = globalThis.navigator?.userAgent !== 'Cloudflare-Workers'

const readCpuMs = () => {
  const { user, system } = process.cpuUsage()
  return (user + system) / 1000
}

export const getCpuBudget = (bytes: number): number =>
  Math.min(MAX_BUDGET_MS, BUDGET_MS * Math.max(1, bytes / BUDGET_BYTES))

/**
 * Milliseconds that the work takes in this process; of several runs the best, so that only the work itself is
 * counted.
 */
export async function measureCpu(work: () => unknown, enough = 0): Promise<number> {
  let best = Number.POSITIVE_INFINITY
  const deadline = performance.now() + MAX_TOTAL_MS
  for (let i = 0; i < MAX_REPEATS && best > enough && (i === 0 || performance.now() < deadline); i++) {
    const before = readCpuMs()
    await work()
    best = Math.min(best, readCpuMs() - before)
  }
  return best
}

/** Fails where handling so many bytes holds a processor for longer than they may. */
export async function expectCheap(what: string, bytes: number, work: () => unknown): Promise<void> {
  if (!canMeasure) return void (await work())
  const most = getCpuBudget(bytes)
  const cost = await measureCpu(work, most)
  expect(cost, `${what}: ${Math.round(cost)} ms of CPU for ${Math.ceil(bytes / 1024)} KiB`).toBeLessThanOrEqual(most)
}

const EMPTY_REQUEST = { param: () => ({}), query: () => ({}) } as unknown as Parameters<typeof validateInput>[0]

/** Validates a body as a request does. It never waits, so nothing else runs meanwhile and is counted. */
export function validateBody(body: z.ZodType, text: string): void {
  try {
    validateInput(EMPTY_REQUEST, { body }, text, [])
  } catch (error) {
    expect(error).toBeInstanceOf(Failure)
  }
}
