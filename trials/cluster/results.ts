// What a trial found: a line for each check, and a count at the end.
export class Results {
  #passed = 0
  #failed = 0
  #skipped = 0

  /** Runs a check. What it throws is printed, and the trial goes on. */
  async check(name: string, run: () => Promise<unknown> | unknown): Promise<boolean> {
    const start = performance.now()
    try {
      const result = await run()
      const note = typeof result === 'string' ? result : null
      this.#passed++
      const seconds = ((performance.now() - start) / 1000).toFixed(1)
      console.log(`passed  ${name} (${[note, `${seconds} s`].filter(Boolean).join(', ')})`)
      return true
    } catch (error) {
      this.#failed++
      console.log(`FAILED  ${name}\n        ${error instanceof Error ? error.message : String(error)}`)
      return false
    }
  }
  skip(name: string, reason: string): void {
    this.#skipped++
    console.log(`skipped ${name}: ${reason}`)
  }
  /** Prints the count, and returns whether nothing failed. */
  finish(): boolean {
    console.log(`${this.#passed} passed, ${this.#failed} failed, ${this.#skipped} skipped`)
    return this.#failed === 0
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
  seconds = 60,
): Promise<T> {
  const deadline = Date.now() + seconds * 1000
  for (;;) {
    const result = await check()
    if (result) return result
    if (Date.now() > deadline) throw new Error(`Timed out after ${seconds} s, waiting until ${what}.`)
    await new Promise(resolve => setTimeout(resolve, 200))
  }
}
