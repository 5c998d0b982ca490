// The templates: each starts with `npm start` alone, answers as documented, and ends on SIGTERM.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { json } from 'node:stream/consumers'
import { Client, StreamableHTTPClientTransport } from '@modelcontextprotocol/client'
import { afterEach, beforeEach, expect, test } from 'vitest'
import { describeTemplates, listTemplates, TEMPLATES_FOLDER } from '../../src/agent/builds/source-tree.ts'
import { signalGroup } from '../../src/agent/system/processes.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { Poll } from '../../src/protocol/poll.schema.ts'
import { isListening, waitFor } from '../support/commands.ts'
import { makeTempFolder } from '../support/process-engine.ts'

let home: string
let stop: () => unknown = () => {}
let url: string

beforeEach(() => {
  home = makeTempFolder()
})
afterEach(async () => {
  await stop()
  fs.rmSync(home, { recursive: true })
})

async function start(template: string, variables: Record<string, string> = {}) {
  fs.cpSync(join(TEMPLATES_FOLDER, template), home, { recursive: true })
  const port = await findFreePort()
  const env = { PATH: process.env.PATH, HOME: home, PORT: String(port), ...variables }
  const child = spawn('npm', ['start'], { cwd: home, env, stdio: 'ignore', detached: true })
  const ended = once(child, 'close')
  stop = () => {
    signalGroup(child.pid!, 'SIGTERM')
    return ended
  }
  url = `http://127.0.0.1:${port}`
  await waitFor(() => isListening(port))
}
const send = (path: string, method = 'GET', body?: unknown) =>
  fetch(url + path, {
    method,
    ...(body !== undefined && { body: typeof body === 'string' ? body : JSON.stringify(body) }),
  })

test('every template has a description, and one without it or that cannot be read is left out', () => {
  expect(Object.keys(describeTemplates())).toEqual(listTemplates())
  const packages = {
    good: '{"description": "Good."}',
    hostile: JSON.stringify({ description: `\0${'x'.repeat(255)}𝄞 and more` }),
    absent: '{}',
    broken: '{',
    number: '{"description": 1}',
    nothing: 'null',
  }
  for (const [name, text] of Object.entries(packages)) {
    fs.mkdirSync(join(home, name))
    fs.writeFileSync(join(home, name, 'package.json'), text)
  }
  fs.mkdirSync(join(home, 'empty'))
  const descriptions = describeTemplates(home)
  expect(descriptions).toEqual({ good: 'Good.', hostile: `${'x'.repeat(255)}\ufffd` })
  expect(Poll.shape.template_descriptions.parse(descriptions)).toEqual(descriptions)
})

test('web-service stores notes, and refuses invalid ones', async () => {
  await start('web-service')
  expect(await (await send('/healthz')).json()).toEqual({ ok: true })
  const created = await send('/notes', 'POST', { text: 'hello' })
  expect(created.status).toBe(201)
  const { id } = (await created.json()) as { id: string }
  expect(await (await send('/notes')).json()).toMatchObject([{ id, text: 'hello' }])
  const statuses = [
    await send(`/notes/${id}`),
    await send(`/notes/${id}`, 'DELETE'),
    await send(`/notes/${id}`),
    await send('/notes', 'POST', '{'),
    await send('/notes', 'POST', 'null'),
    await send('/notes', 'POST', 'x'.repeat(70_000)),
    await send('//'),
  ].map(({ status }) => status)
  expect(statuses).toEqual([200, 204, 404, 400, 422, 413, 404])
})

test.each<[string, string, unknown, object]>([
  [
    'web-service',
    '/notes',
    { text: 'hello' },
    { name: 'create note', run_type: 'chain', inputs: { text: 'hello' }, outputs: { text: 'hello' } },
  ],
  [
    'mcp-server',
    '/mcp',
    { jsonrpc: '2.0', id: 1, method: 'tools/call', params: { name: 'now', arguments: { time_zone: 'No/Where' } } },
    { name: 'now', run_type: 'tool', inputs: { time_zone: 'No/Where' }, error: expect.stringContaining('No/Where') },
  ],
])('%s traces a call', async (template, path, body, expected) => {
  const sent = Promise.withResolvers<[method: string, path: string, key: unknown, run: unknown]>()
  const server = createServer(async (req, res) => {
    sent.resolve([req.method!, req.url!, req.headers['x-api-key'], await json(req)])
    res.writeHead(202).end()
  })
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const [LANGSMITH_ENDPOINT, LANGSMITH_API_KEY] = [`http://127.0.0.1:${port}`, 'slt_key']
  await start(template, { LANGSMITH_TRACING: 'true', LANGSMITH_PROJECT: 'mine', LANGSMITH_ENDPOINT, LANGSMITH_API_KEY })
  await send(path, 'POST', body)
  const [time, session_name] = [expect.stringMatching(/Z$/), 'mine']
  expect(await sent.promise).toMatchObject([
    'POST',
    '/runs',
    'slt_key',
    { ...expected, session_name, start_time: time, end_time: time },
  ])
  server.close()
})

test('static-site serves the files of its folder, and none outside it', async () => {
  await start('static-site')
  const index = await send('/')
  expect(index.headers.get('content-type')).toContain('text/html')
  expect(await index.text()).toContain('<h1>')
  const { status } = await fetch(url, { headers: { 'If-None-Match': index.headers.get('etag')! } })
  expect(status).toBe(304)
  for (const [path, expected] of [
    ['/index', 200],
    ['/none', 404],
    ['/..%2fserver.js', 404],
    ['/%2e%2e/package.json', 404],
    ['/%ff', 400],
    ['/%00', 404],
  ] as const)
    expect((await send(path)).status, path).toBe(expected)
  expect((await send('/', 'POST')).status).toBe(405)
})

test('mcp-server serves MCP clients, and refuses requests from web pages of other origins', async () => {
  await start('mcp-server')
  const client = new Client({ name: 'test', version: '1' })
  await client.connect(new StreamableHTTPClientTransport(new URL(`${url}/mcp`)))
  const { tools } = await client.listTools()
  expect(tools.map(({ name }) => name)).toEqual(['echo', 'now', 'digest', 'uuid'])
  expect(await client.callTool({ name: 'echo', arguments: { text: 'hi' } })).toMatchObject({
    content: [{ text: 'hi' }],
  })
  expect(await client.callTool({ name: 'echo', arguments: {} })).toMatchObject({ isError: true })
  expect(await client.callTool({ name: 'now', arguments: { time_zone: 'No/Where' } })).toMatchObject({ isError: true })
  await client.close()
  const statuses = [
    await send('/mcp'),
    await send('/mcp', 'POST', '{'),
    await send('/mcp', 'POST', { jsonrpc: '2.0', method: 'notifications/initialized' }),
    await fetch(`${url}/mcp`, { method: 'POST', headers: { Origin: 'https://evil.example' }, body: '{}' }),
    await fetch(`${url}/mcp`, { method: 'POST', headers: { Origin: 'null' }, body: '{}' }),
    await send('//'),
    await send('/healthz'),
  ].map(({ status }) => status)
  expect(statuses).toEqual([405, 400, 202, 403, 403, 404, 200])
})
