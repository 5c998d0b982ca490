// Converts the conventions of instrumentations to runs.
import { describe, expect, it } from 'vitest'
import { toOperations } from '../../../../src/tracing/ingest/otlp/span-operations.ts'
import { newSpan, type Span, type Value } from '../../../../src/tracing/ingest/otlp/spans.ts'
import * as fc from '../../../support/seeded-fast-check.ts'

type Attributes = Record<string, Value>

const BEGIN = 1_764_000_000_123_456_789n
const spanOf = (attributes: Attributes, others: Partial<Span> = {}): Span => ({
  ...newSpan(),
  trace_id: '0af7651916cd43dd8448eb211c80319c',
  span_id: 'b7ad6b7169203331',
  name: 'span',
  start: BEGIN,
  end: BEGIN + 1_500_000_000n,
  attributes: new Map(Object.entries(attributes)),
  ...others,
})
const eventOf = (name: string, attributes: Attributes) => ({
  name,
  nanoseconds: BEGIN,
  attributes: new Map(Object.entries(attributes)),
})

function runOf(span: Span, project?: string, resource: Attributes = {}) {
  const { operations } = toOperations([{ resource: new Map(Object.entries(resource)), spans: [span] }], project)
  const [{ extra, inputs, outputs, events, ...run }] = operations as [(typeof operations)[number]]
  const parse = (text?: string) => (text === undefined ? undefined : JSON.parse(text))
  const { metadata, ...otherExtra } = parse(extra)
  return { ...run, metadata, extra: otherExtra, inputs: parse(inputs), outputs: parse(outputs), events: parse(events) }
}
const messages = (...list: object[]) => ({ messages: list })

describe('the type of a run', () => {
  it.each<[string, Attributes]>([
    ['llm', { 'gen_ai.operation.name': 'chat' }],
    ['llm', { 'gen_ai.operation.name': 'text_completion' }],
    ['llm', { 'gen_ai.operation.name': 'generate_content' }],
    ['embedding', { 'gen_ai.operation.name': 'embeddings' }],
    ['tool', { 'gen_ai.operation.name': 'execute_tool' }],
    ['retriever', { 'gen_ai.operation.name': 'retrieval' }],
    ['chain', { 'gen_ai.operation.name': 'invoke_agent' }],
    ['llm', { 'openinference.span.kind': 'LLM' }],
    ['retriever', { 'openinference.span.kind': 'RERANKER' }],
    ['chain', { 'openinference.span.kind': 'AGENT' }],
    ['tool', { 'traceloop.span.kind': 'tool' }],
    ['chain', { 'traceloop.span.kind': 'workflow' }],
    ['llm', { 'llm.request.type': 'completion' }],
    ['llm', { 'ai.operationId': 'ai.streamText.doStream' }],
    ['prompt', { 'langsmith.span.kind': 'prompt', 'gen_ai.operation.name': 'chat' }],
    ['chain', { 'langsmith.span.kind': 'constructor' }],
    ['chain', { 'gen_ai.operation.name': 'constructor' }],
    ['chain', {}],
  ])('is %s for %o', (type, attributes) => expect(runOf(spanOf(attributes)).run_type).toBe(type))
})

describe('inputs and outputs', () => {
  const question = { role: 'user', content: 'What is up?' }
  const answer = { role: 'assistant', content: 'Not much.' }
  const call = { id: 'c1', type: 'function', function: { name: 'weather', arguments: '{"city":"Rome"}' } }

  it.each<[string, Attributes, unknown, unknown]>([
    [
      'OpenTelemetry from 1.37',
      {
        'gen_ai.system_instructions': '[{"type":"text","content":"Be brief."}]',
        'gen_ai.input.messages': JSON.stringify([
          { role: 'user', parts: [{ type: 'text', content: 'What is up?' }] },
          { role: 'assistant', parts: [{ type: 'tool_call', id: 'c1', name: 'weather', arguments: { city: 'Rome' } }] },
          { role: 'tool', parts: [{ type: 'tool_call_response', id: 'c1', response: 'rain' }] },
        ]),
        'gen_ai.output.messages': JSON.stringify([
          { role: 'assistant', parts: [{ type: 'text', content: 'Not much.' }], finish_reason: 'stop' },
        ]),
      },
      messages(
        { role: 'system', content: 'Be brief.' },
        question,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', content: 'rain', tool_call_id: 'c1' },
      ),
      messages({ ...answer, finish_reason: 'stop' }),
    ],
    [
      'the same as values, not as text',
      {
        'gen_ai.input.messages': [
          { role: 'user', parts: [{ type: 'text', content: 'What is up?' }, { type: 'blob' }] },
        ],
      },
      messages({ role: 'user', content: [{ type: 'text', text: 'What is up?' }, { type: 'blob' }] }),
      undefined,
    ],
    [
      'OpenLLMetry',
      {
        'gen_ai.prompt.0.role': 'user',
        'gen_ai.prompt.0.content': 'What is up?',
        'gen_ai.prompt.10.role': 'user',
        'gen_ai.prompt.10.content': '[{"type":"text","text":"And now?"}]',
        'gen_ai.prompt.2.role': 'assistant',
        'gen_ai.prompt.2.tool_calls.0.id': 'c1',
        'gen_ai.prompt.2.tool_calls.0.name': 'weather',
        'gen_ai.prompt.2.tool_calls.0.arguments': '{"city":"Rome"}',
        'gen_ai.completion.0.role': 'assistant',
        'gen_ai.completion.0.content': 'Not much.',
      },
      messages(
        question,
        { role: 'assistant', content: null, tool_calls: [call] },
        {
          role: 'user',
          content: [{ type: 'text', text: 'And now?' }],
        },
      ),
      messages(answer),
    ],
    [
      'OpenInference',
      {
        'input.value': '{"other": true}',
        'input.mime_type': 'application/json',
        'llm.input_messages.0.message.role': 'user',
        'llm.input_messages.0.message.contents.0.message_content.type': 'text',
        'llm.input_messages.0.message.contents.0.message_content.text': 'What is up?',
        'llm.output_messages.0.message.role': 'assistant',
        'llm.output_messages.0.message.tool_calls.0.tool_call.id': 'c1',
        'llm.output_messages.0.message.tool_calls.0.tool_call.function.name': 'weather',
        'llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments': '{"city":"Rome"}',
      },
      messages({ role: 'user', content: [{ type: 'text', text: 'What is up?' }] }),
      messages({ role: 'assistant', content: null, tool_calls: [call] }),
    ],
    ['OpenInference without messages', { 'input.value': 'a', 'output.value': '{"b": 1}' }, { input: 'a' }, { b: 1 }],
    [
      'a list of messages as text',
      { 'input.value': '[{"role":"user","content":"What is up?"}]', 'output.value': '[1]' },
      messages(question),
      { output: [1] },
    ],
    [
      'OpenLLMetry of a workflow',
      { 'traceloop.entity.input': '{"inputs": {"a": 1}}', 'traceloop.entity.output': 'done' },
      { inputs: { a: 1 } },
      { output: 'done' },
    ],
    [
      'langsmith',
      { 'gen_ai.prompt': '{"question": "a"}', 'gen_ai.completion': '{"outputs": [1]}' },
      { question: 'a' },
      { outputs: [1] },
    ],
    [
      'the AI SDK',
      {
        'ai.prompt.messages': '[{"role":"user","content":"What is up?"}]',
        'ai.response.text': '{"answer": 1}',
        'ai.response.toolCalls': '[{"toolCallId":"c1","toolName":"weather","args":"{\\"city\\":\\"Rome\\"}"}]',
      },
      messages(question),
      messages({ role: 'assistant', content: '{"answer": 1}', tool_calls: [call] }),
    ],
    [
      'a call of a tool',
      { 'gen_ai.tool.call.arguments': { city: 'Rome' }, 'gen_ai.tool.call.result': 'rain' },
      { city: 'Rome' },
      { output: 'rain' },
    ],
    [
      'documents',
      {
        'input.value': 'weather',
        'retrieval.documents.0.document.content': 'Rain falls.',
        'retrieval.documents.0.document.metadata': '{"source":"almanac"}',
        'retrieval.documents.0.document.score': 0.5,
      },
      { input: 'weather' },
      { documents: [{ page_content: 'Rain falls.', metadata: { source: 'almanac' }, type: 'Document', score: 0.5 }] },
    ],
    ['none', {}, undefined, undefined],
  ])('are read from %s', (_, attributes, inputs, outputs) => {
    const run = runOf(spanOf(attributes))
    expect({ inputs: run.inputs, outputs: run.outputs }).toEqual({ inputs, outputs })
    expect(run.metadata.otel).toBeUndefined()
  })

  it('come from events, where older conventions have them', () => {
    const events = [
      eventOf('gen_ai.system.message', { content: 'Be brief.' }),
      eventOf('gen_ai.user.message', { content: 'What is up?', role: 'user' }),
      eventOf('gen_ai.assistant.message', { tool_calls: JSON.stringify([call]) }),
      eventOf('gen_ai.tool.message', { content: 'rain', id: 'c1' }),
      eventOf('gen_ai.choice', { index: 0, finish_reason: 'stop', message: '{"content": "Not much."}' }),
      eventOf('retried', { count: 2 }),
    ]
    const run = runOf(spanOf({}, { events }))
    expect(run.inputs).toEqual(
      messages(
        { role: 'system', content: 'Be brief.' },
        question,
        { role: 'assistant', content: null, tool_calls: [call] },
        { role: 'tool', content: 'rain', tool_call_id: 'c1' },
      ),
    )
    expect(run.outputs).toEqual(messages({ ...answer, finish_reason: 'stop' }))
    expect(run.events).toEqual([{ name: 'retried', time: '2025-11-24T16:00:00.123456Z', kwargs: { count: 2 } }])
  })

  it.each([['gen_ai.content.prompt', 'gen_ai.content.completion']])('come from %s and %s', (asked, answered) => {
    const events = [
      eventOf(asked, { 'gen_ai.prompt': '{"question": "a"}' }),
      eventOf(answered, { 'gen_ai.completion': 'b' }),
    ]
    expect(runOf(spanOf({}, { events }))).toMatchObject({ inputs: { question: 'a' }, outputs: { output: 'b' } })
  })

  it('come from an event with the details of the call', () => {
    const events = [
      eventOf('gen_ai.client.inference.operation.details', {
        'gen_ai.input.messages': [{ role: 'user', parts: [{ type: 'text', content: 'What is up?' }] }],
      }),
    ]
    const run = runOf(spanOf({}, { events }))
    expect(run.inputs).toEqual(messages(question))
    expect(run.events).toBeUndefined()
  })

  it('keep the digits of their numbers', () => {
    const { operations } = toOperations(
      [
        {
          resource: new Map(),
          spans: [spanOf({ 'gen_ai.prompt': '{"id": 12345678901234567890}', 'gen_ai.tool.call.result': [2n ** 60n] })],
        },
      ],
      undefined,
    )
    expect(operations[0]).toMatchObject({
      inputs: '{"id": 12345678901234567890}',
      outputs: '{"output":[1152921504606846976]}',
    })
  })
})

describe('metadata', () => {
  it('has provider, model, parameters and usage, by new names and old ones', () => {
    const modern = runOf(
      spanOf({
        'gen_ai.provider.name': 'openai',
        'gen_ai.request.model': 'gpt-5',
        'gen_ai.response.model': 'gpt-5-2026-08-01',
        'gen_ai.request.temperature': 0.5,
        'gen_ai.request.stop_sequences': ['.'],
        'gen_ai.request.choice.count': 2,
        'gen_ai.usage.input_tokens': 10,
        'gen_ai.usage.output_tokens': 5,
        'gen_ai.usage.cache_read.input_tokens': 4,
        'gen_ai.usage.details.reasoning_tokens': 3,
      }),
    )
    const old = runOf(
      spanOf({
        'gen_ai.system': 'openai',
        'llm.model_name': 'gpt-5',
        'llm.invocation_parameters': '{"temperature": 0.5, "stop_sequences": ["."], "choice_count": 2}',
        'gen_ai.usage.prompt_tokens': '10',
        'llm.token_count.completion': 5,
        'llm.token_count.prompt_details.cache_read': 4,
        'llm.token_count.completion_details.reasoning': 3,
      }),
    )
    const usage_metadata = {
      input_tokens: 10,
      output_tokens: 5,
      total_tokens: 15,
      input_token_details: { cache_read: 4 },
      output_token_details: { reasoning: 3 },
    }
    expect(modern.metadata).toMatchObject({ ls_provider: 'openai', ls_model_name: 'gpt-5', usage_metadata })
    expect(modern.metadata.response_model).toBe('gpt-5-2026-08-01')
    expect(old.metadata).toMatchObject({ ls_provider: 'openai', ls_model_name: 'gpt-5', usage_metadata })
    const invocation_params = { temperature: 0.5, stop_sequences: ['.'], choice_count: 2, model: 'gpt-5' }
    expect(modern.extra).toEqual({ invocation_params })
    expect(old.extra).toEqual({ invocation_params })
  })

  it('has the members that the application sets, and the rest apart', () => {
    const run = runOf(
      spanOf({
        'langsmith.metadata.tier': 'gold',
        'langsmith.metadata.list': '[1]',
        'traceloop.association.properties.user': 'u1',
        metadata: '{"own": {"a": 1}}',
        'gen_ai.conversation.id': 't1',
        'gen_ai.agent.name': 'planner',
        'langsmith.usage_metadata': '{"input_tokens": 1, "total_cost": 0.5}',
        'http.route': '/chat',
        __proto__: 'x',
      }),
    )
    expect(run.metadata).toEqual({
      tier: 'gold',
      list: [1],
      user: 'u1',
      own: { a: 1 },
      thread_id: 't1',
      agent_name: 'planner',
      OTEL_TRACE_ID: '0af7651916cd43dd8448eb211c80319c',
      OTEL_SPAN_ID: 'b7ad6b7169203331',
      usage_metadata: { input_tokens: 1, total_cost: 0.5 },
      otel: { 'http.route': '/chat' },
    })
  })

  it('has the service, and not the arguments of its process', () => {
    const resource = { 'service.name': 'shop', 'service.version': '2', 'process.command_args': ['--key', 'secret'] }
    expect(runOf(spanOf({}), undefined, resource).extra.runtime).toEqual({
      'service.name': 'shop',
      'service.version': '2',
    })
  })
})

describe('a run', () => {
  it('has the id of the trace if it is the root, and times in microseconds', () =>
    expect(runOf(spanOf({ 'langsmith.trace.name': 'Answer', 'langsmith.span.tags': 'a, b,' }))).toMatchObject({
      kind: 'post',
      id: '0af76519-16cd-43dd-8448-eb211c80319c',
      trace_id: '0af76519-16cd-43dd-8448-eb211c80319c',
      dotted_order: '20251124T160000123456Z0af76519-16cd-43dd-8448-eb211c80319c',
      name: 'Answer',
      tags: ['a', 'b'],
      start_time: '2025-11-24T16:00:00.123456Z',
      end_time: '2025-11-24T16:00:01.623456Z',
    }))

  it.each<[string, string, Attributes, Attributes]>([
    ['given', 'own', { 'langsmith.trace.session_name': 'own' }, { 'service.name': 'shop' }],
    ['given', 'given', {}, { 'service.name': 'shop' }],
    ['', 'shop', {}, { 'service.name': 'shop' }],
    ['', 'phoenix', {}, { 'service.name': 'shop', 'openinference.project.name': 'phoenix' }],
  ])('sent to the project %j belongs to %j with %o and %o', (sent, project, attributes, resource) =>
    expect(runOf(spanOf(attributes), sent || undefined, resource).session_name).toBe(project),
  )

  it('belongs to no named project if the service has no name', () =>
    expect(runOf(spanOf({}), undefined, { 'service.name': 'unknown_service:node' }).session_name).toBeUndefined())

  it.each<[string | undefined, Partial<Span>]>([
    [
      undefined,
      { status: { code: 1, message: '' }, events: [eventOf('exception', { 'exception.message': 'caught' })] },
    ],
    ['refused', { status: { code: 2, message: 'refused' } }],
    ['error', { status: { code: 2, message: '' } }],
    [
      'TypeError: no\n\nat main.py:1',
      {
        status: { code: 2, message: 'refused' },
        events: [
          eventOf('exception', {
            'exception.type': 'TypeError',
            'exception.message': 'no',
            'exception.stacktrace': 'at main.py:1',
          }),
        ],
      },
    ],
    [
      'Error: no\n    at main.js:1',
      {
        status: { code: 2, message: '' },
        events: [
          eventOf('exception', { 'exception.message': 'no', 'exception.stacktrace': 'Error: no\n    at main.js:1' }),
        ],
      },
    ],
  ])('has the error %j', (error, span) => expect(runOf(spanOf({}, span)).error).toBe(error))

  it('has no end while the span has none, and never one before its start', () => {
    expect(runOf(spanOf({}, { end: 0n })).end_time).toBeUndefined()
    expect(runOf(spanOf({}, { end: 1n })).end_time).toBe('2025-11-24T16:00:00.123456Z')
  })

  it('is not made of a span without ids or a start', () => {
    const spans = [{ trace_id: '00' }, { span_id: '0'.repeat(16) }, { parent_span_id: 'ab' }, { start: 0n }]
    const resource = { resource: new Map(), spans: [spanOf({}), ...spans.map(fault => spanOf({}, fault))] }
    resource.spans.push(spanOf({ 'langsmith.trace.session_name': 'x'.repeat(256) }))
    const { operations, rejected, reason } = toOperations([resource], undefined)
    expect({ operations: operations.length, rejected }).toEqual({ operations: 1, rejected: 5 })
    expect(reason).toContain('trace id')
  })
})

describe('a span with any attributes', () => {
  const names = [
    'gen_ai.prompt',
    'gen_ai.completion',
    'gen_ai.input.messages',
    'gen_ai.output.messages',
    'input.value',
    'gen_ai.system_instructions',
    'gen_ai.prompt.0.role',
    'gen_ai.prompt.0',
    'gen_ai.prompt.0.tool_calls.0.name',
    'llm.input_messages.0.message.role',
    'llm.input_messages.0.message',
    'retrieval.documents.1.document',
    'metadata',
    'ai.response.toolCalls',
    'ai.response.text',
    'llm.tools.0',
    'llm.tools.0.tool',
    'llm.invocation_parameters',
    'langsmith.usage_metadata',
    'gen_ai.usage.input_tokens',
    'langsmith.span.tags',
    'tag.tags',
    'langsmith.trace.name',
    'langsmith.span.kind',
    'langsmith.span.id',
    'langsmith.span.dotted_order',
    'content',
    'message',
    'tool_calls',
    ...['gen_ai.event.content', 'gen_ai.request.model', 'toString', '__proto__', 'exception.message'],
  ]
  const shaped = fc.oneof(
    fc.jsonValue({ maxDepth: 4 }),
    fc.record({ role: fc.string(), parts: fc.jsonValue(), content: fc.jsonValue() }, { requiredKeys: [] }),
    fc.record({ message: fc.record({ role: fc.string(), contents: fc.jsonValue(), tool_calls: fc.jsonValue() }) }),
  )
  const value = fc.oneof(
    shaped,
    fc.array(shaped, { maxLength: 3 }).map(list => JSON.stringify(list)),
    shaped.map(one => JSON.stringify(one)),
    fc.string({ unit: 'binary' }),
    fc.constantFrom('['.repeat(100_000), `${'{"a":'.repeat(65)}1${'}'.repeat(65)}`, '0'),
  ) as fc.Arbitrary<Value>
  const attributes = fc.array(fc.tuple(fc.constantFrom(...names), value), { maxLength: 8 }).map(list => new Map(list))
  const event = fc.record({
    name: fc.constantFrom('gen_ai.user.message', 'gen_ai.choice', 'gen_ai.content.prompt', 'exception', 'constructor'),
    nanoseconds: fc.bigInt(0n, 2n ** 64n - 1n),
    attributes,
  })

  it('becomes a run whose members are JSON', () => {
    fc.assert(
      fc.property(
        attributes,
        fc.array(event, { maxLength: 3 }),
        fc.bigInt(1n, 2n ** 64n - 1n),
        (sent, events, start) => {
          const span = spanOf({}, { start, attributes: sent, events, status: { code: 2, message: '' } })
          const { operations } = toOperations([{ resource: sent, spans: [span] }], undefined)
          const [{ inputs, outputs, extra, events: stored }] = operations as [(typeof operations)[number]]
          for (const text of [inputs ?? '{}', outputs ?? '{}', extra!]) expect(JSON.parse(text)).toBeTypeOf('object')
          expect(JSON.parse(stored ?? '[]')).toBeInstanceOf(Array)
        },
      ),
      { numRuns: 1_000 },
    )
  })
})
