// Restarts two control planes, one after the other, behind a proxy at 200 requests a second: none may fail.
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync } from 'node:fs'
import { Agent, createServer, type IncomingMessage, request, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { migrate } from '../../../src/host/migrate.ts'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { check, note, runTrial } from '../support/trial.ts'

const [REQUESTS_PER_SECOND, HEALTH_CHECK_MS, SHUTDOWN_DELAY_SECONDS] = [200, 500, 3]
const ROOT = join(import.meta.dirname, '../../..')

type Upstream = { port: number; isReady: boolean; child: ChildProcess | undefined }

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'slipway-rolling-restart-'))
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true }))
  const postgres = await startPostgres({ dataDir: join(folder, 'postgres'), durable: false })
  cleanup.defer(() => postgres.stop())
  await migrate(postgres.url, { log: () => {} })

  const env = {
    ...process.env,
    DATABASE_URL: postgres.url,
    SEALING_KEYS: `k1:${'A'.repeat(43)}`,
    UPLOADS_DIR: join(folder, 'uploads'),
    PUBLIC_URL: 'http://127.0.0.1',
    RATE_LIMIT_PER_MINUTE: '0',
    SHUTDOWN_DELAY_SECONDS: String(SHUTDOWN_DELAY_SECONDS),
  }
  const bootstrap = spawn(
    process.execPath,
    ['src/host/main.ts', 'bootstrap', '--organization', 'A', '--workspace', 'B'],
    {
      cwd: ROOT,
      env,
      stdio: ['ignore', 'pipe', 'inherit'],
    },
  )
  let output = ''
  bootstrap.stdout!.on('data', text => {
    output += text
  })
  await once(bootstrap, 'close')
  const key = /slw_\w+/.exec(output)![0]

  const upstreams: Upstream[] = []
  for (const _ of [1, 2]) upstreams.push({ port: await findFreePort(), isReady: false, child: undefined })
  const start = (upstream: Upstream) => {
    upstream.child = spawn(process.execPath, ['src/host/main.ts', 'start'], {
      cwd: ROOT,
      env: { ...env, PORT: String(upstream.port) },
      stdio: ['ignore', 'ignore', 'inherit'],
    })
  }
  cleanup.defer(async () => {
    for (const { child } of upstreams) child?.kill('SIGKILL')
  })
  for (const upstream of upstreams) start(upstream)

  // ---- the proxy: keeps connections, checks readiness, never repeats a request

  const checkReadiness = async (upstream: Upstream) => {
    const answer = await fetch(`http://127.0.0.1:${upstream.port}/readyz`).catch(() => undefined)
    upstream.isReady = answer?.status === 200
  }
  const timer = setInterval(() => upstreams.forEach(upstream => void checkReadiness(upstream)), HEALTH_CHECK_MS)
  cleanup.defer(() => clearInterval(timer))
  const connections = new Agent({ keepAlive: true, maxSockets: 100 })
  cleanup.defer(() => connections.destroy())
  let turn = 0
  const forward = (incoming: IncomingMessage, outgoing: ServerResponse) => {
    const ready = upstreams.filter(({ isReady }) => isReady)
    const { port } = ready[turn++ % ready.length] ?? upstreams[0]!
    const { method, url: path, headers } = incoming
    const sent = request(
      { host: '127.0.0.1', port, method: method!, path: path!, headers, agent: connections },
      answer => {
        outgoing.writeHead(answer.statusCode!, { 'Content-Type': answer.headers['content-type'] ?? 'text/plain' })
        answer.pipe(outgoing)
      },
    )
    sent.on('error', error => outgoing.writeHead(502).end(String(error)))
    incoming.pipe(sent)
  }
  const proxy = createServer(forward).listen(0, '127.0.0.1')
  await once(proxy, 'listening')
  cleanup.defer(() => {
    proxy.close()
    proxy.closeAllConnections()
  })
  const url = `http://127.0.0.1:${(proxy.address() as AddressInfo).port}`

  const untilReady = async (upstream: Upstream) => {
    for (let i = 0; i < 600 && !upstream.isReady; i++) await delay(100)
    if (!upstream.isReady) throw new Error(`The control plane at port ${upstream.port} did not become ready.`)
  }
  for (const upstream of upstreams) await untilReady(upstream)

  // ---- the load: reads, and one write in ten

  const outcomes = new Map<string, number>()
  const latencies: number[] = []
  const pending = new Set<Promise<void>>()
  let sent = 0
  const sendOne = async () => {
    const isWrite = sent++ % 10 === 0
    const startedAt = performance.now()
    const outcome = await fetch(`${url}${isWrite ? '/v2/tag-keys' : '/v2/deployments'}`, {
      method: isWrite ? 'POST' : 'GET',
      headers: { 'X-Api-Key': key, 'Content-Type': 'application/json' },
      ...(isWrite && { body: '{' }),
    }).then(
      async answer => {
        const text = await answer.text()
        // The write is refused as invalid: workspaces have a hundred keys of tags at most.
        return answer.status === (isWrite ? 422 : 200) || answer.status === 400
          ? 'answered'
          : `${answer.status} ${text}`
      },
      error => String(error.cause ?? error),
    )
    latencies.push(performance.now() - startedAt)
    outcomes.set(outcome, (outcomes.get(outcome) ?? 0) + 1)
  }
  const load = setInterval(() => {
    for (let i = 0; i < REQUESTS_PER_SECOND / 50; i++) {
      const one = sendOne().finally(() => pending.delete(one))
      pending.add(one)
    }
  }, 20)
  cleanup.defer(() => clearInterval(load))

  await delay(2000)
  for (const upstream of upstreams) {
    const [startedAt, exited] = [Date.now(), once(upstream.child!, 'exit')]
    upstream.child!.kill('SIGTERM')
    const [code] = await exited
    check('the control plane ends by itself with status 0', code === 0, `status ${code}`)
    note(
      `it took ${((Date.now() - startedAt) / 1000).toFixed(1)} s, of which ${SHUTDOWN_DELAY_SECONDS} s are the delay`,
    )
    start(upstream)
    await delay(1000)
    await untilReady(upstream)
  }
  await delay(1000)
  clearInterval(load)
  await Promise.all(pending)
  const failures = [...outcomes].filter(([outcome]) => outcome !== 'answered')
  latencies.sort((a, b) => a - b)
  const at = (share: number) => latencies[Math.floor(latencies.length * share)]!.toFixed(0)
  note(`${sent} requests; p50 ${at(0.5)} ms, p99 ${at(0.99)} ms, slowest ${latencies.at(-1)!.toFixed(0)} ms`)
  check('no request failed', failures.length === 0, JSON.stringify(failures))
})
