// Checks of this trial: each runs to its end, and one that fails does not end the trial.
import { failed, PATIENCE_MS, passed, skipped } from '../../support/trial.ts'

export class Results {
  /** An error that it throws is the fault; a text that it returns is printed. */
  async check(name: string, run: () => Promise<unknown>): Promise<boolean> {
    const start = performance.now()
    try {
      const result = await run()
      const seconds = `${((performance.now() - start) / 1000).toFixed(1)} s`
      passed(`${name} (${typeof result === 'string' ? `${result}, ` : ''}${seconds})`)
      return true
    } catch (error) {
      failed(`${name}: ${error instanceof Error ? error.message : String(error)}`)
      return false
    }
  }
  skip(name: string, reason: string): void {
    skipped(`${name}: ${reason}`)
  }
}

export function expect(condition: unknown, message: string): asserts condition {
  if (!condition) throw new Error(message)
}
export function expectEqual(actual: unknown, expected: unknown, what: string): void {
  const [got, wanted] = [JSON.stringify(actual), JSON.stringify(expected)]
  if (got !== wanted) throw new Error(`${what}: expected ${wanted}, got ${got}`)
}

/** Polls until `check` returns something true. */
export async function waitUntil<T>(
  what: string,
  check: () => Promise<T | false | null | undefined> | T | false | null | undefined,
): Promise<T> {
  const deadline = Date.now() + PATIENCE_MS
  for (;;) {
    const result = await check()
    if (result) return result
    if (Date.now() > deadline) throw new Error(`Timed out, waiting until ${what}.`)
    await new Promise(resolve => setTimeout(resolve, 200))
  }
}
