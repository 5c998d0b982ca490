// The clusters of texts on all levels, with their names (pure). The finest level groups the texts, each level above the
// clusters below it.

import { derivedUuid } from '../../kernel/crypto/digest.ts'
import type { SlicedWork } from '../../kernel/limits/background-cpu.ts'
import { type Partitions, sizesOf } from './hierarchy.ts'
import {
  buildVocabulary,
  centroidOf,
  DESCRIPTION_TERMS,
  groupVectors,
  MAX_TERMS_OF_TEXT,
  NAME_TERMS,
  nearest,
  readWords,
  similarity,
  strongestTerms,
  toVector,
  WORD_COST,
} from './lexical-clusters.ts'

export type TextCluster = { id: string; parent_id: string | null; level: number; name: string; description: string }
/** `clusterOf` has the finest cluster of each text. */
export type TextTree = { clusters: TextCluster[]; clusterOf: string[] }
type Node = { cluster: TextCluster; texts: number[] }

const OTHER = { name: 'Other', description: 'Shares no words with the others.' }

/** `seed` decides ids and choices. `partitions` are the broadest level, if they are given. */
export function* buildTextTree(
  texts: string[],
  seed: string,
  hierarchy: number[] | null,
  partitions: Partitions | null,
): SlicedWork<TextTree> {
  const words: string[][] = []
  for (const text of texts) {
    words.push(readWords(text))
    yield text.length + words.at(-1)!.length * WORD_COST
  }
  const vocabulary = yield* buildVocabulary(words)
  const size = vocabulary.terms.length
  const vectors: ReturnType<typeof toVector>[] = []
  for (const list of words) {
    vectors.push(toVector(list, vocabulary))
    yield list.length * WORD_COST
  }
  const idOf = (level: number, name: string) => derivedUuid(`cluster ${seed} ${level} ${name}`)
  const centroidOfTexts = (list: number[]) =>
    centroidOf(
      list.map(i => vectors[i]!),
      size,
    )
  /** The cost of adding up its vectors, and of sorting the terms. */
  const costOfNode = (list: number[]) => list.length * MAX_TERMS_OF_TEXT + size * WORD_COST
  const toNode = (level: number, index: number, list: number[]): Node => {
    const terms = strongestTerms(centroidOfTexts(list), vocabulary, DESCRIPTION_TERMS)
    const named = terms.length > 0
    const name = named ? terms.slice(0, NAME_TERMS).join(', ') : OTHER.name
    const description = named ? `Frequent words: ${terms.join(', ')}.` : OTHER.description
    return {
      cluster: { id: idOf(level, String(index)), parent_id: null, level, name, description },
      texts: list,
    }
  }
  type Item = { vector: ReturnType<typeof toVector>; texts: number[] }
  function* group(level: number, items: Item[], count: number): SlicedWork<number[][]> {
    const usable = items.filter(({ vector }) => vector.terms.length > 0)
    const rest = items.filter(({ vector }) => vector.terms.length === 0)
    const numbers =
      usable.length > 0
        ? yield* groupVectors(
            usable.map(({ vector }) => vector),
            count,
            size,
            `${seed} ${level}`,
          )
        : []
    const lists = Array.from({ length: Math.max(0, ...numbers.map(n => n + 1)) }, (_, n) =>
      usable.filter((_, i) => numbers[i] === n).flatMap(item => item.texts),
    )
    return [...lists, rest.flatMap(item => item.texts)].filter(list => list.length > 0)
  }

  const sizes = sizesOf(hierarchy, texts.length)
  const own = partitions ? sizes.slice(0, -1) : sizes
  let nodes: Node[] = []
  const levels: Node[][] = []
  for (const [level, count] of own.entries()) {
    const items: Item[] = level === 0 ? vectors.map((vector, i) => ({ vector, texts: [i] })) : []
    if (level > 0)
      for (const { texts: list } of nodes) {
        items.push({ vector: toSparse(centroidOfTexts(list)), texts: list })
        yield costOfNode(list)
      }
    const next: Node[] = []
    for (const [index, list] of (yield* group(level, items, count)).entries()) {
      next.push(toNode(level, index, list))
      yield costOfNode(list)
    }
    setParents(nodes, next)
    levels.push(next)
    nodes = next
  }
  if (partitions) {
    const level = own.length
    const given = Object.entries(partitions).map(([name, description]) => ({
      centroid: centroidOf([toVector(readWords(`${name} ${description}`), vocabulary)], size),
      node: { cluster: { id: idOf(level, name), parent_id: null, level, name, description }, texts: [] } as Node,
    }))
    const other: Node = { cluster: { id: idOf(level, ''), parent_id: null, level, ...OTHER }, texts: [] }
    const centroids = given.map(({ centroid }) => centroid)
    const partitionOf = (list: number[]): Node => {
      const vector = toSparse(centroidOfTexts(list))
      const best = nearest(vector, centroids)
      return centroids[best] && similarity(vector, centroids[best]) > 0 ? given[best]!.node : other
    }
    for (const { cluster, texts: list } of nodes) {
      yield costOfNode(list) + size * centroids.length
      const parent = partitionOf(list)
      parent.texts.push(...list)
      cluster.parent_id = parent.cluster.id
    }
    // The texts are in the partitions themselves if there is no level below.
    if (own.length === 0)
      for (const i of texts.keys()) {
        partitionOf([i]).texts.push(i)
        yield costOfNode([i]) + size * centroids.length
      }
    levels.push([...given.map(({ node }) => node), other].filter(({ texts: list }) => list.length > 0))
  }
  const clusterOf: string[] = []
  for (const { cluster, texts: list } of levels[0]!) for (const i of list) clusterOf[i] = cluster.id
  return { clusters: levels.flat().map(({ cluster }) => cluster), clusterOf }
}

/** A cluster is part of the one above that has its texts. */
function setParents(below: Node[], above: Node[]): void {
  const parentOf = new Map(above.flatMap(({ cluster, texts }) => texts.map(i => [i, cluster.id] as const)))
  for (const { cluster, texts } of below) cluster.parent_id = parentOf.get(texts[0]!)!
}

function toSparse(centroid: Float64Array) {
  const terms = Int32Array.from([...centroid.keys()].filter(i => centroid[i]! > 0))
  return { terms, weights: Float64Array.from(terms, i => centroid[i]!) }
}
