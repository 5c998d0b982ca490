// Bounds the values that one request makes this process look at or build. Bytes do not bound them: 64 KiB of gzip
// become 22 million empty lists, which take gigabytes and tens of seconds.
import { checkJson, type JsonFault } from '../json/json-check.ts'

/**
 * Clients of traces send at most 20 MiB in one request. Of vectors in full precision these are 1.5 million numbers, of
 * token ids 4 million. Such payloads stay texts.
 */
const MAX_LOOKED_AT = 5_000_000
/** A value that is parsed into an object or a list takes five times as long, and up to 72 bytes of memory. */
const BUILT = 5

/** All texts of one request share a budget: its body, its parts, and what is JSON within an attribute. */
export class ValueBudget {
  #left: number

  constructor(values = MAX_LOOKED_AT) {
    this.#left = values
  }

  /** Counts values of another format than JSON. Returns false if the budget has no room for them. */
  take(values: number): boolean {
    this.#left -= values
    return this.#left >= 0
  }

  /** Counts the values of a text that is not parsed. */
  check(text: string, maxDepth: number): JsonFault | null {
    const { fault, seen } = checkJson(text, { maxDepth, maxValues: Math.max(0, this.#left) })
    this.#left -= seen
    return fault
  }

  /** Counts the values of a text that `JSON.parse` gets next. One that does not fit takes nothing from the budget. */
  checkBeforeParse(text: string, maxDepth: number): JsonFault | null {
    const { fault, seen } = checkJson(text, { maxDepth, maxValues: Math.max(0, this.#left / BUILT) })
    if (fault === null) this.#left -= seen * BUILT
    return fault
  }
}
