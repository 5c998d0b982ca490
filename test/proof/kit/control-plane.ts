// The control plane that drives an agent: a real one, in this process. The kit can move its clock and lose its
// answers.
import { once } from 'node:events'
import { mkdtemp, rm } from 'node:fs/promises'
import type { IncomingMessage, Server } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createAdaptorServer } from '@hono/node-server'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { createHost } from '../../../src/host/host.ts'
import { migrate } from '../../../src/host/migrate.ts'
import { bootstrap } from '../../../src/people/access/bootstrap.ts'
import { createClock } from '../../../src/platform.ts'

/** A request of an agent and its answer. */
export type Exchange = {
  /** Numbers the requests in the order of their arrival. Exchanges are listed in the order of their answers. */
  arrival: number
  key: string
  path: string
  // biome-ignore lint/suspicious/noExplicitAny: the app validates it
  request: any
  status: number
  // biome-ignore lint/suspicious/noExplicitAny: see above
  response: any
}
export type ControlPlane = Awaited<ReturnType<typeof startControlPlane>>

/** A Postgres with all migrations. */
export async function startDatabase() {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-kit-'))
  const postgres = await startPostgres({ dataDir: join(folder, 'data'), durable: false })
  await migrate(postgres.url, { log: () => {} })
  return {
    url: postgres.url,
    async stop() {
      await postgres.stop()
      await rm(folder, { recursive: true, force: true, maxRetries: 9 })
    },
  }
}

/** Several can share a database: each has its own clock, and its own workspaces. */
export async function startControlPlane(databaseUrl: string, more: Record<string, string> = {}) {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-kit-'))
  const clock = { ahead: 0 }
  const settings = {
    ALLOW_LOOPBACK: 'true',
    DATABASE_URL: databaseUrl,
    SEALING_KEYS: `kit:${Buffer.alloc(32, 1).toString('base64url')}`,
    RATE_LIMIT_PER_MINUTE: '0',
    UPLOADS_DIR: join(folder, 'uploads'),
    ...more,
  }
  const { app, close } = createHost(settings, { log: () => {}, clock: createClock(() => clock.ahead) })
  const exchanges: Exchange[] = []
  let arrivals = 0
  /** The next answers to this key that do not arrive. */
  const lostAnswers = { key: '', remaining: 0 }
  /** Deployments whose work no agent can read: their revisions are of a source that does not exist. */
  const unreadable = new Set<string>()
  const spoilWork = (json: string): string => {
    const answer = JSON.parse(json)
    for (const { deployment_id, revision, serving } of answer.changes ?? [])
      if (unreadable.has(deployment_id))
        for (const one of [revision, serving])
          if (one) Object.assign(one, { source: 'of_a_later_release', archive: null })
    return JSON.stringify(answer)
  }

  const serve = async (request: Request, { incoming }: { incoming: IncomingMessage }) => {
    const { pathname: path } = new URL(request.url)
    const key = request.headers.get('X-Api-Key') ?? ''
    if (!path.startsWith('/v1/sync/') || request.method !== 'POST') return app.fetch(request)
    const arrival = ++arrivals
    // An agent may wait for most of a minute, which would make the scenarios slow.
    const text = (await request.text()).replace(
      /"wait":\s*\d+/,
      wait => `"wait":${Math.min(2, Number(/\d+/.exec(wait)))}`,
    )
    const { method, headers, signal } = request
    const answer = await app.fetch(new Request(request.url, { method, headers, body: text, signal }))
    const sent = await answer.text()
    const body = unreadable.size > 0 && path.endsWith('/poll') ? spoilWork(sent) : sent
    const parse = (json: string) => JSON.parse(json || 'null')
    exchanges.push({ arrival, key, path, request: parse(text), status: answer.status, response: parse(body) })
    if (lostAnswers.remaining > 0 && lostAnswers.key === key) {
      lostAnswers.remaining--
      incoming.socket.destroy()
    }
    const answerHeaders = new Headers(answer.headers)
    if (answerHeaders.has('Retry-After')) answerHeaders.set('Retry-After', '2')
    return new Response(body || null, { status: answer.status, headers: answerHeaders })
  }
  const server = createAdaptorServer({ fetch: serve as never }) as Server
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  async function newWorkspace() {
    const { api_key, organization_id, tenant_id } = await bootstrap(app.database, {
      organization: `kit-${crypto.randomUUID()}`,
    })
    // biome-ignore lint/suspicious/noExplicitAny: each scenario knows its shape
    const call = async (method: string, path: string, body?: unknown): Promise<{ status: number; body: any }> => {
      const headers = { 'X-Api-Key': api_key, ...(body !== undefined && { 'Content-Type': 'application/json' }) }
      const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
      const answer = await fetch(url + path, init)
      const text = await answer.text()
      return { status: answer.status, body: text ? JSON.parse(text) : undefined }
    }
    const listener = { compute_type: 'local', compute_id: 'kit' }
    const listener_id: string = (await call('POST', '/v2/listeners', listener)).body.id
    const { body: key } = await call('POST', `/v2/listeners/${listener_id}/keys`, {})
    return { call, organization_id, tenant_id, listener_id, listener_key: key.key as string }
  }

  return {
    url,
    clock,
    exchanges,
    lostAnswers,
    unreadable,
    newWorkspace,
    database: app.database,
    /** The scheduled work, which a host does every minute. */
    housekeep: app.housekeep,
    sealingKeys: app.config.sealingKeys,
    async stop() {
      server.closeAllConnections()
      server.close()
      await close()
      await rm(folder, { recursive: true, force: true, maxRetries: 9 })
    },
  }
}
