// Measures what a quiet workspace waits while another one sends the dearest reads that its key may send.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startPostgres } from '../../../src/host/embedded-postgres.ts'
import { createHost } from '../../../src/host/host.ts'
import { migrate } from '../../../src/host/migrate.ts'
import { bootstrap } from '../../../src/people/access/bootstrap.ts'
import { check, note, runTrial } from '../support/trial.ts'

const RUNS = 20_000
const BATCH = 100
const SECONDS = Number(process.env.FAIRNESS_SECONDS ?? 12)
/** Requests a second of each workspace. The rate limit admits more. */
const PER_SECOND = 3
const SLOWEST_P99_MS = 1000
const KEY = 'x-api-key'

type Host = ReturnType<typeof createHost>
type Read = { path: string; body?: object }
type Answer = { status: number; ms: number }

async function request({ app }: Host, key: string, { path, body }: Read): Promise<Answer> {
  const startedAt = performance.now()
  const headers = { [KEY]: key, 'Content-Type': 'application/json' }
  const init = body ? { method: 'POST', headers, body: JSON.stringify(body) } : { headers }
  const response = await app.request(`http://slipway.test${path}`, init)
  await response.arrayBuffer()
  return { status: response.status, ms: performance.now() - startedAt }
}

/** Runs with 30 metadata of 100 characters each, of which statistics make groups. */
async function storeRuns(host: Host, key: string, count: number): Promise<string> {
  const startedAt = Date.now() - 3_600_000
  const run = (i: number) => {
    const id = crypto.randomUUID()
    const start_time = new Date(startedAt + i).toISOString()
    const metadata = Object.fromEntries(
      Array.from({ length: 30 }, (_, k) => [`key${k}`, `${k === 0 ? i % 500 : k} `.padEnd(100, 'v')]),
    )
    return {
      id,
      trace_id: id,
      dotted_order: `${start_time.replaceAll(/[-:.]/g, '').replace('Z', '000Z')}${id}`,
      name: `run ${i}`,
      run_type: 'chain',
      start_time,
      end_time: start_time,
      session_name: 'default',
      inputs: { text: 'a '.repeat(100) },
      extra: { metadata: { ...metadata, thread_id: `thread ${i % 5000}` } },
    }
  }
  for (let i = 0; i < count; i += BATCH) {
    const post = Array.from({ length: Math.min(BATCH, count - i) }, (_, k) => run(i + k))
    const { status } = await request(host, key, { path: '/runs/batch', body: { post } })
    if (status !== 202) throw new Error(`runs/batch answered ${status}`)
  }
  const sessions = await host.app.request('http://slipway.test/sessions', { headers: { [KEY]: key } })
  return ((await sessions.json()) as [{ id: string }])[0].id
}

/** Sends reads at a steady pace, without waiting for their answers. */
async function sendSteadily(send: () => Promise<Answer>, seconds: number): Promise<Answer[]> {
  const running: Promise<Answer>[] = []
  for (let i = 0; i < seconds * PER_SECOND; i++) {
    running.push(send())
    await delay(1000 / PER_SECOND)
  }
  return Promise.all(running)
}

function describe(answers: Answer[]) {
  const times = answers.map(({ ms }) => ms).sort((a, b) => a - b)
  const at = (part: number) => Math.round(times[Math.min(times.length - 1, Math.floor(times.length * part))]!)
  const counts = Map.groupBy(answers, ({ status }) => status)
  return {
    failed: answers.filter(({ status }) => status >= 300).length,
    p50: at(0.5),
    p99: at(0.99),
    statuses: [...counts].map(([status, { length }]) => `${length} × ${status}`).join(', '),
  }
}

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  const work = mkdtempSync(join(tmpdir(), 'slipway-fairness-'))
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  const postgres = await startPostgres({ dataDir: join(work, 'postgres') })
  cleanup.defer(() => postgres.stop())
  await migrate(postgres.url)
  const host = createHost(
    {
      PUBLIC_URL: 'http://slipway.test',
      SEALING_KEYS: `a:${'A'.repeat(43)}`,
      UPLOADS_DIR: work,
      DATABASE_URL: postgres.url,
      DATABASE_SYSTEM_URL: postgres.url,
    },
    { log: () => {} },
  )
  cleanup.defer(host.close)
  const open = async () => (await bootstrap(host.app.database, { organization: crypto.randomUUID() })).api_key
  const [loud, quiet] = [await open(), await open()]
  const session = await storeRuns(host, loud, RUNS)
  const ownSession = await storeRuns(host, quiet, BATCH)
  const start_time = new Date(Date.now() - 86_400_000).toISOString()
  const scope = { session: [session], start_time }
  const kinds: Record<string, Read> = {
    'statistics by metadata': {
      path: '/runs/stats',
      body: { ...scope, group_by: { attribute: 'metadata', path: 'key0', max_groups: 100 } },
    },
    facets: { path: '/runs/stats', body: { ...scope, select: ['run_facets'] } },
    'a filter by metadata': {
      path: '/runs/query',
      body: { ...scope, filter: 'and(eq(metadata_key, "key0"), eq(metadata_value, "-"))' },
    },
    'a search': { path: '/runs/query', body: { ...scope, filter: 'search("nothing")' } },
    threads: { path: '/runs/group', body: { session_id: session, group_by: 'conversation', start_time, limit: 100 } },
    'projects with statistics': { path: '/sessions?include_stats=true' },
  }
  const reads: Read[] = [
    { path: '/v2/deployments' },
    { path: '/runs/query', body: { session: [ownSession], limit: 10, start_time } },
    { path: '/runs/stats', body: { session: [ownSession], select: ['run_count'], start_time } },
  ]
  let next = 0
  const sendQuietly = () => request(host, quiet, reads[next++ % reads.length]!)
  for (const _ of reads) await sendQuietly()
  const calm = describe(await sendSteadily(sendQuietly, SECONDS / 2))
  note(`${'beside'.padEnd(26)} quiet: failed  p50 ms  p99 ms   loud: p50 ms  answers`)
  const row = (name: string, one: typeof calm, other?: typeof calm) =>
    note(
      [name.padEnd(26), `${one.failed}`.padStart(13), `${one.p50}`.padStart(7), `${one.p99}`.padStart(7)].join(' ') +
        (other ? `${String(other.p50).padStart(15)}  ${other.statuses}` : ''),
    )
  row('nothing', calm)
  for (const [name, read] of Object.entries(kinds)) {
    const [own, other] = await Promise.all([
      sendSteadily(sendQuietly, SECONDS),
      sendSteadily(() => request(host, loud, read), SECONDS),
    ])
    const [quietly, loudly] = [describe(own), describe(other)]
    row(name, quietly, loudly)
    check(`a quiet workspace is served beside ${name}`, quietly.failed === 0 && quietly.p99 < SLOWEST_P99_MS)
  }
})
