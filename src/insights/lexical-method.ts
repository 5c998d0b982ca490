// The method that calls no model: it groups runs by the words of their summary prompts, and names each group by its
// strongest words. It writes no summaries and no report, because nothing here has understood the runs.
import type { Ctx } from '../kernel/context.ts'
import type { ClaimedJob, StepOutcome } from './claimed-job.ts'
import { computeStats, type RunFacts } from './cluster-stats.ts'
import { listJobRuns, type NewCluster, storeClusters } from './job-results.ts'
import { buildTextTree, type TextTree } from './lexical-tree.ts'
import { renderWords } from './prompt-template.ts'
import { readRunValues } from './run-values.ts'

/** Of one query, so that long payloads do not add up. */
const BATCH = 100
const DEFAULT_TEMPLATE = '{{run.inputs}} {{run.outputs}} {{run.error}}'

export async function takeLexicalStep(ctx: Ctx, job: ClaimedJob): Promise<StepOutcome> {
  const ids = (await listJobRuns(ctx, job)).map(({ run_id }) => run_id)
  const template = job.request.summary_prompt?.trim() || DEFAULT_TEMPLATE
  const read = new Map<string, { words: string; facts: RunFacts }>()
  for (let at = 0; at < ids.length; at += BATCH)
    for (const [id, { values, facts }] of await readRunValues(ctx, job, ids.slice(at, at + BATCH), template))
      read.set(id, { words: renderWords(template, values), facts })
  const found = ids.filter(id => read.has(id))
  const { hierarchy = null, partitions = null } = job.request
  const texts = found.map(id => read.get(id)!.words)
  const tree =
    found.length > 0 ? buildTextTree(texts, job.id, hierarchy, partitions) : { clusters: [], clusterOf: [] as string[] }
  const facts = found.map(id => read.get(id)!.facts)
  const clusterOf = new Map(found.map((id, i) => [id, tree.clusterOf[i]!]))
  await storeClusters(ctx, job, placeClusters(tree, facts), clusterOf)
  return 'done'
}

/** With what the runs in them and below them add up to. The largest cluster of a level is first. */
function placeClusters({ clusters, clusterOf }: TextTree, facts: RunFacts[]): NewCluster[] {
  const parentOf = new Map(clusters.map(({ id, parent_id }) => [id, parent_id]))
  const runsOf = new Map<string, { facts: RunFacts }[]>(clusters.map(({ id }) => [id, []]))
  for (const [i, finest] of clusterOf.entries())
    for (let id: string | null = finest; id; id = parentOf.get(id) ?? null) runsOf.get(id)!.push({ facts: facts[i]! })
  const places = new Map<number, number>()
  return clusters
    .map(cluster => ({ ...cluster, runs: runsOf.get(cluster.id)! }))
    .sort((a, b) => a.level - b.level || b.runs.length - a.runs.length || (a.name < b.name ? -1 : 1))
    .map(({ runs, ...cluster }) => {
      const place = places.get(cluster.level) ?? 0
      places.set(cluster.level, place + 1)
      return { ...cluster, place, num_runs: runs.length, stats: computeStats(runs) }
    })
}
