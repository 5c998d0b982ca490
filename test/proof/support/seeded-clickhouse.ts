// The runs of `seeded-traces.ts` in ClickHouse, made by the engine itself. Each is two writes, a post and a patch.
import { join } from 'node:path'
import pg from 'pg'
import { connectClickHouse } from '../../../src/kernel/clickhouse/client.ts'
import { name, sql, uuid } from '../../../src/kernel/clickhouse/sql.ts'
import type { BootstrapResult } from '../../../src/people/access/bootstrap.ts'
import { startClickHouse } from '../../support/clickhouse.ts'
import { makeTenant } from './database.ts'
import { type DatasetOptions, openDataset } from './dataset.ts'
import type { Cleanup } from './processes.ts'
import { RUNS, RUNS_TEXT, type SeededTraces } from './seeded-traces.ts'

/** The tenant and its projects are in Postgres, at `url`. */
export type SeededClickHouse = SeededTraces & { clickHouseUrl: string }

const FOLDER = 'clickhouse'

export async function openClickHouse(cleanup: Cleanup, options: DatasetOptions): Promise<SeededClickHouse> {
  const { url, folder, info, madeAt } = await openDataset(
    cleanup,
    {
      name: 'clickhouse',
      what: `${RUNS_TEXT} runs in ClickHouse`,
      size: { runs: RUNS },
      sources: ['test/proof/support/seeded-clickhouse.ts', 'src/tracing/store/clickhouse/schema.ts'],
      async make({ url, folder }, progress) {
        const clickHouse = await startClickHouse(join(folder, FOLDER))
        try {
          const tenant = await makeTenant(url, { organization: 'Bench', workspace: 'Traces in ClickHouse' })
          await seedClickHouse(url, clickHouse.url, tenant, RUNS, done => progress(`${done} of ${RUNS_TEXT}`))
          return tenant
        } finally {
          await clickHouse.stop()
        }
      },
    },
    options,
  )
  const clickHouse = await startClickHouse(join(folder, FOLDER))
  cleanup.defer(clickHouse.stop)
  return { url, tenant: info, madeAt, clickHouseUrl: clickHouse.url }
}

const CHUNK = 100_000
const CHUNK_SECONDS = 300
const DAYS = 13
const PROJECTS = 10

export async function seedClickHouse(
  postgres: string,
  clickHouseUrl: string,
  { organization_id, tenant_id }: BootstrapResult,
  runs: number,
  onProgress: (done: number) => void = () => {},
): Promise<void> {
  const client = new pg.Client(postgres)
  await client.connect()
  const { rows } = await client.query(
    `insert into projects (organization_id, tenant_id, name)
      select $1, $2, 'project-' || n
      from generate_series(0, ${PROJECTS - 1}) n
      returning id, name`,
    [organization_id, tenant_id],
  )
  await client.end()
  const projects = rows.toSorted((a, b) => (a.name < b.name ? -1 : 1)).map(({ id }) => `'${id}'`)
  const clickHouse = connectClickHouse(clickHouseUrl)
  const now = Date.now()
  for (let first = 0; first < runs; first += CHUNK) {
    const size = Math.min(CHUNK, runs - first)
    for (const part of ['post', 'patch'] as const)
      await clickHouse.execute(insertRuns(tenant_id, projects, { first, size, runs, now }, part), CHUNK_SECONDS)
    onProgress(first + size)
  }
}

type Chunk = { first: number; size: number; runs: number; now: number }
const md5 = (text: string) => {
  const hex = `lower(hex(MD5(${text})))`
  const parts = [
    [1, 8],
    [9, 4],
    [13, 4],
    [17, 4],
    [21, 12],
  ].map(([at, n]) => `substring(${hex}, ${at}, ${n})`)
  return `toUUID(concat(${parts.join(`, '-', `)}))`
}
const micros = (time: string) => `leftPad(toString(toUnixTimestamp64Micro(${time}) % 1000000), 6, '0')`
const stamp = (time: string) => `concat(formatDateTime(${time}, '%Y%m%dT%H%i%S'), ${micros(time)}, 'Z')`

const PATCHED = ['end_time', 'error', 'outputs', 'usage'].map(
  member => ({ end_time: 3, error: 4, outputs: 10, usage: 12 })[member]!,
)

function insertRuns(tenant: string, projects: string[], { first, size, runs, now }: Chunk, part: 'post' | 'patch') {
  const isPost = part === 'post'
  const text = `
    insert into runs (
      tenant_id, session_id, order_time, id, digest, version, tier, week, patched, trace_id, trace_time, dotted_order,
      parent_run_id, ${
        isPost
          ? 'name, run_type, start_time, tags, metadata, thread_id, extra, inputs, inputs_preview'
          : `end_time, error, outputs, outputs_preview, total_tokens, prompt_tokens, completion_tokens, total_cost,
      usage_details`
      }
    )
    with
      intDiv(n, 5) as trace, n % 5 as place,
      fromUnixTimestamp64Micro(toInt64(${now}) * 1000
        - toInt64((${runs} - trace * 5) / ${runs} * ${DAYS * 86_400_000}) * 1000, 'UTC') as trace_time,
      trace_time + toIntervalMillisecond(place * 200) as order_time,
      ${md5(`concat('trace', toString(trace))`)} as trace_id,
      if(place = 0, trace_id, ${md5(`concat('run', toString(n))`)}) as id,
      concat(${stamp('trace_time')}, toString(trace_id)) as root,
      concat(
        'How do I configure the gateway number ', toString(n), ' for region ', toString(n % 40), '? ',
        repeat('Please answer with an example. ', 4)
      ) as question,
      concat(
        'The gateway ', lower(hex(MD5(toString(n)))), ' needs a token of its own. ',
        repeat('Then restart the service. ', 4)
      ) as answer
    select
      tenant, [${projects.join(', ')}][greatest(toInt64(trace % 20) - 10, 0) + 1]::UUID, order_time, id,
      cityHash64(n, '${part}'), toUnixTimestamp64Micro(order_time), 'shortlived', toMonday(order_time),
      ${isPost ? 0 : PATCHED.reduce((mask, bit) => mask | (1 << bit), 0)}, trace_id, trace_time,
      if(place = 0, root, concat(root, '.', ${stamp('order_time')}, toString(id))), if(place = 0, null, trace_id),
      ${
        isPost
          ? `if(place = 0, 'agent', concat('model-', toString(n % 7))),
      multiIf(place = 0, 'chain', place % 2 = 1, 'llm', 'tool'), order_time,
      multiIf(n % 3 = 0, '[]', n % 3 = 1, '["production"]', '["production","beta"]'),
      concat(
        '{"environment":"production","user":"user-', toString(trace % 1000), '","release":', toString(trace % 20), '}'
      ),
      concat('thread-', toString(intDiv(trace, 3))),
      concat(
        '{"metadata":{"environment":"production","user":"user-', toString(trace % 1000), '"},"runtime":{"sdk":"js"}}'
      ),
      concat('{"messages":[{"role":"user","content":"', question, '"}]}'), left(question, 200)`
          : `if(trace % 500 = 0, null, order_time + toIntervalMillisecond(50 + n * 7919 % 20000)),
      if(n % 50 = 0, concat('Error: the model did not answer ', toString(n)), null),
      concat(
        '{"content":"', answer, '","usage_metadata":{"input_tokens":120,"output_tokens":', toString(n % 300), '}}'
      ),
      left(answer, 200), 120 + n % 300, 120, n % 300, toDecimal128(n % 300, 18) / 100000, '{}'`
      }
    from (select number + ${first} as n from numbers(${size}))`
  const [before, after] = text.split('tenant, [') as [string, string]
  return sql`${name(before)}${uuid(tenant)}, [${name(after)}`
}
