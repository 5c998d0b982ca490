// Projects with traces of an application, for the dashboard.
import type { Tenant } from './app.ts'
import { answerTrace, type Step, toRuns } from './example-traces.ts'
import { appendRuns, projectId } from './new-traces.ts'
import type { RunInput } from './trace-operations.ts'

const MINUTE_MS = 60_000

/** Appends traces of the last days, the newest a minute ago. Returns the ids of their roots, the newest first. */
export async function fillProject(tenant: Tenant, { name = 'support-agent', traces = 24 } = {}) {
  const roots: string[] = []
  const all: RunInput[] = []
  for (let i = 0; i < traces; i++) {
    const start = new Date(Date.now() - (1 + i * i * 4) * MINUTE_MS)
    const runs = toRuns(answerTrace(i), start, name)
    roots.push(runs[0]!.id)
    all.push(...runs)
  }
  await appendRuns(tenant, all)
  return { id: await projectId(tenant, name), roots }
}

/** Appends a trace of a root and `count - 1` runs below it, a tenth of which failed. */
export async function appendLongTrace(tenant: Tenant, count: number, project = 'long'): Promise<string> {
  const step = (i: number): Step => ({
    name: `step ${i}`,
    type: (['tool', 'llm', 'chain', 'retriever'] as const)[i % 4]!,
    from: i * 4,
    to: i * 4 + 30,
    ...(i % 10 === 9 && { error: 'It failed.' }),
  })
  const groups = Array.from({ length: Math.ceil((count - 1) / 50) }, (_, g): Step => {
    const first = g * 50
    const size = Math.min(50, count - 1 - first)
    const inner = Array.from({ length: size - 1 }, (_, i) => step(first + i + 1))
    return { name: `group ${g}`, type: 'chain', from: first * 4, to: (first + size) * 4 + 30, steps: inner }
  })
  const runs = toRuns(
    {
      name: 'long job',
      type: 'chain',
      from: 0,
      to: count * 4 + 60,
      inputs: { count },
      outputs: { done: true },
      steps: groups,
    },
    new Date(Date.now() - 5 * MINUTE_MS),
    project,
  )
  for (let at = 0; at < runs.length; at += 500) await appendRuns(tenant, runs.slice(at, at + 500))
  return runs[0]!.id
}
