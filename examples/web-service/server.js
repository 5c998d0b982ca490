// A small JSON service: notes in memory, and a health check. Replace the notes with your own resources.
import { randomUUID } from 'node:crypto'
import { createServer } from 'node:http'
import { traced } from './trace.js'

const LARGEST = 64 * 1024
const notes = new Map()

const routes = {
  'GET /': () => [
    200,
    { service: process.env.SLIPWAY_DEPLOYMENT_NAME ?? 'web-service', notes: notes.size, see: '/notes' },
  ],
  'GET /healthz': () => [200, { ok: true }],
  'GET /notes': () => [200, [...notes.values()]],
  'POST /notes': async ({ text }) => {
    if (typeof text !== 'string' || text === '') return [422, { error: 'Send {"text": "…"}.' }]
    return [201, await traced('create note', 'chain', { text }, createNote)]
  },
}

function createNote({ text }) {
  const note = { id: randomUUID(), text, created_at: new Date().toISOString() }
  notes.set(note.id, note)
  return note
}

async function bodyOf(req) {
  let text = ''
  for await (const chunk of req.setEncoding('utf8')) {
    text += chunk
    if (text.length > LARGEST) throw new RangeError('The body is too large.')
  }
  return text ? Object(JSON.parse(text)) : {}
}

async function answer(req) {
  const path = req.url.split('?')[0]
  const note = /^\/notes\/([\w-]+)$/.exec(path)?.[1]
  if (note && req.method === 'GET') return notes.has(note) ? [200, notes.get(note)] : [404, { error: 'No such note.' }]
  if (note && req.method === 'DELETE') return notes.delete(note) ? [204] : [404, { error: 'No such note.' }]
  const name = `${req.method} ${path}`
  const route = Object.hasOwn(routes, name) && routes[name]
  if (!route) return [404, { error: `Nothing is at ${req.method} ${path}.` }]
  try {
    return await route(await bodyOf(req))
  } catch (error) {
    return [error instanceof RangeError ? 413 : 400, { error: error.message }]
  }
}

const server = createServer(async (req, res) => {
  const [status, body] = await answer(req)
  res.writeHead(status, { 'Content-Type': 'application/json' })
  res.end(body === undefined ? undefined : `${JSON.stringify(body)}\n`)
})
server.listen(process.env.PORT ?? 3000, () => console.log(`Listening on ${server.address().port}`))
process.once('SIGTERM', () => server.close())
