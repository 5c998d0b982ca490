// The method that calls no model: it groups runs by the words of their summary prompts, and names each group by its
// strongest words. It writes no summaries and no report, because nothing here has understood the runs.

import type { Ctx } from '../../kernel/http/context.ts'
import { backgroundCpu } from '../../kernel/limits/background-cpu.ts'
import { type ClaimedJob, type StepOutcome, writeUnderLease } from './claimed-job.ts'
import { computeStats, type RunFacts } from './cluster-stats.ts'
import { type NewCluster, readJobRuns, storeClusters } from './job-results.ts'
import { buildTextTree, type TextCluster } from './lexical-tree.ts'
import { readRunValues } from './run-values.ts'
import { renderWords } from './summary-template.ts'

/** The limit of one query, so that long payloads do not add up. */
const BATCH = 100
const DEFAULT_TEMPLATE = '{{run.inputs}} {{run.outputs}} {{run.error}}'

export async function takeLexicalStep(ctx: Ctx, job: ClaimedJob): Promise<StepOutcome> {
  const ids = (await readJobRuns(ctx, job)).map(({ run_id }) => run_id)
  const found = new Map<string, { text: string; facts: RunFacts }>()
  const template = job.request.summary_prompt?.trim() || DEFAULT_TEMPLATE
  for (let at = 0; at < ids.length; at += BATCH)
    for (const [id, { values, facts }] of await readRunValues(ctx, job, ids.slice(at, at + BATCH), template))
      found.set(id, { text: renderWords(template, values), facts })
  const known = ids.filter(id => found.has(id))
  const { hierarchy = null, partitions = null } = job.request
  const texts = known.map(id => found.get(id)!.text)
  const tree =
    known.length > 0
      ? await backgroundCpu.run(job.tenant_id, buildTextTree(texts, job.id, hierarchy, partitions), () =>
          writeUnderLease(ctx, job, []),
        )
      : { clusters: [], clusterOf: [] as string[] }
  const clusterOf = new Map(known.map((id, i) => [id, tree.clusterOf[i]!]))
  const facts = known.map(id => found.get(id)!.facts)
  await storeClusters(ctx, job, addStatistics(tree, facts), clusterOf)
  return 'done'
}

/** `facts` are of the runs in the order of `clusterOf`. The largest cluster of a level is first. */
function addStatistics(
  { clusters, clusterOf }: { clusters: TextCluster[]; clusterOf: string[] },
  facts: RunFacts[],
): NewCluster[] {
  const parentOf = new Map(clusters.map(({ id, parent_id }) => [id, parent_id]))
  const inside = new Map<string, { facts: RunFacts }[]>(clusters.map(({ id }) => [id, []]))
  for (const [i, finest] of clusterOf.entries())
    for (let id: string | null = finest; id; id = parentOf.get(id) ?? null) inside.get(id)!.push({ facts: facts[i]! })
  const places = new Map<number, number>()
  return clusters
    .map(cluster => {
      const runs = inside.get(cluster.id)!
      return { ...cluster, num_runs: runs.length, stats: runs.length > 0 ? computeStats(runs) : null }
    })
    .sort((a, b) => a.level - b.level || b.num_runs - a.num_runs || (a.name < b.name ? -1 : 1))
    .map(cluster => {
      const place = places.get(cluster.level) ?? 0
      places.set(cluster.level, place + 1)
      return { ...cluster, place }
    })
}
