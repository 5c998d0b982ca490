// Assistants as tools of the Model Context Protocol, over HTTP without sessions.
import * as z from 'zod'
import { ASSISTANTS } from '../assistants.ts'
import type { User } from '../auth.ts'
import type { Row } from '../database.ts'
import { HttpError } from '../errors.ts'
import type { RunRequest } from '../runs.ts'
import { search } from '../search.ts'
import { executorOf, type Server } from '../server.ts'
import { admit } from './access.ts'
import { noContent, type Route, route } from './route.ts'
import { runAndWait } from './runs.ts'

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26', '2024-11-05']
const rpcRequest = z.looseObject({
  jsonrpc: z.literal('2.0'),
  id: z.union([z.string(), z.number()]).nullish(),
  method: z.string(),
  params: z.record(z.string(), z.unknown()).nullish(),
})
type RpcRequest = z.output<typeof rpcRequest>

const METHOD_NOT_FOUND = -32601
const INVALID_PARAMS = -32602
class RpcError extends Error {
  readonly code: number
  constructor(code: number, message: string) {
    super(message)
    this.code = code
  }
}

type Caller = { server: Server; user: User | null; signal: AbortSignal }
const LARGEST_LIST = 1000
async function listAssistants({ server, user }: Caller): Promise<Row[]> {
  const { filters } = await admit({ server, user }, 'assistants:search', { body: {} })
  const page = { limit: LARGEST_LIST, offset: 0, sort_by: 'name', sort_order: 'asc' } as const
  return search(server.db.query, ASSISTANTS, {}, page, filters)
}
/** Names of tools have letters, digits, `-` and `_`. */
const toolNameOf = ({ name, graph_id }: Row) => (name === 'Untitled' ? graph_id : name).replaceAll(/[^\w-]/g, '_')

async function listTools(caller: Caller) {
  const { server } = caller
  const assistants = await listAssistants(caller)
  const isServed = (graphId: string) => server.configuration.graphs.some(graph => graph.id === graphId)
  const tools = assistants
    .filter(assistant => isServed(assistant.graph_id))
    .map(async assistant => {
      const { graph_id, config, description } = assistant
      const schemas = JSON.parse(await executorOf(server, graph_id).ask('schemas', { graph_id, config }))
      return {
        name: toolNameOf(assistant),
        description: description ?? `Runs the graph ${graph_id}.`,
        inputSchema: { type: 'object', ...schemas.input_schema },
      }
    })
  return { tools: await Promise.all(tools) }
}

async function callTool(caller: Caller, params: RpcRequest['params']) {
  const { server, signal } = caller
  const assistant = (await listAssistants(caller)).find(one => toolNameOf(one) === params?.name)
  if (!assistant)
    throw new RpcError(INVALID_PARAMS, `There is no tool ${params?.name}. List the tools for their names.`)
  const request = { assistant_id: assistant.assistant_id, input: params?.arguments ?? {} }
  const { body } = await admit(caller, 'threads:create_run', { body: request })
  const { text } = await runAndWait(server, body as RunRequest, signal)
  const output = JSON.parse(text) as { __error__?: { message: string } } | null
  const error = output?.__error__
  return { content: [{ type: 'text', text: error ? error.message : text }], isError: error !== undefined }
}

async function answer(caller: Caller, { method, params }: RpcRequest): Promise<object> {
  switch (method) {
    case 'initialize': {
      const asked = params?.protocolVersion as string
      return {
        protocolVersion: VERSIONS.includes(asked) ? asked : VERSIONS[0],
        capabilities: { tools: { listChanged: false } },
        serverInfo: { name: 'graphs', version: caller.server.version },
      }
    }
    case 'ping':
      return {}
    case 'tools/list':
      return listTools(caller)
    case 'tools/call':
      return callTool(caller, params)
    default:
      throw new RpcError(METHOD_NOT_FOUND, `The method ${method} is not supported.`)
  }
}

export const mcpRoutes: Route[] = [
  route({
    method: 'post',
    path: '/mcp',
    access: null,
    group: 'mcp',
    summary: 'Assistants as tools of the Model Context Protocol',
    body: rpcRequest,
    async handle({ server, user, body, signal }) {
      // A notification has no answer.
      if (body.id === undefined || body.id === null) return noContent(202)
      const { id } = body
      try {
        return { jsonrpc: '2.0', id, result: await answer({ server, user, signal }, body) }
      } catch (error) {
        if (error instanceof RpcError)
          return { jsonrpc: '2.0', id, error: { code: error.code, message: error.message } }
        if (error instanceof HttpError)
          return { jsonrpc: '2.0', id, error: { code: INVALID_PARAMS, message: error.message } }
        throw error
      }
    },
  }),
  ...(['get', 'delete'] as const).map(method =>
    route({
      method,
      path: '/mcp',
      access: null,
      group: 'mcp',
      summary: 'Not supported: there are no sessions',
      handle: () => new Response(null, { status: 405, headers: { Allow: 'POST' } }),
    }),
  ),
]
