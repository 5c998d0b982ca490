// Fills a workspace with runs: traces of five over the last two weeks, in ten projects, of which the first has half.
import pg from 'pg'
import type { BootstrapResult } from '../../../src/people/access/bootstrap.ts'
import { makeTenant } from './database.ts'
import { type DatasetOptions, openDataset } from './dataset.ts'
import type { Cleanup } from './processes.ts'

export const RUNS = Number(process.env.BENCH_RUNS || 2_000_000)
export const RUNS_TEXT = RUNS.toLocaleString('en')

/** The newest run is as old as `madeAt`. */
export type SeededTraces = { url: string; tenant: BootstrapResult; madeAt: number }

export async function openTraces(cleanup: Cleanup, options: DatasetOptions): Promise<SeededTraces> {
  const { url, info, madeAt } = await openDataset(
    cleanup,
    {
      name: 'traces',
      what: `${RUNS_TEXT} runs in Postgres`,
      size: { runs: RUNS },
      sources: ['test/proof/support/seeded-traces.ts'],
      async make({ url }, progress) {
        const tenant = await makeTenant(url, { organization: 'Bench', workspace: 'Traces' })
        await seedTraces(url, tenant, RUNS, done => progress(`${done} of ${RUNS_TEXT}`))
        return tenant
      },
    },
    options,
  )
  return { url, tenant: info, madeAt }
}

const CHUNK = 20_000
const DAYS = 13

const MAKE_PARTITIONS = `
  select make_runs_partition('shortlived', (date_trunc('day', now() at time zone 'UTC') - n * interval '1 day')
    at time zone 'UTC')
  from generate_series(0, $1::integer) n`
const INSERT_PROJECTS = `
  insert into projects (organization_id, tenant_id, name)
  select $1, $2, 'project-' || n
  from generate_series(0, 9) n`

/** Runs $3 to $4 of $5. Latencies, models, errors and metadata vary, so that filters find a part of them. */
const INSERT_RUNS = `
  insert into runs (
    organization_id, tenant_id, session_id, id, trace_id, trace_time, order_time, trace_tier, dotted_order,
    parent_run_id, name, run_type, start_time, end_time, error, tags, metadata, thread_id, extra, inputs, outputs,
    inputs_preview, outputs_preview, total_tokens, prompt_tokens, completion_tokens, total_cost, usage_details
  )
  select
    $1, $2, p.id, r.id, r.trace_id, r.trace_time, r.order_time, 'shortlived',
    r.root || case when r.place > 0 then '.' || to_char(r.order_time at time zone 'UTC', f.stamp) || r.id else '' end,
    case when r.place > 0 then r.trace_id end,
    case when r.place = 0 then 'agent' else 'model-' || r.n % 7 end,
    case when r.place = 0 then 'chain' when r.place % 2 = 1 then 'llm' else 'tool' end,
    r.order_time,
    case when r.trace % 500 > 0 then r.order_time + (50 + r.n * 7919 % 20000) * interval '1 millisecond' end,
    case when r.n % 50 = 0 then 'Error: the model did not answer ' || r.n end,
    case r.n % 3 when 0 then '{}'::text[] when 1 then '{production}' else '{production,beta}' end,
    jsonb_build_object('environment', 'production', 'user', 'user-' || r.trace % 1000, 'release', r.trace % 20),
    'thread-' || r.trace / 3,
    '{"metadata":{"environment":"production","user":"user-' || r.trace % 1000 || '"},"runtime":{"sdk":"js"}}',
    '{"messages":[{"role":"user","content":"' || f.question || '"}]}',
    '{"content":"' || f.answer || '","usage_metadata":{"input_tokens":120,"output_tokens":' || r.n % 300 || '}}',
    left(f.question, 200), left(f.answer, 200),
    120 + r.n % 300, 120, r.n % 300, (r.n % 300) * 0.00001, '{}'
  from (
    select
      n, n / 5 as trace, n % 5 as place,
      md5('trace' || n / 5)::uuid as trace_id,
      case when n % 5 = 0 then md5('trace' || n / 5)::uuid else md5('run' || n)::uuid end as id,
      t.trace_time, t.trace_time + n % 5 * interval '200 milliseconds' as order_time,
      to_char(t.trace_time at time zone 'UTC', 'YYYYMMDD"T"HH24MISSUS"Z"') || md5('trace' || n / 5)::uuid as root
    from generate_series($3::bigint, $4::bigint) n
    cross join lateral (
      select date_trunc('milliseconds', now() - ($5 - n / 5 * 5)::numeric / $5 * interval '${DAYS} days') as trace_time
    ) t
  ) r
  cross join lateral (
    select
      'YYYYMMDD"T"HH24MISSUS"Z"' as stamp,
      'How do I configure the gateway number ' || r.n || ' for region ' || r.n % 40 || '? '
        || repeat('Please answer with an example. ', 4) as question,
      'The gateway ' || md5(r.n::text) || ' needs a token of its own. '
        || repeat('Then restart the service. ', 4) as answer
  ) f
  join projects p on p.tenant_id = $2 and p.name = 'project-' || greatest(r.trace % 20 - 10, 0)`

export async function seedTraces(
  url: string,
  { organization_id, tenant_id }: BootstrapResult,
  runs: number,
  onProgress: (done: number) => void = () => {},
): Promise<void> {
  const client = new pg.Client(url)
  await client.connect()
  try {
    await client.query('set role slipway_system')
    await client.query(MAKE_PARTITIONS, [DAYS])
    await client.query('reset role')
    await client.query(INSERT_PROJECTS, [organization_id, tenant_id])
    for (let first = 0; first < runs; first += CHUNK) {
      const last = Math.min(first + CHUNK, runs) - 1
      await client.query(INSERT_RUNS, [organization_id, tenant_id, first, last, runs])
      onProgress(last + 1)
    }
    await client.query('vacuum (analyze) runs')
  } finally {
    await client.end()
  }
}
