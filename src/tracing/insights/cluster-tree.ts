// Sorts summaries into trees of clusters, from the finest level to the broadest (pure).
import { askForAssignments, askForGroups, askForMerge, askForThemes, type Category } from './cluster-questions.ts'
import { type Partitions, shareSize, sizesOf } from './hierarchy.ts'
import type { RunSummary, Script } from './model-script.ts'

/** Summaries of one call. A thousand of them make about forty calls. */
const BATCH = 60
/** The limit of one batch of several, so that the categories of all fit into the call that merges them. */
const MAX_BATCH_CATEGORIES = 15

export type SummarizedRun = RunSummary & { id: string }
/** A cluster of the finest level has runs of its own, one above it those of its children. */
export type Cluster = Category & { level: number; runs: SummarizedRun[]; children: Cluster[] }
type Request = { hierarchy?: number[] | null | undefined; partitions?: Partitions | null | undefined }

export const OTHER: Category = { name: 'Other', description: 'What fits into no other cluster.' }

/** The top clusters. Undefined as long as calls are open. */
export function buildTrees(script: Script, request: Request, runs: SummarizedRun[]): Cluster[] | undefined {
  const partitions = Object.entries(request.partitions ?? {})
  const sizes = sizesOf(request.hierarchy, runs.length)
  return partitions.length > 0
    ? buildPartitions(script, partitions, sizes.slice(0, -1), runs)
    : buildLevels(script, 'all', sizes, runs)
}

/** The partitions are the top level, and the other levels are built inside each of them. */
function buildPartitions(
  script: Script,
  partitions: [name: string, description: string][],
  sizes: number[],
  runs: SummarizedRun[],
): Cluster[] | undefined {
  const parts = [...partitions.map(([name, description]) => ({ name, description })), OTHER]
    .map((category, i) => ({
      category,
      key: String(i + 1),
      runs: runs.filter(run => (run.category || partitions.length + 1) === i + 1),
    }))
    .filter(part => part.runs.length > 0)
  const counts = parts.map(part => part.runs.length)
  const shares = sizes.map(size => shareSize(size, counts))
  const inside = parts.map((part, i) =>
    sizes.length === 0
      ? []
      : buildLevels(
          script,
          part.key,
          shares.map(share => share[i]!),
          part.runs,
        ),
  )
  if (!areComplete(inside)) return undefined
  return parts.map(({ category, runs }, i) => ({ ...category, level: sizes.length, runs, children: inside[i]! }))
}

function buildLevels(script: Script, part: string, sizes: number[], runs: SummarizedRun[]): Cluster[] | undefined {
  let clusters = buildFinest(script, part, sizes[0]!, runs)
  for (let level = 1; clusters && level < sizes.length; level++)
    clusters = groupClusters(script, part, level, sizes[level]!, clusters)
  return clusters
}

function buildFinest(script: Script, part: string, size: number, runs: SummarizedRun[]): Cluster[] | undefined {
  const batches = splitIntoBatches(runs.map(({ summary }) => summary))
  const categories = findCategories(script, part, size, batches)
  if (!categories) return undefined
  const assigned = batches.map((batch, i) =>
    categories.length === 1
      ? batch.map(() => 1)
      : script.ask(`assign/${part}/${i + 1}`, context => askForAssignments(batch, categories, context)),
  )
  if (!areComplete(assigned)) return undefined
  const numbers = assigned.flat()
  return [...categories, OTHER]
    .map((category, i) => ({
      ...category,
      level: 0,
      runs: runs.filter((_, at) => (numbers[at] || categories.length + 1) === i + 1),
      children: [],
    }))
    .filter(cluster => cluster.runs.length > 0)
}

function findCategories(script: Script, part: string, size: number, batches: string[][]): Category[] | undefined {
  const isWhole = batches.length === 1
  const max = isWhole ? size : Math.min(size, MAX_BATCH_CATEGORIES)
  const found = batches.map((batch, i) =>
    script.ask(`themes/${part}/${i + 1}`, context => askForThemes(batch, max, context)),
  )
  if (!areComplete(found)) return undefined
  return isWhole ? found[0] : script.ask(`merge/${part}`, context => askForMerge(found.flat(), size, context))
}

/** A cluster that is in no group stays so. */
function groupClusters(
  script: Script,
  part: string,
  level: number,
  size: number,
  clusters: Cluster[],
): Cluster[] | undefined {
  const toParent = (category: Category, children: Cluster[]): Cluster => ({
    name: category.name,
    description: category.description,
    level,
    runs: children.flatMap(({ runs }) => runs),
    children,
  })
  if (clusters.length <= size) return clusters.map(cluster => toParent(cluster, [cluster]))
  const listed = clusters.map(({ name, description, runs }) => ({ name, description, runs: runs.length }))
  const groups = script.ask(`group/${part}/${level}`, context => askForGroups(listed, size, context))
  if (!groups) return undefined
  const inGroups = new Set(groups.flatMap(({ members }) => members))
  const rest = clusters.filter((_, i) => !inGroups.has(i + 1))
  return [
    ...groups.map(group =>
      toParent(
        group,
        group.members.map(n => clusters[n - 1]!),
      ),
    ),
    ...(rest.length > 0 ? [toParent(OTHER, rest)] : []),
  ]
}

const splitIntoBatches = (texts: string[]): string[][] =>
  Array.from({ length: Math.ceil(texts.length / BATCH) }, (_, i) => texts.slice(i * BATCH, (i + 1) * BATCH))

const areComplete = <Value>(values: (Value | undefined)[]): values is Value[] => !values.includes(undefined)
