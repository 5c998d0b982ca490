// Plans the next calls of a job (pure): from its runs and the answers so far, either the calls that can be made now, or
// the result. A worker that takes over comes to the same calls, because nothing else goes into it.

import type { AttributeSchemas } from './attributes.schema.ts'
import { isKept } from './attributes.ts'
import { buildTrees, type SummarizedRun } from './cluster-tree.ts'
import type { Partitions } from './hierarchy.ts'
import { JobFault } from './job-fault.ts'
import { chooseExamples, composeResult, describeClusters, type JobResult, placeClusters } from './model-result.ts'
import { type PlannedCall, Script, type Steps } from './model-script.ts'
import { askForReport } from './report-question.ts'

/** A job goes on without the few traces that a model cannot summarize. */
const MAX_UNUSABLE = 0.1

export type PlannedJob = {
  id: string
  request: {
    hierarchy?: number[] | null | undefined
    partitions?: Partitions | null | undefined
    attribute_schemas?: AttributeSchemas | null | undefined
    user_context?: Record<string, string> | null | undefined
  }
}
export type Progress = { phase: 'summaries' | 'clusters' | 'report'; done: number; total: number }
export type Plan = { calls: PlannedCall[]; progress: Progress } | { result: JobResult }

export function planJob({ id, request }: PlannedJob, runs: string[], steps: Steps): Plan {
  const script = new Script({ id, user_context: request.user_context }, steps)
  const { calls } = script
  const summarized = readSummaries(script, runs)
  if (!summarized)
    return { calls, progress: { phase: 'summaries', done: runs.length - calls.length, total: runs.length } }
  const attribute_schemas = request.attribute_schemas ?? {}
  const kept = summarized.filter(({ attributes }) => isKept(attribute_schemas, attributes))
  if (kept.length === 0) throw new JobFault(sayWhyNoneIsLeft(runs.length, summarized.length))
  const trees = buildTrees(script, request, kept)
  if (!trees) return { calls, progress: countOthers('clusters', steps, calls) }
  const placed = placeClusters(id, trees)
  const examples = chooseExamples(placed)
  const listed = examples.map(({ run, cluster }) => ({ summary: run.summary, cluster: cluster.name }))
  const report = script.ask('report', context => askForReport(describeClusters(placed), listed, context))
  if (!report) return { calls, progress: countOthers('report', steps, calls) }
  return { result: composeResult({ attribute_schemas, summarized, placed, examples, report }) }
}

/** Undefined as long as calls are open. */
function readSummaries(script: Script, runs: string[]): SummarizedRun[] | undefined {
  const summarized: SummarizedRun[] = []
  const faults: string[] = []
  for (const id of runs) {
    const answer = script.askAboutRun(id)
    if (typeof answer === 'string') faults.push(answer)
    else if (answer && 'summary' in answer) summarized.push({ ...answer, id })
  }
  if (faults.length > runs.length * MAX_UNUSABLE)
    throw new JobFault(
      `The model gave no usable summary of ${faults.length} of ${runs.length} traces, also when asked again: ` +
        `${faults.at(-1)} Check \`summary_prompt\` and the model.`,
    )
  return script.calls.length > 0 ? undefined : summarized
}

const sayWhyNoneIsLeft = (runs: number, summarized: number): string =>
  summarized === 0
    ? `All ${runs} traces were deleted before they were read.`
    : `\`filter_by\` left none of ${summarized} traces. Loosen the attribute, or select other traces.`

/** More calls may follow from the open ones. */
function countOthers(phase: Progress['phase'], steps: Steps, calls: PlannedCall[]): Progress {
  const done = [...steps.keys()].filter(key => !key.startsWith('summary/')).length
  return { phase, done, total: done + calls.length }
}
