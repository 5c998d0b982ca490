// Answers of models, whole and as events: tokens, text and model are read, however the bytes are cut.
import { describe, expect, it } from 'vitest'
import { createAnswerReader } from '../../../src/connect/models/answer-reader.ts'

const SSE = 'text/event-stream; charset=utf-8'
const read = (contentType: string, text: string, size = 7) => {
  const reader = createAnswerReader(contentType)
  const bytes = Buffer.from(text)
  for (let at = 0; at < bytes.length; at += size) reader.read(bytes.subarray(at, at + size))
  return reader.finish()
}
const events = (...data: unknown[]) => data.map(one => `data: ${JSON.stringify(one)}\n\n`).join('')

describe('the tokens of', () => {
  const cases: [string, string, string, object | null][] = [
    [
      'a chat completion',
      'application/json',
      JSON.stringify({
        usage: { prompt_tokens: 9, completion_tokens: 4, prompt_tokens_details: { cached_tokens: 3 } },
      }),
      { input_tokens: 9, output_tokens: 4, input_token_details: { cache_read: 3 } },
    ],
    [
      'an embedding that is longer than the kept part',
      'application/json',
      JSON.stringify({ data: [1.5, 'x'.repeat(2_000_000)], usage: { prompt_tokens: 5, total_tokens: 5 } }),
      { input_tokens: 5, output_tokens: 0 },
    ],
    [
      'a stream of OpenAI, whose last event has them',
      SSE,
      `${events({ model: 'm', choices: [{ delta: { content: 'Grüße' } }], usage: null })}${events({
        choices: [],
        usage: { prompt_tokens: 2, completion_tokens: 3, completion_tokens_details: { reasoning_tokens: 1 } },
      })}data: [DONE]\n\n`,
      { input_tokens: 2, output_tokens: 3, output_token_details: { reasoning: 1 } },
    ],
    [
      'a stream of responses',
      SSE,
      events({ type: 'response.completed', response: { model: 'm', usage: { input_tokens: 4, output_tokens: 6 } } }),
      { input_tokens: 4, output_tokens: 6 },
    ],
    [
      'a stream of Anthropic, which says the input first and the cache apart',
      SSE,
      events(
        {
          type: 'message_start',
          message: { usage: { input_tokens: 2, cache_read_input_tokens: 8, output_tokens: 1 } },
        },
        { type: 'message_delta', usage: { output_tokens: 12 } },
      ),
      { input_tokens: 10, output_tokens: 12, input_token_details: { cache_read: 8 } },
    ],
    ['an answer without them', 'application/json', '{"id": 1}', null],
    ['figures that are none', 'application/json', '{"usage": {"prompt_tokens": -1, "completion_tokens": "9"}}', null],
    ['broken JSON', 'application/json', '{"usage": {"prompt_tokens": 1', null],
    ['broken events', SSE, 'data: {"usage": {\n\ndata: []\n\ndata: null\n\nevent: x\n\n: ping\n\n', null],
  ]
  it.each(cases)('%s', (_, contentType, text, tokens) => {
    for (const size of [1, 7, 64 * 1024].slice(text.length > 100_000 ? 2 : 0))
      expect(read(contentType, text, size).tokens).toEqual(tokens)
  })
})

it('the pieces of a stream are joined, with its tool calls, and lines may end in any way', () => {
  const chunk = (delta: object) => ({ model: 'm', choices: [{ delta }] })
  const call = (index: number, fields: object) => chunk({ tool_calls: [{ index, function: fields }] })
  const text = events(
    chunk({ content: 'Grü' }),
    chunk({ content: 'ße' }),
    call(0, { name: 'look', arguments: '{"a"' }),
    call(0, { arguments: ':1}' }),
  )
  for (const end of ['\n', '\r\n', '\r'])
    expect(read(SSE, text.replaceAll('\n', end), 1)).toMatchObject({
      model: 'm',
      text: 'Grüße',
      length: 'Grüße{"a":1}'.length,
      outputs: { messages: [{ content: 'Grüße', tool_calls: [{ name: 'look', arguments: '{"a":1}' }] }] },
    })
})

it('a line without an end is not kept, and the next one is read', () => {
  const reader = createAnswerReader(SSE)
  const part = Buffer.alloc(64 * 1024, 'x')
  for (let i = 0; i < 40; i++) reader.read(part)
  reader.read(Buffer.from(`\n${events({ usage: { input_tokens: 1, output_tokens: 2 } })}`))
  expect(reader.finish()).toMatchObject({ tokens: { input_tokens: 1, output_tokens: 2 }, text: '' })
})
