// Traces like those of an application: a chat that answers with a model and tools. Also for pictures of the dashboard.
import type { Attachment, RunType } from '../../src/tracing/store/store.ts'
import type { RunInput } from './trace-operations.ts'

const toSegment = (time: Date, id: string): string =>
  `${time.toISOString().replace(/[-:.]/g, '').replace('Z', '000Z')}${id}`

export type Step = {
  name: string
  type: RunType
  /** Milliseconds after the start of the trace. */
  from: number
  to: number | undefined
  inputs?: unknown
  outputs?: unknown
  error?: string
  extra?: unknown
  tags?: string[]
  /** Milliseconds after the start of the trace. */
  firstToken?: number
  attachments?: Attachment[]
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
      id,
      trace_id,
      session_name: project,
      name: step.name,
      run_type: step.type,
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
  name: 'ChatModel',
  type: 'llm',
  from,
  to,
  inputs: { messages },
  outputs: {
    role: 'assistant',
    ...(answer as object),
    usage_metadata: {
      input_tokens: tokens[0],
      output_tokens: tokens[1],
      total_tokens: tokens[0] + tokens[1],
      input_cost: tokens[0] * 2.5e-6,
      output_cost: tokens[1] * 1e-5,
      total_cost: tokens[0] * 2.5e-6 + tokens[1] * 1e-5,
    },
  },
  extra: {
    metadata: { ls_model_name: 'gpt-4.1', ls_provider: 'openai', ls_temperature: 0.2 },
    invocation_params: { temperature: 0.2, tools: 2 },
  },
  firstToken: from + 210,
})

export function answerTrace(i: number): Step {
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
    name: 'answer',
    type: 'chain',
    from: 0,
    to: ms(isFailed ? 5400 : 2140),
    inputs: { question, customer: { id: 81, language: 'en' } },
    tags: i % 3 ? ['shop'] : ['shop', 'beta'],
    ...(isFailed ? { error: failure } : { outputs: { answer } }),
    extra: {
      metadata: { user: ['ada', 'grace', 'alan'][i % 3], thread_id: `thread-${i % 4}`, release: 'v2.4.1' },
      runtime: { sdk: 'langsmith-js', sdk_version: '0.12.0' },
    },
    steps: [
      {
        name: 'find similar questions',
        type: 'retriever',
        from: ms(12),
        to: ms(140),
        inputs: { query: question },
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
        name: 'find_order',
        type: 'tool',
        from: ms(830),
        to: ms(isFailed ? 5390 : 1190),
        inputs: { number: 4711 },
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
