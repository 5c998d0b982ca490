// Searches 50 million lines in ClickHouse, and some million in Postgres, through the API: the newest page, rare text,
// a member of JSON, an id of a request. Prints the times of many searches with other words each, and the room on disk.
// ClickHouse is the engine of the npm package chdb. `--lines=`, `--postgres-lines=`, `--searches=` change the counts.
import { mkdtempSync, rmSync, statfsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import pg from 'pg'
import { connectClickHouse } from '../../../src/kernel/clickhouse/client.ts'
import { name, sql } from '../../../src/kernel/clickhouse/sql.ts'
import { startClickHouse } from '../../support/clickhouse.ts'
import { makeRandom } from '../support/random.ts'
import { createDeployments, makeClient } from '../support/retrying-client.ts'
import { createQuietApp, openTestbed, SETTINGS, type Testbed } from '../support/testbed.ts'
import { check, note, optionOf, runTrial } from '../support/trial.ts'

const LINES = Number(optionOf('lines') ?? 50_000_000)
const POSTGRES_LINES = Number(optionOf('postgres-lines') ?? 1_000_000)
const SEARCHES = Number(optionOf('searches') ?? 60)
const DEPLOYMENTS = 20
const DAYS = 14
/** Lines of one insert. */
const CHUNK = 1_000_000
/** A rare text is in one of so many lines, and so is a user of a JSON line. */
const RARE = 100_000
const USERS = 1_000_000
const GIB = 1024 ** 3
const LEAST_FREE = 15 * GIB
/** A page, with the trip to the API. */
const TARGET_MS = 3000

const newestAt = Date.now()
const oldestAt = newestAt - DAYS * 86_400_000

/** The same lines in both databases, by their number `n`: requests, JSON with a user, and what a program says. */
const REQUEST_ID = (n: string) => `concat('req-', ${n})`
const MESSAGES = {
  request: (n: string) =>
    `concat('GET /orders/', ${n}, ' answered 200 in ', ${n} % 900, ' ms for tenant ', ${n} % 5000)`,
  json: (n: string) =>
    `concat('{"msg":"order paid","user":', ${n} % ${USERS}, ',"amount":', ${n} % 977, ',"currency":"EUR"}')`,
  plain: (n: string) =>
    `concat('worker ', ${n} % 16, ' finished batch ', ${n}, ' of queue mails: 128 sent, 0 failed, ', ${n} % 60, ' s')`,
  rare: (n: string) =>
    `concat('connection to ledger-', intDiv(${n}, ${RARE}), ' was refused, giving up after 5 attempts')`,
}

async function fillClickHouse(url: string, tenant: string, ids: string[]): Promise<void> {
  const clickHouse = connectClickHouse(url)
  const message = `multiIf(n % ${RARE} = 7, ${MESSAGES.rare('n')}, n % 4 = 0, ${MESSAGES.json('n')},
    n % 4 = 1, ${MESSAGES.request('n')}, ${MESSAGES.plain('n')})`
  for (let from = 0; from < LINES; from += CHUNK) {
    const free = statfsSync(tmpdir())
    if (free.bavail * free.bsize < LEAST_FREE) throw new Error(`The disk is nearly full after ${from} lines.`)
    const statement = `
      insert into log_lines
      select toUUID('${tenant}'), 'deploy', at, toUUID(id), n, toUUID(id), n % ${RARE} = 7 ? 3 : 1, 'web', ${message},
        n % 4 = 0
          ? map('msg', 'order paid', 'user', toString(n % ${USERS}), 'amount', toString(n % 977), 'currency', 'EUR')
          : CAST(map(), 'Map(String, String)'),
        n % 4 = 0 ? map('user', 'number', 'amount', 'number') : CAST(map(), 'Map(String, String)'),
        n % 4 = 1 ? ${REQUEST_ID('n')} : '', '', toDate(at)
      from (
        select number + ${from} as n,
          toInt64(${oldestAt} + n * ${(newestAt - oldestAt) / LINES}) as ms,
          fromUnixTimestamp64Milli(ms, 'UTC') as at,
          arrayElement([${ids.map(id => `'${id}'`)}], 1 + n % ${ids.length}) as id
        from numbers(${Math.min(CHUNK, LINES - from)})
      )`
    await clickHouse.execute(sql`${name(statement)}`, 600)
    if ((from / CHUNK) % 10 === 9) note(`${(from + CHUNK) / 1e6} million lines`)
  }
}

async function fillPostgres(url: string, tenant: string, ids: string[]): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  const { rows } = await client.query('select id, deployment_id from revisions where deployment_id = any($1)', [ids])
  const revisionOf = new Map(rows.map(({ id, deployment_id }) => [deployment_id as string, id as string]))
  const known = ids.filter(id => revisionOf.has(id))
  const list = (values: string[]) => `array[${values.map(value => `'${value}'`)}]::uuid[]`
  const message = `case when n % ${RARE} = 7 then ${MESSAGES.rare('n')} when n % 4 = 0 then ${MESSAGES.json('n')}
    when n % 4 = 1 then ${MESSAGES.request('n')} else ${MESSAGES.plain('n')} end`
  await client.query(`
    insert into log_lines (organization_id, tenant_id, deployment_id, revision_id, kind, number, timestamp, severity,
      message, process, bytes_before, attributes, request_id)
    select w.organization_id, w.id, (${list(known)})[1 + n % ${known.length}],
      (${list(known.map(id => revisionOf.get(id)!))})[1 + n % ${known.length}], 'deploy', n + 1,
      to_timestamp((${oldestAt} + n * ${(newestAt - oldestAt) / POSTGRES_LINES}) / 1000.0),
      case when n % ${RARE} = 7 then 3 else 1 end, ${message.replaceAll('intDiv(', 'div(')}, 'web', n * 100,
      case when n % 4 = 0 then jsonb_build_object('msg', 'order paid', 'user', n % ${USERS}, 'amount', n % 977) end,
      case when n % 4 = 1 then ${REQUEST_ID('n')} end
    from workspaces w, generate_series(0, ${POSTGRES_LINES - 1}) n
    where w.id = '${tenant}'`)
  await client.query('analyze log_lines')
  await client.end()
}

const describe = (values: number[]): string => {
  const sorted = values.toSorted((a, b) => a - b)
  const at = (share: number) => sorted[Math.min(sorted.length - 1, Math.floor(share * sorted.length))]!.toFixed(0)
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms`
}

type Page = { logs: object[]; next_cursor: string | null; searched_until: string | null }

async function searchAll(
  store: string,
  testbed: Testbed,
  settings: Record<string, string>,
  key: string,
  lines: number,
) {
  const { app, system } = testbed.pools.connections
  const api = createQuietApp(
    { ...SETTINGS, DATABASE_URL: testbed.url, ...settings },
    { databaseConnections: { app, system } },
  )
  const random = makeRandom(1)
  const any = (most: number) => Math.floor(random() * most)
  const kinds: [string, () => string][] = [
    ['the newest page', () => 'limit=100'],
    ['the newest errors', () => 'limit=100&level=ERROR'],
    ['rare text', () => `q=${encodeURIComponent(`ledger-${any(lines / RARE)} was refused`)}`],
    ['text that is nowhere', () => `q=${encodeURIComponent(`no such ${any(1e9)}`)}`],
    ['a member of JSON', () => `attribute=user%3D${4 * any(Math.min(lines, USERS) / 4)}`],
    ['an id of a request', () => `request_id=req-${4 * any(lines / 4) + 1}`],
  ]
  for (const [kind, make] of kinds) {
    const times: number[] = []
    let [found, pages, partial] = [0, 0, 0]
    for (let i = 0; i < SEARCHES; i++) {
      const startedAt = performance.now()
      const answer = await api.fetch(
        new Request(`http://slipway.test/v2/logs?${make()}`, { headers: { 'X-Api-Key': key } }),
      )
      const body = (await answer.json()) as Page
      times.push(performance.now() - startedAt)
      if (answer.status !== 200) throw new Error(`${kind}: ${JSON.stringify(body)}`)
      pages++
      found += body.logs.length
      if (body.logs.length === 0 && body.next_cursor !== null) partial++
    }
    const rest = partial > 0 ? `, ${partial} of ${pages} not to the end` : ''
    note(`${store}, ${kind}: ${describe(times)}, ${(found / pages).toFixed(1)} lines a page${rest}`)
    check(
      `${store}, ${kind}: within ${TARGET_MS} ms`,
      Math.max(...times) <= TARGET_MS,
      `${Math.max(...times).toFixed(0)} ms`,
    )
  }
}

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  const defer = (end: () => unknown) => cleanup.defer(async () => void (await end()))
  const folder = mkdtempSync(join(tmpdir(), 'slipway-log-search-'))
  defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  const testbed = await openTestbed({ defer, seed: 1, share: 1, progress: () => {} })
  const { app, system } = testbed.pools.connections
  const { api_key, tenant_id } = (await testbed.tenant()) as { api_key: string; tenant_id: string }
  const quiet = createQuietApp({ ...SETTINGS, DATABASE_URL: testbed.url }, { databaseConnections: { app, system } })
  const ids = await createDeployments(makeClient(quiet.fetch, api_key), DEPLOYMENTS)

  if (POSTGRES_LINES > 0) {
    await fillPostgres(testbed.url, tenant_id, ids)
    await searchAll(`Postgres, ${POSTGRES_LINES / 1e6} million`, testbed, {}, api_key, POSTGRES_LINES)
  }
  if (LINES === 0) return
  const clickHouse = await startClickHouse(join(folder, 'data'))
  defer(clickHouse.stop)
  const startedAt = performance.now()
  await fillClickHouse(clickHouse.url, tenant_id, ids)
  const client = connectClickHouse(clickHouse.url)
  const [[bytes, rows]] = (await client.query<[string, string]>(sql`
    select toString(sum(bytes_on_disk)), toString(sum(rows))
    from system.parts
    where database = currentDatabase() and table = 'log_lines' and active`)) as [[string, string]]
  const seconds = (performance.now() - startedAt) / 1000
  note(`ClickHouse: ${rows} lines in ${seconds.toFixed(0)} s, ${(Number(bytes) / GIB).toFixed(1)} GiB`)
  await searchAll(
    `ClickHouse, ${LINES / 1e6} million`,
    testbed,
    { TRACES_CLICKHOUSE_URL: clickHouse.url },
    api_key,
    LINES,
  )
})
