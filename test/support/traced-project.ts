// A project whose traces look like those of an application: a chat that answers with a model and tools.
import type { RunOperation } from '../../src/traces/store.ts'
import type { Tenant } from './app.ts'
import { appendRuns, projectId, type RunInput } from './new-traces.ts'

const MINUTE_MS = 60_000
const toSegment = (time: Date, id: string): string =>
  `${time.toISOString().replace(/[-:.]/g, '').replace('Z', '000Z')}${id}`

type Step = {
  name: string
  type: NonNullable<RunOperation['run_type']>
  /** In milliseconds after the trace began. */
  from: number
  to: number | undefined
  inputs?: unknown
  outputs?: unknown
  error?: string
  extra?: unknown
  tags?: string[]
  /** In milliseconds after the trace began. */
  firstToken?: number
  attachments?: RunOperation['attachments']
  steps?: Step[]
}

/** The runs of a trace, the root first. */
export function toRuns(root: Step, start: Date, project: string): RunInput[] {
  const trace_id = crypto.randomUUID()
  const at = (ms: number) => new Date(start.getTime() + ms)
  const visit = (step: Step, parent?: RunInput): RunInput[] => {
    const id = parent ? crypto.randomUUID() : trace_id
    const order = toSegment(at(step.from), id)
    const run: RunInput = {
      ...{ id, trace_id, session_name: project, name: step.name, run_type: step.type },
      dotted_order: parent ? `${parent.dotted_order}.${order}` : order,
      start_time: at(step.from).toISOString(),
      ...(parent && { parent_run_id: parent.id }),
      ...(step.to !== undefined && { end_time: at(step.to).toISOString() }),
      ...(step.inputs !== undefined && { inputs: JSON.stringify(step.inputs) }),
      ...(step.outputs !== undefined && { outputs: JSON.stringify(step.outputs) }),
      ...(step.extra !== undefined && { extra: JSON.stringify(step.extra) }),
      ...(step.firstToken !== undefined && {
        events: JSON.stringify([
          { name: 'new_token', time: at(step.firstToken).toISOString(), kwargs: { token: 'It' } },
        ]),
      }),
      ...(step.error && { error: step.error }),
      ...(step.tags && { tags: step.tags }),
      ...(step.attachments && { attachments: step.attachments }),
    }
    return [run, ...(step.steps ?? []).flatMap(one => visit(one, run))]
  }
  return visit(root)
}

const QUESTIONS = [
  ['Where is my order 4711?', 'It left our warehouse on Monday and arrives tomorrow before noon.'],
  ['Can I still change the address?', 'Yes, until it is handed to the carrier. I have changed it to Elm Street 4.'],
  ['How do I return the blue shoes?', 'Print the label from your account and bring the parcel to any pick-up point.'],
  ['Do you have this jacket in green?', 'Green is sold out in your size. It is expected again in two weeks.'],
  ['Why was my card charged twice?', 'One of the two is a reservation. It disappears within three days.'],
] as const

const model = (from: number, to: number, messages: unknown[], answer: unknown, tokens: [number, number]): Step => ({
  ...{ name: 'ChatModel', type: 'llm', from, to, inputs: { messages } },
  outputs: {
    ...{ role: 'assistant', ...(answer as object) },
    usage_metadata: {
      ...{ input_tokens: tokens[0], output_tokens: tokens[1], total_tokens: tokens[0] + tokens[1] },
      ...{
        input_cost: tokens[0] * 2.5e-6,
        output_cost: tokens[1] * 1e-5,
        total_cost: tokens[0] * 2.5e-6 + tokens[1] * 1e-5,
      },
    },
  },
  extra: {
    metadata: { ls_model_name: 'gpt-4.1', ls_provider: 'openai', ls_temperature: 0.2 },
    invocation_params: { temperature: 0.2, tools: 2 },
  },
  firstToken: from + 210,
})

function answerTrace(i: number): Step {
  const [question, answer] = QUESTIONS[i % QUESTIONS.length]!
  const isFailed = i % 7 === 3
  const slow = 1 + (i % 5) * 0.6
  const ms = (time: number) => Math.round(time * slow)
  const system = { role: 'system', content: 'You help customers of a shop. Be brief, and never guess about an order.' }
  const call = { id: 'call_1', type: 'function', function: { name: 'find_order', arguments: '{"number":4711}' } }
  const failure =
    'TimeoutError: The warehouse did not answer within 5 s.\n' +
    '    at findOrder (src/tools/orders.ts:41:11)\n    at async answer (src/answer.ts:18:20)'
  return {
    ...{ name: 'answer', type: 'chain', from: 0, to: ms(isFailed ? 5400 : 2140) },
    ...{ inputs: { question, customer: { id: 81, language: 'en' } }, tags: i % 3 ? ['shop'] : ['shop', 'beta'] },
    ...(isFailed ? { error: failure } : { outputs: { answer } }),
    extra: {
      metadata: { user: ['ada', 'grace', 'alan'][i % 3], thread_id: `thread-${i % 4}`, release: 'v2.4.1' },
      runtime: { sdk: 'langsmith-js', sdk_version: '0.12.0' },
    },
    steps: [
      {
        ...{
          name: 'find similar questions',
          type: 'retriever',
          from: ms(12),
          to: ms(140),
          inputs: { query: question },
        },
        outputs: { documents: [{ page_content: 'Orders leave the warehouse on weekdays.', metadata: { page: 3 } }] },
        steps: [
          {
            name: 'embed',
            type: 'embedding',
            from: ms(14),
            to: ms(70),
            inputs: { input: question },
            outputs: { dimensions: 1536 },
          },
        ],
      },
      {
        name: 'write prompt',
        type: 'prompt',
        from: ms(142),
        to: ms(146),
        inputs: { question },
        outputs: { messages: [system, { role: 'user', content: question }] },
      },
      model(ms(150), ms(820), [system, { role: 'user', content: question }], { content: '', tool_calls: [call] }, [
        412 + i,
        18,
      ]),
      {
        ...{
          name: 'find_order',
          type: 'tool',
          from: ms(830),
          to: ms(isFailed ? 5390 : 1190),
          inputs: { number: 4711 },
        },
        ...(isFailed
          ? { error: failure }
          : { outputs: { order: { number: 4711, state: 'sent', carrier: 'Post', items: ['shoes', 'socks'] } } }),
      },
      ...(isFailed
        ? []
        : [
            model(
              ms(1200),
              ms(2120),
              [
                system,
                { role: 'user', content: question },
                { role: 'assistant', content: '', tool_calls: [call] },
                { role: 'tool', name: 'find_order', content: '{"state":"sent","carrier":"Post"}' },
              ],
              { content: answer },
              [486 + i, 41],
            ),
            {
              name: 'check answer',
              type: 'parser' as const,
              from: ms(2122),
              to: ms(2138),
              inputs: { answer },
              outputs: { ok: true },
            },
          ]),
    ],
  }
}

/** Traces of the last days, the newest a minute ago. Returns the ids of their roots, the newest first. */
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

/** A trace of a root and `count - 1` runs below it, a tenth of which failed. */
export async function appendLongTrace(tenant: Tenant, count: number, project = 'long'): Promise<string> {
  const step = (i: number): Step => ({
    ...{
      name: `step ${i}`,
      type: (['tool', 'llm', 'chain', 'retriever'] as const)[i % 4]!,
      from: i * 4,
      to: i * 4 + 30,
    },
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
