// Which values no line or message of a deployment may hold, and the text without them.
import type { Ref } from './engines/engine.ts'
import { plain } from './last-lines.ts'
import { PatternMatcher } from './pattern-matcher.ts'
import { patternsOf } from './secret-variants.ts'

export const MASK = '********'
/** Of a deployment: those in flight, serving and draining. */
const REVISIONS = 6
/** Passwords of databases, and short-lived credentials, of which the newest count. */
const OTHERS = 60
/** Built again where they are needed again: they are much larger than the values. */
const MATCHERS = 64

type Known = { revisions: Map<string, string[]>; others: Set<string> }

export class Masks {
  readonly #always: string[]
  readonly #known = new Map<string, Known>()
  readonly #matchers = new Map<string, PatternMatcher>()

  /** `always`: what is secret whichever deployment a line is about. */
  constructor(always: string[] = []) {
    this.#always = always
  }

  /** All values of the secrets of a revision. */
  learnRevision({ deployment_id, revision_id }: Ref, values: string[]): void {
    const { revisions } = this.#of(deployment_id)
    if (revisions.has(revision_id)) return
    revisions.set(revision_id, values)
    for (const oldest of [...revisions.keys()].slice(0, -REVISIONS)) revisions.delete(oldest)
    this.#matchers.delete(deployment_id)
  }

  /** Values that a deployment was given besides. */
  learn(deployment_id: string, values: string[]): void {
    const { others } = this.#of(deployment_id)
    const fresh = values.filter(value => !others.has(value))
    if (fresh.length === 0) return
    for (const value of fresh) others.add(value)
    for (const oldest of [...others].slice(0, -OTHERS)) others.delete(oldest)
    this.#matchers.delete(deployment_id)
  }

  knows({ deployment_id, revision_id }: Ref): boolean {
    return this.#known.get(deployment_id)?.revisions.has(revision_id) ?? false
  }

  forget(deployment_id: string): void {
    this.#known.delete(deployment_id)
    this.#matchers.delete(deployment_id)
  }

  /** Without escapes of terminals, which could stand within a value. */
  mask(deployment_id: string, text: string): string {
    return this.#matcher(deployment_id).replace(plain(text), MASK)
  }

  #of(deployment_id: string): Known {
    const known = this.#known.get(deployment_id) ?? { revisions: new Map(), others: new Set() }
    this.#known.set(deployment_id, known)
    return known
  }

  #matcher(deployment_id: string): PatternMatcher {
    const { revisions = new Map<string, string[]>(), others = [] } = this.#known.get(deployment_id) ?? {}
    const made = this.#matchers.get(deployment_id)
    const matcher =
      made ?? new PatternMatcher(patternsOf([...this.#always, ...[...revisions.values()].flat(), ...others]))
    // The one that was used last is the last to go.
    this.#matchers.delete(deployment_id)
    this.#matchers.set(deployment_id, matcher)
    for (const oldest of [...this.#matchers.keys()].slice(0, -MATCHERS)) this.#matchers.delete(oldest)
    return matcher
  }
}
