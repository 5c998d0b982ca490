// Clusters of texts by their words (pure): TF-IDF vectors, and spherical k-means that is seeded, so that a repeat finds
// the same. No model is called: texts are alike where they share rare words.

import { sha256 } from '../../kernel/crypto/digest.ts'
import type { SlicedWork } from '../../kernel/limits/background-cpu.ts'

const MAX_WORDS = 3000
const MAX_TERMS = 6000
/** The strongest terms of a text are kept. */
export const MAX_TERMS_OF_TEXT = 150
const MAX_ITERATIONS = 25
const MAX_WORD_LENGTH = 40
/** Finding a word in a map takes as long as this many multiplications. */
export const WORD_COST = 50
/** The first centroids are chosen by chance, so the best of several attempts is taken. */
const FEW_VECTORS = 250
const ATTEMPTS_AT_FEW = 10
const ATTEMPTS_AT_MANY = 3
export const NAME_TERMS = 3
export const DESCRIPTION_TERMS = 8

/** A vector of unit length, or empty. `terms` rise. */
type Vector = { terms: Int32Array; weights: Float64Array }
type Centroid = Float64Array
export type Vocabulary = { terms: string[]; indexOf: Map<string, number>; rarity: Float64Array }

export function readWords(text: string): string[] {
  const words: string[] = []
  let read = 0
  for (const [word] of text.toLowerCase().matchAll(/\p{L}[\p{L}\p{N}]*/gu)) {
    if (read++ === MAX_WORDS) break
    if (word.length > 1 && word.length <= MAX_WORD_LENGTH && !STOP_WORDS.has(word)) words.push(word)
  }
  return words
}

/** Words of several texts, but not of all. Of few texts any word. */
export function* buildVocabulary(texts: string[][]): SlicedWork<Vocabulary> {
  const textsWith = new Map<string, number>()
  for (const words of texts) {
    for (const word of new Set(words)) textsWith.set(word, (textsWith.get(word) ?? 0) + 1)
    yield words.length * WORD_COST
  }
  const fewest = texts.length >= 10 ? 2 : 1
  const kept = [...textsWith]
    .filter(([, count]) => count >= fewest && (count < texts.length || texts.length === 1))
    .sort(([a, m], [b, n]) => n - m || (a < b ? -1 : 1))
    .slice(0, MAX_TERMS)
  return {
    terms: kept.map(([term]) => term),
    indexOf: new Map(kept.map(([term], i) => [term, i])),
    rarity: Float64Array.from(kept, ([, count]) => Math.log((1 + texts.length) / count)),
  }
}

export function toVector(words: string[], { indexOf, rarity }: Vocabulary): Vector {
  const counts = new Map<number, number>()
  for (const word of words) {
    const term = indexOf.get(word)
    if (term !== undefined) counts.set(term, (counts.get(term) ?? 0) + 1)
  }
  const weighted = [...counts]
    .map(([term, count]) => [term, (1 + Math.log(count)) * rarity[term]!] as const)
    .sort(([a, v], [b, w]) => w - v || a - b)
    .slice(0, MAX_TERMS_OF_TEXT)
    .sort(([a], [b]) => a - b)
  const length = Math.sqrt(weighted.reduce((sum, [, weight]) => sum + weight * weight, 0))
  return {
    terms: Int32Array.from(weighted, ([term]) => term),
    weights: Float64Array.from(weighted, ([, weight]) => weight / length),
  }
}

export function similarity({ terms, weights }: Vector, centroid: Centroid): number {
  let sum = 0
  for (let i = 0; i < terms.length; i++) sum += weights[i]! * centroid[terms[i]!]!
  return sum
}

/** The terms of the vectors together, of unit length. */
export function centroidOf(vectors: Vector[], size: number): Centroid {
  const sum = new Float64Array(size)
  for (const { terms, weights } of vectors) for (let i = 0; i < terms.length; i++) sum[terms[i]!]! += weights[i]!
  const length = Math.sqrt(sum.reduce((total, weight) => total + weight * weight, 0)) || 1
  return sum.map(weight => weight / length)
}

/** The strongest first. */
export function strongestTerms(centroid: Centroid, { terms }: Vocabulary, count: number): string[] {
  const indexes = [...centroid.keys()].filter(i => centroid[i]! > 0)
  return indexes
    .sort((a, b) => centroid[b]! - centroid[a]! || a - b)
    .slice(0, count)
    .map(i => terms[i]!)
}

/** Returns the number of each vector's group, from 0, of the best attempt. There may be fewer groups than asked for. */
export function* groupVectors(vectors: Vector[], count: number, size: number, seed: string): SlicedWork<number[]> {
  const random = createRandom(seed)
  const attempts = vectors.length <= FEW_VECTORS ? ATTEMPTS_AT_FEW : ATTEMPTS_AT_MANY
  let best = { groups: [] as number[], fit: -1 }
  for (let i = 0; i < attempts; i++) {
    const seeds = yield* chooseCentroids(vectors, Math.min(count, vectors.length), size, random)
    const attempt = yield* attemptGroups(vectors, seeds, size)
    if (attempt.fit > best.fit + 1e-9) best = attempt
  }
  const used = [...new Set(best.groups)].sort((a, b) => a - b)
  return best.groups.map(group => used.indexOf(group))
}

/** `fit` is the sum of how similar the vectors are to their groups. */
function* attemptGroups(
  vectors: Vector[],
  seeds: Centroid[],
  size: number,
): SlicedWork<{ groups: number[]; fit: number }> {
  const centroids = [...seeds]
  let groups: number[] = []
  for (let i = 0; i < MAX_ITERATIONS; i++) {
    const next: number[] = []
    for (const vector of vectors) {
      next.push(nearest(vector, centroids))
      yield vector.terms.length * centroids.length
    }
    if (next.every((group, at) => group === groups[at])) break
    groups = next
    for (const group of centroids.keys()) {
      const members = vectors.filter((_, at) => next[at] === group)
      if (members.length > 0) centroids[group] = centroidOf(members, size)
      yield vectors.length + members.length * MAX_TERMS_OF_TEXT + size
    }
  }
  const fit = vectors.reduce((sum, vector, i) => sum + similarity(vector, centroids[groups[i]!]!), 0)
  return { groups, fit }
}

export function nearest(vector: Vector, centroids: Centroid[]): number {
  let best = 0
  let highest = -1
  for (let i = 0; i < centroids.length; i++) {
    const value = similarity(vector, centroids[i]!)
    if (value > highest) {
      highest = value
      best = i
    }
  }
  return best
}

/** Chooses by k-means++: the next one is likely to be far from those before. */
function* chooseCentroids(
  vectors: Vector[],
  count: number,
  size: number,
  random: () => number,
): SlicedWork<Centroid[]> {
  const chosen = [centroidOf([vectors[Math.floor(random() * vectors.length)]!], size)]
  const distances = new Float64Array(vectors.length).fill(1)
  while (chosen.length < count) {
    for (const [i, vector] of vectors.entries())
      distances[i] = Math.min(distances[i]!, Math.max(0, 1 - similarity(vector, chosen.at(-1)!)))
    yield vectors.length * MAX_TERMS_OF_TEXT
    const total = distances.reduce((sum, distance) => sum + distance * distance, 0)
    if (total < 1e-9) break
    let left = random() * total
    let next = distances.length - 1
    for (let i = 0; i < distances.length; i++) {
      left -= distances[i]! ** 2
      if (left <= 0) {
        next = i
        break
      }
    }
    chosen.push(centroidOf([vectors[next]!], size))
  }
  return chosen
}

/** Returns numbers from 0 to 1, the same ones for the same seed. */
function createRandom(seed: string): () => number {
  let round = 0
  return () => sha256().update(`${seed} ${round++}`).digest().readUIntBE(0, 6) / 2 ** 48
}

// ---- words that do not say what a text is about

const ENGLISH = `
a about after again all also am an and any are as at be because been before being below between both but by can cannot
could did do does doing don down during each few for from further get got had has have having he her here hers him his
how i if in into is it its just let like ll me more most my need no nor not now of off on once only or other our out
over own please re same she should so some such than thank thanks that the their them then there these they this those
through to too under until up us use very was we were what when where which while who whom why will with would you your
yours
`
/** Words in the JSON of messages. */
const OF_MESSAGES = 'assistant content false human ai null role system text tool true type user'

const STOP_WORDS: ReadonlySet<string> = new Set(`${ENGLISH} ${OF_MESSAGES}`.trim().split(/\s+/))
