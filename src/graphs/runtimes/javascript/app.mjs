// The routes of the application: `http.app`. They are served on a socket of the server, which has checked the caller.
import { rmSync } from 'node:fs'
import { createServer } from 'node:http'
import { resolve } from 'node:path'
import { Readable } from 'node:stream'
import { pipeline } from 'node:stream/promises'
import { pathToFileURL } from 'node:url'

/** The caller by the authentication of the application, as JSON. The server removes it from what a caller sends. */
const USER_HEADER = 'x-graphs-user'

async function loadApp({ path, name }, folder) {
  let module
  try {
    module = await import(pathToFileURL(resolve(folder, path)).href)
  } catch (error) {
    throw new Error(`\`http.app\`: ${path} could not be loaded: ${error.message}`, { cause: error })
  }
  const app = module[name] ?? module.default?.[name]
  if (typeof app?.fetch === 'function') return app
  if (typeof app === 'function') return { fetch: app }
  throw new Error(`\`http.app\`: the export \`${name}\` of ${path} has no \`fetch\`, as an app of Hono has.`)
}

/** The routes, as `GET /path`, of an app that lists them. */
const listRoutes = app =>
  Array.isArray(app.routes) ? [...new Set(app.routes.map(({ method, path }) => `${method} ${path}`))] : []

export async function serveApp({ socket, ...spec }, folder) {
  const app = await loadApp(spec, folder)
  // An executor that ended before may have left it.
  rmSync(socket, { force: true })
  const server = createServer((incoming, outgoing) => {
    answer(app, incoming, outgoing).catch(error => {
      console.error(`request to http.app failed ${incoming.method} ${incoming.url}:`, error)
      if (outgoing.headersSent) return outgoing.destroy()
      outgoing.writeHead(500, { 'Content-Type': 'text/plain' }).end('The application failed. Its log has the reason.')
    })
  })
  // The server decides how long a request may take.
  server.requestTimeout = 0
  await new Promise((listening, failed) => server.once('error', failed).listen(socket, listening))
  return listRoutes(app)
}

async function answer(app, incoming, outgoing) {
  const { method, url, rawHeaders } = incoming
  const headers = new Headers()
  for (let i = 0; i < rawHeaders.length; i += 2) headers.append(rawHeaders[i], rawHeaders[i + 1])
  const user = headers.get(USER_HEADER)
  headers.delete(USER_HEADER)
  const left = new AbortController()
  outgoing.once('close', () => outgoing.writableFinished || left.abort())
  const hasBody = method !== 'GET' && method !== 'HEAD'
  // A path that begins with two slashes names no other host.
  const request = new Request(new URL(`http://${headers.get('host') ?? 'localhost'}${url}`), {
    method,
    headers,
    signal: left.signal,
    ...(hasBody && { body: Readable.toWeb(incoming), duplex: 'half' }),
  })
  const response = await app.fetch(request, { user: user === null ? null : JSON.parse(decodeURIComponent(user)) })
  const { status, body } = response
  const cookies = response.headers.getSetCookie()
  outgoing.writeHead(status, {
    ...Object.fromEntries([...response.headers].filter(([name]) => name !== 'set-cookie')),
    ...(cookies.length > 0 && { 'set-cookie': cookies }),
  })
  if (body === null) return void outgoing.end()
  // A caller who goes ends the answer, which is no failure.
  await pipeline(Readable.fromWeb(body), outgoing).catch(error => {
    if (!left.signal.aborted) throw error
  })
}
