// Masks the secrets of each deployment in texts.
import type { RevisionRef } from '../engine.ts'
import { stripControlCharacters } from '../system/last-lines.ts'
import { PatternMatcher } from './pattern-matcher.ts'
import { derivePatterns } from './secret-variants.ts'

export const MASK = '********'
const MAX_REVISIONS = 6
/** Database passwords and short-lived credentials; the newest are kept. */
const MAX_OTHER_VALUES = 60
/** Tokens that are renewed every few minutes. Older ones have expired. */
const MAX_SHORT_LIVED = 4
/** A matcher is much larger than its values, so only the most recently used are kept. */
const MAX_MATCHERS = 64

const strippedLength = (text: string, end: number) => stripControlCharacters(text.slice(0, end)).length

type DeploymentSecrets = { revisions: Map<string, string[]>; others: Set<string>; shortLived: string[] }

export class SecretMasks {
  readonly #globalValues: string[]
  readonly #deployments = new Map<string, DeploymentSecrets>()
  readonly #matchers = new Map<string, PatternMatcher>()

  constructor(globalValues: string[] = []) {
    this.#globalValues = globalValues
  }

  addRevision({ deployment_id, revision_id }: RevisionRef, values: string[]): void {
    const { revisions } = this.#secretsOf(deployment_id)
    if (revisions.has(revision_id)) return
    revisions.set(revision_id, values)
    for (const oldest of [...revisions.keys()].slice(0, -MAX_REVISIONS)) revisions.delete(oldest)
    this.#matchers.delete(deployment_id)
  }

  addValues(deployment_id: string, values: string[]): void {
    const { others } = this.#secretsOf(deployment_id)
    const fresh = values.filter(value => !others.has(value))
    if (fresh.length === 0) return
    for (const value of fresh) others.add(value)
    for (const oldest of [...others].slice(0, -MAX_OTHER_VALUES)) others.delete(oldest)
    this.#matchers.delete(deployment_id)
  }

  /** Keeps these apart from the other secrets, which they would displace. */
  addShortLived(deployment_id: string, value: string): void {
    const secrets = this.#secretsOf(deployment_id)
    if (secrets.shortLived.includes(value)) return
    secrets.shortLived = [...secrets.shortLived, value].slice(-MAX_SHORT_LIVED)
    this.#matchers.delete(deployment_id)
  }

  hasRevision({ deployment_id, revision_id }: RevisionRef): boolean {
    return this.#deployments.get(deployment_id)?.revisions.has(revision_id) ?? false
  }

  forget(deployment_id: string): void {
    this.#deployments.delete(deployment_id)
    this.#matchers.delete(deployment_id)
  }

  /** Returns the text after `from`. Terminal escapes are removed first, because they could split a value. */
  mask(deployment_id: string, text: string, from = 0): string {
    return this.#matcher(deployment_id).replace(stripControlCharacters(text), MASK, strippedLength(text, from))
  }

  /** The length of an unfinished line that can be shown without a part of a secret that is not recognised yet. */
  settledLength(deployment_id: string, unfinished: string): number {
    // Half of a surrogate pair matches nothing.
    const text = unfinished.replace(/[\ud800-\udbff]$/, '')
    const stripped = stripControlCharacters(text)
    const settled = this.#matcher(deployment_id).settledLength(stripped)
    if (stripped.length === text.length) return settled
    // The shortest beginning of the text that has so many characters: it does not end within a terminal escape.
    let [low, high] = [settled, text.length]
    while (low < high) {
      const middle = (low + high) >> 1
      if (strippedLength(text, middle) < settled) low = middle + 1
      else high = middle
    }
    return low
  }

  #secretsOf(deployment_id: string): DeploymentSecrets {
    const secrets = this.#deployments.get(deployment_id) ?? { revisions: new Map(), others: new Set(), shortLived: [] }
    this.#deployments.set(deployment_id, secrets)
    return secrets
  }

  #matcher(deployment_id: string): PatternMatcher {
    const {
      revisions = new Map<string, string[]>(),
      others = [],
      shortLived = [],
    } = this.#deployments.get(deployment_id) ?? {}
    const values = [...this.#globalValues, ...[...revisions.values()].flat(), ...others, ...shortLived]
    const matcher = this.#matchers.get(deployment_id) ?? new PatternMatcher(derivePatterns(values))
    // Inserts it again at the end, so the least recently used matcher is evicted first.
    this.#matchers.delete(deployment_id)
    this.#matchers.set(deployment_id, matcher)
    for (const oldest of [...this.#matchers.keys()].slice(0, -MAX_MATCHERS)) this.#matchers.delete(oldest)
    return matcher
  }
}
