// A model by the words of OpenAI that answers the same each time, on the loopback address.
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'

type Message = { role: string; content: string | null }
type Request = { model: string; stream?: boolean; messages: Message[]; tools?: unknown[] }
type Answer = { content: string } | { call: { name: string; arguments: string } }

function answerTo({ messages, tools = [] }: Request): Answer {
  const system = String(messages.find(({ role }) => role === 'system' || role === 'developer')?.content)
  const last = messages.at(-1)!
  const text = String(last.content)
  if (tools.length > 0) {
    if (last.role === 'tool') return { content: `The result is ${text}.` }
    const [a, b] = (text.match(/\d+/g) ?? []).map(Number)
    return { call: { name: 'multiply', arguments: JSON.stringify({ a, b }) } }
  }
  if (/supervisor/.test(system)) {
    const answers = messages.filter(({ role }) => role === 'assistant').length
    return { content: ['researcher', 'writer'][answers] ?? 'FINISH' }
  }
  if (/You plan/.test(system)) return { content: 'Look it up\nWrite it down' }
  if (/these documents/.test(system)) return { content: `It says: ${system.split('\n')[1]}` }
  return { content: `Done: ${text}` }
}

const CALL = { index: 0, id: 'call_1', type: 'function' }

function* toChunks(answer: Answer) {
  if ('call' in answer) yield { delta: { role: 'assistant', tool_calls: [{ ...CALL, function: answer.call }] } }
  else for (const content of answer.content.match(/\S+\s*/g) ?? []) yield { delta: { role: 'assistant', content } }
  yield { delta: {}, finish_reason: 'call' in answer ? 'tool_calls' : 'stop' }
}

/** The base URL, as clients of OpenAI read it. */
export async function startModel(cleanup: AsyncDisposableStack): Promise<string> {
  const server = createServer(async (req, res) => {
    const request = (await json(req)) as Request
    const answer = answerTo(request)
    const head = { id: 'chatcmpl-1', created: 1, model: request.model }
    if (request.stream) {
      res.setHeader('Content-Type', 'text/event-stream')
      for (const chunk of toChunks(answer)) {
        const choice = { index: 0, finish_reason: null, ...chunk }
        res.write(`data: ${JSON.stringify({ ...head, object: 'chat.completion.chunk', choices: [choice] })}\n\n`)
      }
      return void res.end('data: [DONE]\n\n')
    }
    const message =
      'call' in answer
        ? { role: 'assistant', content: null, tool_calls: [{ ...CALL, function: answer.call }] }
        : { role: 'assistant', content: answer.content }
    const choices = [{ index: 0, finish_reason: 'call' in answer ? 'tool_calls' : 'stop', message }]
    const usage = { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
    res.setHeader('Content-Type', 'application/json')
    res.end(JSON.stringify({ ...head, object: 'chat.completion', choices, usage }))
  })
  await new Promise<void>(listening => server.listen(0, '127.0.0.1', listening))
  cleanup.defer(() => {
    server.closeAllConnections()
    server.close()
  })
  return `http://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
}
