// The routes of an application itself, beside those of the server: `http.app`.
import { writeFile } from 'node:fs/promises'
import { createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { passOn } from '../../src/graphs/http/application.ts'
import { openGraphs } from './graphs.ts'

const APP = `const seen = {}
export const app = {
  routes: [{ method: 'GET', path: '/hello' }, { method: 'GET', path: '/docs' }],
  async fetch(request, { user }) {
    const { pathname, search } = new URL(request.url)
    if (pathname === '/hello') {
      const forged = request.headers.get('x-graphs-user')
      const answer = Response.json({ user: user?.identity ?? null, search, forged })
      answer.headers.append('Set-Cookie', 'a=1')
      answer.headers.append('Set-Cookie', 'b=2')
      return answer
    }
    if (pathname === '/echo')
      return new Response(request.body, { status: 201, headers: { 'X-Method': request.method } })
    if (pathname === '/wait') {
      seen.left = false
      request.signal.addEventListener('abort', () => { seen.left = true })
      const start = controller => controller.enqueue(new TextEncoder().encode('begun'))
      return new Response(new ReadableStream({ start }))
    }
    if (pathname === '/seen') return Response.json(seen)
    if (pathname === '/none') return new Response(null, { status: 204 })
    if (pathname === '/broken') throw new Error('secret.internal')
    return new Response('not here', { status: 404 })
  },
}
export const taken = { ...app, routes: [{ method: 'POST', path: '/threads/:id/runs' }, { method: 'ALL', path: '/ok' }] }
`
const AUTH = `export const auth = {
  '~handlerCache': { authenticate: request => request.headers.get('Authorization') ?? null, callbacks: {} },
}
`
const code = { language: 'javascript', path: './app.mjs', isOpen: false } as const

let graphs: Awaited<ReturnType<typeof openGraphs>>
let copy: Awaited<ReturnType<typeof graphs.startCopy>>
beforeAll(async () => {
  graphs = await openGraphs()
  await writeFile(join(graphs.folder, 'app.mjs'), APP)
  await writeFile(join(graphs.folder, 'auth.mjs'), AUTH)
  copy = await graphs.startCopy({ app: { ...code, name: 'app' }, apiKey: 'key' })
})
afterAll(() => graphs.close())

const KEY = { 'X-Api-Key': 'key' }
const statusOf = async (method: string, path: string) => (await copy.send(method, path, undefined, KEY)).status

it('they are beside those of the server, behind its key, and its own come first', async () => {
  expect((await copy.send('GET', '/hello')).status).toBe(401)
  const answer = await copy.send('GET', '/hello?a=%2F', undefined, { ...KEY, 'X-Graphs-User': '"root"' })
  expect(await answer.json()).toEqual({ user: null, search: '?a=%2F', forged: null })
  expect(answer.headers.getSetCookie()).toEqual(['a=1', 'b=2'])
  expect([await statusOf('GET', '/info'), await statusOf('GET', '/none'), await statusOf('GET', '/else')]).toEqual([
    200, 204, 404,
  ])
  expect(await statusOf('GET', '//other/hello')).toBe(404)
  const broken = await copy.send('GET', '/broken', undefined, KEY)
  expect([broken.status, (await broken.text()).includes('secret.internal')]).toEqual([500, false])
})

it('bodies go both ways, by each method', async () => {
  for (const method of ['POST', 'PUT', 'DELETE']) {
    const answer = await copy.send(method, '/echo', { text: 'ü'.repeat(1e6) }, KEY)
    expect([answer.status, answer.headers.get('X-Method')]).toEqual([201, method])
    expect(await answer.json()).toEqual({ text: 'ü'.repeat(1e6) })
  }
})

it('a caller who leaves ends the request', async () => {
  const leave = new AbortController()
  const waiting = await fetch(`${copy.url}/wait`, { headers: KEY, signal: leave.signal })
  await waiting.body!.getReader().read()
  leave.abort()
  await expect.poll(async () => (await copy.send('GET', '/seen', undefined, KEY)).json()).toEqual({ left: true })
})

it('they know the user of the application’s authentication', async () => {
  const auth = { path: './auth.mjs', name: 'auth', language: 'javascript', disable_studio_auth: false } as const
  const known = await graphs.startCopy({ app: { ...code, name: 'app' }, auth })
  expect((await known.send('GET', '/hello')).status).toBe(401)
  expect(await (await known.send('GET', '/hello', undefined, { Authorization: 'änn' })).json()).toMatchObject({
    user: 'änn',
  })
})

it('they are open to everyone if the file says so, and those of the server are not', async () => {
  const http = { mount_prefix: '/api' }
  const open = await graphs.startCopy({ app: { ...code, name: 'app', isOpen: true }, apiKey: 'key', http })
  const statuses = []
  for (const path of ['/api/hello', '/api/info', '/hello']) statuses.push((await open.send('GET', path)).status)
  expect(statuses).toEqual([200, 401, 404])
})

it('an application with a path of the server is not served', async () => {
  const taken = graphs.startCopy({ app: { ...code, name: 'taken' } })
  await expect(taken).rejects.toThrow('POST /threads/:id/runs, ALL /ok')
})

it.each(['999 Odd', '101 Switching Protocols'])(
  'an answer that begins with %s ends no more than itself',
  async status => {
    const socket = join(graphs.folder, status.slice(0, 3))
    const head = `HTTP/1.1 ${status}\r\nUpgrade: x\r\nConnection: upgrade\r\nContent-Length: 0\r\n\r\n`
    const odd = createServer(connection => connection.on('error', () => {}).once('data', () => connection.end(head)))
    await new Promise<void>(listening => odd.listen(socket, listening))
    try {
      const answer = passOn(socket, new Request('http://app.test/'), { path: '/', user: null })
      await expect(answer).rejects.toMatchObject({ status: 502 })
    } finally {
      odd.close()
    }
  },
)
