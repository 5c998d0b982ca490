// The method that calls no model: it groups runs by the words of their summary prompts, and names each group by its
// strongest words. It writes no summaries and no report, because nothing here has understood the runs.
import type { Ctx } from '../kernel/context.ts'
import type { ClaimedJob, StepOutcome } from './claimed-job.ts'
import { listJobRuns, type NewCluster, storeClusters } from './job-results.ts'
import { buildTextTree, type TextCluster } from './lexical-tree.ts'
import { renderWords } from './prompt-template.ts'
import { readRunValues } from './run-values.ts'

/** Of one query, so that long payloads do not add up. */
const BATCH = 100
const DEFAULT_TEMPLATE = '{{run.inputs}} {{run.outputs}} {{run.error}}'

export async function takeLexicalStep(ctx: Ctx, job: ClaimedJob): Promise<StepOutcome> {
  const ids = (await listJobRuns(ctx, job)).map(({ run_id }) => run_id)
  const prompts = new Map<string, string>()
  const template = job.request.summary_prompt?.trim() || DEFAULT_TEMPLATE
  for (let at = 0; at < ids.length; at += BATCH)
    for (const [id, { values }] of await readRunValues(ctx, job, ids.slice(at, at + BATCH), template))
      prompts.set(id, renderWords(template, values))
  const found = ids.filter(id => prompts.has(id))
  const { hierarchy = null, partitions = null } = job.request
  const texts = found.map(id => prompts.get(id)!)
  const tree =
    found.length > 0 ? buildTextTree(texts, job.id, hierarchy, partitions) : { clusters: [], clusterOf: [] as string[] }
  const clusterOf = new Map(found.map((id, i) => [id, tree.clusterOf[i]!]))
  await storeClusters(ctx, job, countRuns(tree.clusters, [...clusterOf.values()]), clusterOf)
  return 'done'
}

/** The largest cluster of a level is first. */
function countRuns(clusters: TextCluster[], assigned: string[]): NewCluster[] {
  const parentOf = new Map(clusters.map(({ id, parent_id }) => [id, parent_id]))
  const counts = new Map<string, number>()
  for (const finest of assigned)
    for (let id: string | null = finest; id; id = parentOf.get(id) ?? null) counts.set(id, (counts.get(id) ?? 0) + 1)
  const places = new Map<number, number>()
  return clusters
    .map(cluster => ({ ...cluster, num_runs: counts.get(cluster.id) ?? 0, stats: null }))
    .sort((a, b) => a.level - b.level || b.num_runs - a.num_runs || (a.name < b.name ? -1 : 1))
    .map(cluster => {
      const place = places.get(cluster.level) ?? 0
      places.set(cluster.level, place + 1)
      return { ...cluster, place }
    })
}
