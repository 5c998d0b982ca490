// The result of a job (pure): its clusters, where each run is, and the report.
import { derivedUuid } from '../../kernel/crypto/digest.ts'
import type { AttributeSchemas } from './attributes.schema.ts'
import { type Attributes, isKept } from './attributes.ts'
import { type ClusterStats, computeStats } from './cluster-stats.ts'
import { type Cluster, OTHER, type SummarizedRun } from './cluster-tree.ts'
import type { Partitions } from './hierarchy.ts'
import { MAX_PARTITIONS } from './jobs.schema.ts'
import type { Report, ReportCluster } from './report-question.ts'

const MAX_EXAMPLES = 60
const EXAMPLES_OF_CLUSTER = 3

type ResultCluster = {
  id: string
  parent_id: string | null
  level: number
  /** The place among all clusters of the job, parents first and bigger ones before smaller ones. */
  place: number
  name: string
  description: string
  stats: ClusterStats
}
type ResultRun = {
  run_id: string
  summary: string
  attributes: Attributes
  is_excluded: boolean
  cluster_id: string | null
}
export type JobResult = {
  clusters: ResultCluster[]
  runs: ResultRun[]
  report: {
    title: string
    key_points: string[]
    highlighted_traces: {
      run_id: string
      cluster_id: string
      cluster_name: string
      rank: number
      highlight_reason: string
      summary: string
    }[]
  }
  /** The biggest of the top clusters, as categories for later jobs. */
  categories: Partitions
}

type PlacedCluster = ResultCluster & { runs: SummarizedRun[]; isFinest: boolean; parent_name: string | null }

/** The ids follow from the job, so that a repeat makes the same clusters. */
export function placeClusters(jobId: string, trees: Cluster[]): PlacedCluster[] {
  const placed: PlacedCluster[] = []
  const place = (clusters: Cluster[], parent: PlacedCluster | null, path: string) => {
    for (const [i, { runs, children, ...cluster }] of clusters.toSorted(byRuns).entries()) {
      const own = `${path}/${i}`
      const one = {
        ...cluster,
        id: derivedUuid(`cluster ${jobId} ${own}`),
        parent_id: parent?.id ?? null,
        parent_name: parent?.name ?? null,
        place: placed.length,
        runs,
        isFinest: children.length === 0,
        stats: computeStats(runs),
      }
      placed.push(one)
      place(children, one, own)
    }
  }
  place(trees, null, '')
  return placed
}

const byRuns = (a: Cluster, b: Cluster): number => b.runs.length - a.runs.length

export const describeClusters = (placed: PlacedCluster[]): ReportCluster[] =>
  placed.map(({ name, description, level, parent_name, stats: { num_runs, ...stats } }) => ({
    name,
    description,
    level,
    parent: parent_name,
    runs: num_runs,
    stats,
  }))

export type Example = { run: SummarizedRun; cluster: PlacedCluster }

/** Some runs of each of the finest clusters, those with an error first. */
export function chooseExamples(placed: PlacedCluster[]): Example[] {
  const finest = placed.filter(({ isFinest }) => isFinest)
  const each = Math.max(1, Math.min(EXAMPLES_OF_CLUSTER, Math.floor(MAX_EXAMPLES / finest.length)))
  return finest
    .flatMap(cluster =>
      cluster.runs
        .toSorted((a, b) => Number(b.facts.has_error) - Number(a.facts.has_error))
        .slice(0, each)
        .map(run => ({ run, cluster })),
    )
    .slice(0, MAX_EXAMPLES)
}

type Parts = {
  attribute_schemas: AttributeSchemas
  summarized: SummarizedRun[]
  placed: PlacedCluster[]
  examples: Example[]
  report: Report
}

export function composeResult({ attribute_schemas, summarized, placed, examples, report }: Parts): JobResult {
  const finest = placed.filter(({ isFinest }) => isFinest)
  const clusterOf = new Map(finest.flatMap(({ id, runs }) => runs.map(run => [run.id, id] as const)))
  return {
    clusters: placed.map(({ runs: _runs, isFinest: _isFinest, parent_name: _parent, ...cluster }) => cluster),
    runs: summarized.map(({ id, summary, attributes }) => ({
      run_id: id,
      summary,
      attributes,
      is_excluded: !isKept(attribute_schemas, attributes),
      cluster_id: clusterOf.get(id) ?? null,
    })),
    report: {
      title: report.title,
      key_points: report.key_points,
      highlighted_traces: report.highlights.map(({ example, reason }, i) => {
        const { run, cluster } = examples[example]!
        return {
          run_id: run.id,
          cluster_id: cluster.id,
          cluster_name: cluster.name,
          rank: i + 1,
          highlight_reason: reason,
          summary: run.summary,
        }
      }),
    },
    categories: Object.fromEntries(
      placed
        // Each job has an Other of its own, and JSON of requests no such member as the second one.
        .filter(({ parent_id, name }) => parent_id === null && name !== OTHER.name && name !== '__proto__')
        .slice(0, MAX_PARTITIONS)
        .map(({ name, description }) => [name, description]),
    ),
  }
}
