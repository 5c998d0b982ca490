// P21: a page of events from the middle of a large journal, against one of a small journal.
import { bootstrap } from '../src/access/bootstrap.ts'
import { createHost } from '../src/host/node.ts'
import type { Bench, BenchContext } from './support/bench-context.ts'
import { SEALING_KEYS } from './support/database.ts'
import { withClient } from './support/seeded-database.ts'
import { formatNumber, measureMedianMs, measureSlices, median, medianRatio } from './support/statistics.ts'

const [LARGE, SMALL] = [Number(process.env.BENCH_EVENTS || 1_000_000), 1000]
const [SLICES, REPEATS] = [7, 100]
const SUBJECTS = 2000
const TARGET = 1.3

/** Every subject has its events throughout the journal. One type in 5,000 is rare. */
const INSERT_EVENTS = `
  insert into events
    (scope_id, seq, organization_id, tenant_id, type, subject_id, actor_kind, request_id, data, changes)
  select $1, n, $2, $1,
    case when n % 5000 = 0 then 'deployment.deleted' else 'deployment.patched' end,
    md5((n % $4)::text)::uuid, 'key', md5(n::text), '{"generation": 7}',
    '[{"path": "source_config.replicas", "before": 1, "after": 2}]'
  from generate_series(2, $3) n`

export default {
  id: 'P21',
  what: `latency of a page of 20 events at ${LARGE.toLocaleString('en')} events ÷ at ${SMALL.toLocaleString('en')}`,
  target: `≤ ${TARGET}`,
  async run(context: BenchContext) {
    const { url } = await context.database()
    const { app, close } = createHost(
      { PUBLIC_URL: 'http://slipway.test', SEALING_KEYS, DATABASE_URL: url, RATE_LIMIT_PER_MINUTE: '0' },
      { log: () => {} },
    )
    context.defer(close)
    async function fill(workspace: string, events: number) {
      const tenant = await bootstrap(app.database, { organization: 'Bench', workspace })
      context.progress(`inserting ${events} events`)
      await withClient(url, async client => {
        await client.query(INSERT_EVENTS, [tenant.tenant_id, tenant.organization_id, events, SUBJECTS])
        await client.query('update journals set seq = $2 where scope_id = $1', [tenant.tenant_id, events])
      })
      return tenant
    }
    const [large, small] = [await fill('Large', LARGE), await fill('Small', SMALL)]
    await withClient(url, client => client.query('vacuum (analyze) events'))
    const page = (key: string, query: string) => () =>
      measureMedianMs(REPEATS, async () => app.request(`/v2/events?${query}`, { headers: { 'X-Api-Key': key } }))
    const { rows } = await withClient(url, client => client.query('select md5($1)::uuid as id', ['7']))
    const candidates = {
      large: page(large.api_key, `after=${LARGE / 2}`),
      small: page(small.api_key, `after=${SMALL / 2}`),
      newest: page(large.api_key, 'order=desc'),
      subject: page(large.api_key, `order=desc&subject_id=${rows[0].id}`),
      type: page(large.api_key, 'type=deployment.deleted'),
      time: page(large.api_key, 'start_time=2100-01-01T00:00:00Z'),
    }
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(SLICES, candidates, context.progress)
    const ratio = medianRatio(slices.large, slices.small)
    const ms = (name: keyof typeof slices) => `${formatNumber(median(slices[name]))} ms`
    return {
      measured: formatNumber(ratio),
      met: ratio <= TARGET,
      notes: [
        `${ms('large')} and ${ms('small')}; the newest ${ms('newest')}; of one resource ${ms('subject')}`,
        `of a rare type, from 10,000 events: ${ms('type')}; from a time on: ${ms('time')}`,
      ],
      figures: { ratio, ms: slices },
    }
  },
} satisfies Bench
