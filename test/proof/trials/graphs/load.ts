// Load on one server of graphs: runs at a rate, open streams, and a million checkpoints. It notes what that takes.
import { execFile } from 'node:child_process'
import { readdirSync, readFileSync } from 'node:fs'
import { loadavg } from 'node:os'
import { promisify } from 'node:util'
import type { Postgres } from '../../../../src/host/embedded-postgres.ts'
import { connect } from '../../../support/postgres.ts'
import { check, note } from '../../support/trial.ts'

const numberOf = (name: string, fallback: number) =>
  Number(process.argv.find(argument => argument.startsWith(`--${name}=`))?.split('=')[1] ?? fallback)
const RATE = numberOf('rate', 100)
const SECONDS = Math.min(numberOf('seconds', 20), 300)
const STREAMS = Math.min(numberOf('streams', 1000), 4000)
const CHECKPOINTS = Math.min(numberOf('checkpoints', 1_000_000), 5_000_000)
const run = promisify(execFile)

type Server = { url: string; pid: number; stop(): Promise<void> }
type Options = { url: string; postgres: Postgres; start(): Promise<Server>; script: string }
type Result = { answered: number; failed: number; perSecond: number; p50: number; p95: number; p99: number }

const TICK_MS = 10
function readProcess(pid: string) {
  try {
    const text = readFileSync(`/proc/${pid}/stat`, 'utf8')
    const fields = text
      .slice(text.lastIndexOf(')') + 2)
      .split(' ')
      .map(Number)
    const [, parent, , , , , , , , , , own, ofSystem, ended, endedOfSystem] = fields as number[]
    const resident = Number(readFileSync(`/proc/${pid}/statm`, 'utf8').split(' ')[1]) * 4096
    return {
      pid: Number(pid),
      parent,
      ms: (own! + ofSystem!) * TICK_MS,
      ended: (ended! + endedOfSystem!) * TICK_MS,
      resident,
    }
  } catch {
    return null
  }
}

/** CPU and memory of a process and of those that it started. */
function readTree(root: number) {
  const all = readdirSync('/proc')
    .filter(name => /^\d+$/.test(name))
    .flatMap(pid => readProcess(pid) ?? [])
  const ids = new Set([root])
  for (let size = 0; size < ids.size; ) {
    size = ids.size
    for (const one of all) if (ids.has(one.parent!)) ids.add(one.pid)
  }
  const tree = all.filter(one => ids.has(one.pid))
  const total = (read: (one: (typeof all)[number]) => number) => tree.reduce((sum, one) => sum + read(one), 0)
  const self = tree.find(one => one.pid === root)
  return { ms: total(one => one.ms + one.ended), mb: Math.round(total(one => one.resident) / 2 ** 20), own: self }
}

export async function tryLoad({ url, postgres, start, script }: Options): Promise<void> {
  const client = await connect(url)
  const server = await start()
  const load = async (kind: string, ...settings: string[]) =>
    JSON.parse((await run(process.execPath, [script, server.url, kind, ...settings])).stdout)
  const size = async () => {
    const { rows } = await client.query('select pg_database_size(current_database()) / 1048576 as mb')
    return Number(rows[0].mb)
  }
  const rowsWritten = async () => {
    await new Promise(resolve => setTimeout(resolve, 1500))
    const { rows } = await client.query(
      `select sum(n_tup_ins + n_tup_upd + n_tup_del)::float8 as rows from pg_stat_user_tables`,
    )
    return rows[0].rows as number
  }
  const memory = () =>
    `memory: server ${Math.round((readTree(server.pid).own?.resident ?? 0) / 2 ** 20)} MB, with its graphs ` +
    `${readTree(server.pid).mb} MB, processes of Postgres ${readTree(postgres.pid).mb} MB (shared pages in each)`

  async function measure(name: string, ...settings: string[]): Promise<Result> {
    const [graphs, database, rows] = [readTree(server.pid).ms, readTree(postgres.pid).ms, await rowsWritten()]
    const result: Result = await load('runs', `rate=${RATE}`, `seconds=${SECONDS}`, ...settings)
    const written = (await rowsWritten()) - rows
    const each = (ms: number) => (ms / result.answered).toFixed(2)
    note(`${name}, load ${loadavg()[0]!.toFixed(1)}: ${JSON.stringify(result)}`)
    note(
      `  for a run: ${each(readTree(server.pid).ms - graphs)} ms of CPU in the server and its graphs, ` +
        `${each(readTree(postgres.pid).ms - database)} ms in Postgres, ${each(written)} rows written`,
    )
    check(`${name}: each is answered rightly`, result.failed === 0, `${result.failed} are not`)
    return result
  }

  try {
    await load('runs', 'rate=20', 'seconds=5')
    await measure(`${RATE} runs a second without threads`)
    await measure(`${RATE} runs a second on 100 threads`, 'threads=100')
    note(memory())

    const streams = await load('streams', `count=${STREAMS}`)
    note(`${STREAMS} streams at once, load ${loadavg()[0]!.toFixed(1)}: ${JSON.stringify(streams)}`)
    check(`${STREAMS} streams at once: each event arrives`, streams.failed === 0, `${streams.failed} do not`)
    note(memory())

    const begin = performance.now()
    await fill(client, server.url)
    note(`${CHECKPOINTS} checkpoints made in ${Math.round((performance.now() - begin) / 1000)} s, ${await size()} MB`)
    const reads: Record<string, Result> = await load('reads', 'rate=50', 'seconds=5')
    for (const [name, result] of Object.entries(reads)) {
      note(`read ${name} among them: ${JSON.stringify(result)}`)
      check(`read ${name} among ${CHECKPOINTS} checkpoints`, result.failed === 0 && result.answered > 0)
    }
    await measure(`${RATE} runs a second on 100 threads among them`, 'threads=100')
    await prune(client, server.url)
    note(memory())
  } finally {
    await server.stop()
    await client.end()
  }
}

type Client = Awaited<ReturnType<typeof connect>>
async function post(url: string, path: string, body: object) {
  const headers = { 'Content-Type': 'application/json' }
  const response = await fetch(url + path, { method: 'POST', headers, body: JSON.stringify(body) })
  // biome-ignore lint/suspicious/noExplicitAny: answers of a server.
  return (await response.json()) as any
}

/** Copies of the rows that ten turns of a conversation leave. */
async function fill(client: Client, url: string): Promise<void> {
  const { thread_id } = await post(url, '/threads', {})
  for (let turn = 0; turn < 10; turn++) {
    const input = { messages: [{ role: 'user', content: `A question of some length, as people ask, number ${turn}.` }] }
    await post(url, `/threads/${thread_id}/runs/wait`, { assistant_id: 'agent', input })
  }
  const { rows } = await client.query(
    `select count(*)::int as count from graphs_javascript.checkpoints where thread_id = $1`,
    [thread_id],
  )
  const threads = Math.ceil(CHECKPOINTS / rows[0].count)
  const copies = (table: string, columns: string) =>
    `insert into graphs_javascript.${table} (thread_id, ${columns})
    select f.thread_id::text, ${columns}
    from filled f, graphs_javascript.${table} c
    where c.thread_id = '${thread_id}' and f.number between $1 and $2`
  await client.query(
    `create temporary table filled as
    select gen_random_uuid() as thread_id, number from generate_series(1, ${threads}) number`,
  )
  await client.query(
    `insert into graphs.threads (thread_id, metadata, "values", created_at, updated_at)
    select f.thread_id, metadata || jsonb_build_object('number', number % 1000), "values",
      now() - number * interval '1 s', now() - number * interval '1 s'
    from filled f, graphs.threads t
    where t.thread_id = '${thread_id}'`,
  )
  for (let from = 1; from <= threads; from += 2000)
    for (const [table, columns] of [
      ['checkpoints', 'checkpoint_ns, checkpoint_id, parent_checkpoint_id, type, checkpoint, metadata'],
      ['checkpoint_blobs', 'checkpoint_ns, channel, version, type, blob'],
      ['checkpoint_writes', 'checkpoint_ns, checkpoint_id, task_id, idx, channel, type, blob'],
    ] as const)
      await client.query(copies(table, columns), [from, from + 1999])
  await client.query('vacuum analyze')
}

async function prune(client: Client, url: string): Promise<void> {
  const { rows } = await client.query('select thread_id from graphs.threads order by created_at limit 1000')
  const thread_ids = rows.map(row => row.thread_id)
  for (const strategy of ['keep_latest', 'delete']) {
    const begin = performance.now()
    const { pruned_count } = await post(url, '/threads/prune', { thread_ids, strategy })
    const took = Math.round(performance.now() - begin)
    check(`1000 threads pruned by ${strategy}`, pruned_count === 1000, `${pruned_count}`)
    note(`  in ${took} ms`)
  }
}
