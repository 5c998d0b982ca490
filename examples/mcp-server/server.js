// An MCP server over streamable HTTP without sessions or dependencies. Add your tools in tools.js.
import { createServer } from 'node:http'
import { tools } from './tools.js'
import { traced } from './trace.js'

const VERSIONS = ['2025-11-25', '2025-06-18', '2025-03-26']
const LARGEST = 1024 * 1024

const methods = {
  initialize: ({ protocolVersion }) => ({
    protocolVersion: VERSIONS.includes(protocolVersion) ? protocolVersion : VERSIONS[0],
    capabilities: { tools: {} },
    serverInfo: { name: process.env.SLIPWAY_DEPLOYMENT_NAME ?? 'mcp-server', version: '1.0.0' },
  }),
  ping: () => ({}),
  'tools/list': () => ({ tools: tools.map(({ run: _, ...tool }) => tool) }),
  'tools/call': async ({ name, arguments: given = {} }) => {
    const tool = tools.find(one => one.name === name)
    if (!tool) throw Object.assign(new Error(`There is no tool ${name}.`), { code: -32602 })
    const missing = (tool.inputSchema.required ?? []).filter(member => given[member] === undefined)
    const wrong = Object.entries(tool.inputSchema.properties).filter(
      ([member, { type }]) => given[member] !== undefined && type === 'string' && typeof given[member] !== 'string',
    )
    if (missing.length || wrong.length)
      return trouble(`Needs text in: ${[...missing, ...wrong.map(([member]) => member)].join(', ')}.`)
    return traced(name, 'tool', given, tool.run).catch(error => trouble(error.message))
  },
}

const trouble = message => ({ content: [{ type: 'text', text: message }], isError: true })

/** The answer to one message; undefined for a notification or a response. */
async function answer(message) {
  const { id, method, params = {} } = Object(message)
  if (message?.jsonrpc !== '2.0' || (method !== undefined && typeof method !== 'string'))
    return { jsonrpc: '2.0', id: null, error: { code: -32600, message: 'This is no JSON-RPC 2.0 message.' } }
  if (method === undefined || id === undefined) return undefined
  try {
    if (!Object.hasOwn(methods, method))
      throw Object.assign(new Error(`There is no method ${method}.`), { code: -32601 })
    return { jsonrpc: '2.0', id, result: await methods[method](params) }
  } catch (error) {
    return { jsonrpc: '2.0', id, error: { code: error.code ?? -32603, message: error.message } }
  }
}

async function bodyOf(req) {
  let text = ''
  for await (const chunk of req.setEncoding('utf8')) {
    text += chunk
    if (text.length > LARGEST) throw Object.assign(new Error('The body is too large.'), { status: 413 })
  }
  try {
    return JSON.parse(text)
  } catch {
    throw Object.assign(new Error('The body is not JSON.'), { status: 400 })
  }
}

const server = createServer(async (req, res) => {
  const reply = (status, body, headers = {}) => {
    res.writeHead(status, { ...(body && { 'Content-Type': 'application/json' }), ...headers })
    res.end(body && JSON.stringify(body))
  }
  const pathname = req.url.split('?')[0]
  if (pathname === '/healthz') return reply(200, { ok: true })
  if (pathname !== '/mcp' && pathname !== '/') return reply(404, { error: 'The server is at /mcp.' })
  // Pages of other sites must not call this server from a user's browser.
  const { origin, host } = req.headers
  if (origin && (!URL.canParse(origin) || new URL(origin).host !== host))
    return reply(403, { error: 'Not from that origin.' })
  if (req.method !== 'POST') return reply(405, { error: 'Send messages with POST.' }, { Allow: 'POST' })
  try {
    const body = await bodyOf(req)
    const answers = (await Promise.all([body].flat().map(answer))).filter(Boolean)
    if (answers.length === 0) return reply(202)
    reply(200, Array.isArray(body) ? answers : answers[0])
  } catch ({ status = 500, message }) {
    reply(status, { jsonrpc: '2.0', id: null, error: { code: -32700, message } })
  }
})
server.listen(process.env.PORT ?? 3000, () => console.log(`Listening on ${server.address().port}, MCP at /mcp`))
process.once('SIGTERM', () => server.close())
