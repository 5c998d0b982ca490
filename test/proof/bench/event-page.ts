// P21: a page of events from the middle of a large journal, against one of a small journal.
import { createHost } from '../../../src/host/host.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { SETTINGS } from '../support/database.ts'
import { withClient } from '../support/seeded-database.ts'
import { EVENTS, EVENTS_TEXT, FEW_EVENTS, RARE_TYPE, SOME_SUBJECT } from '../support/seeded-events.ts'
import { formatNumber, measureMedianMs, measureSlices, median, medianRatio } from '../support/statistics.ts'

/** The candidates besides the row's own. */
const [REPEATS, REPEATS_OF_OTHERS] = [100, 5]
const TARGET = 1.3

export default {
  id: 'P21',
  what: `latency of a page of 20 events at ${EVENTS_TEXT} events ÷ at ${FEW_EVENTS.toLocaleString('en')}`,
  target: `≤ ${TARGET}`,
  async run(context: BenchContext) {
    const { url, large, small } = await context.events()
    const { app, close } = createHost({ ...SETTINGS, DATABASE_URL: url }, { log: () => {} })
    context.defer(close)
    const page =
      (key: string, query: string, repeats = REPEATS_OF_OTHERS) =>
      () =>
        measureMedianMs(repeats, async () => app.request(`/v2/events?${query}`, { headers: { 'X-Api-Key': key } }))
    const { rows } = await withClient(url, client => client.query('select md5($1)::uuid as id', [SOME_SUBJECT]))
    const candidates = {
      large: page(large.api_key, `after=${EVENTS / 2}`, REPEATS),
      small: page(small.api_key, `after=${FEW_EVENTS / 2}`, REPEATS),
      newest: page(large.api_key, 'order=desc'),
      subject: page(large.api_key, `order=desc&subject_id=${rows[0].id}`),
      type: page(large.api_key, `type=${RARE_TYPE}`),
      time: page(large.api_key, 'start_time=2100-01-01T00:00:00Z'),
    }
    for (const candidate of Object.values(candidates)) await candidate()
    const slices = await measureSlices(candidates, context.progress)
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
