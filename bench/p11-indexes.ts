// P11: what the indexes of deployments cost a patch, and how many patches update none of them (HOT).

import type { Bench, BenchContext } from './support/bench-context.ts'
import { hasPgbench, PGBENCH_MISSING, preparePgbench } from './support/pgbench.ts'
import {
  captureStatements,
  inlineParameters,
  openSeededDatabase,
  type SeededDatabase,
  withClient,
} from './support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from './support/statistics.ts'

const SLICES = 5
const SECONDS = 2
const CLIENTS = 2
const DEPLOYMENTS = 10_000
const TARGETS = { ratio: 0.85, hot: 0.95 }

export default {
  id: 'P11',
  what: 'patches per second ÷ with the primary key only; share of HOT updates',
  target: `≥ ${TARGETS.ratio}; ≥ ${TARGETS.hot}`,
  async run(context: BenchContext) {
    if (!hasPgbench) return PGBENCH_MISSING
    const size = { tenants: 10, deployments: DEPLOYMENTS }
    const all = await openSeededDatabase(context, await context.database(), size)
    const bare = await openSeededDatabase(context, await context.database(), size)
    await withClient(bare.url, client => client.query(DROP_SECONDARY_INDEXES))
    const [withAllIndexes, withPrimaryKey] = [await preparePatches(context, all), await preparePatches(context, bare)]
    const candidates = { all: () => withAllIndexes(SECONDS, CLIENTS), bare: () => withPrimaryKey(SECONDS, CLIENTS) }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const before = await readUpdateCounts(all)
    const slices = await measureSlices(SLICES, candidates, context.progress)
    const after = await readUpdateCounts(all)
    const ratio = medianRatio(slices.all, slices.bare)
    const hot = (after.hot - before.hot) / (after.updates - before.updates)
    return {
      measured: `${formatNumber(ratio)}; ${formatNumber(hot, 3)}`,
      met: ratio >= TARGETS.ratio && hot >= TARGETS.hot,
      notes: [
        `${formatNumber(median(slices.all), 0)} and ${formatNumber(median(slices.bare), 0)} patches per second`,
        'each patch creates a revision and seals a secret',
      ],
      figures: { ratio, hot, tps: slices },
    }
  },
} satisfies Bench

const DROP_SECONDARY_INDEXES = `do $$ declare i regclass; begin
  for i in select indexrelid from pg_index where indrelid = 'deployments'::regclass and not indisprimary loop
    execute format('drop index %s', i);
  end loop;
end $$`

/** The statements of a patch, each time for another deployment of the biggest tenant. */
async function preparePatches(context: BenchContext, seeded: SeededDatabase) {
  const { organization_id, tenant_id, url } = seeded
  const id = await withClient(url, async client => {
    await client.query('update deployments set deleting_at = null, remote_reconciled = false')
    await client.query('vacuum (full, analyze) deployments')
    const { rows } = await client.query('select id from deployments where tenant_id = $1 limit 1', [tenant_id])
    return rows[0].id as string
  })
  const body = JSON.stringify({ secrets: [{ name: 'TOKEN', value: 'a value' }] })
  const statements = await captureStatements(seeded, `/v2/deployments/${id}`, { method: 'PATCH', body })
  const revision = await withClient(url, async client => {
    const { rows } = await client.query('select latest_revision_id from deployments where id = $1', [id])
    return rows[0].latest_revision_id as string
  })
  const script = statements.map(one => `${inlineParameters(one)};\n`).join('')
  const randomized = script
    // The same value again would be no change.
    .replaceAll(/"fingerprints":\["[^"]*"\]/g, '"fingerprints":[]')
    .replaceAll(`'${id}'`, `md5('${organization_id}:deployment:' || 10 * :n)`)
    .replaceAll(`'${revision}'`, `md5(:r || 'revision')`)
  const draws = `\\set n random(1, ${DEPLOYMENTS / 10})\n\\set r random(1, 1000000000000000)\n`
  return preparePgbench(context, url, `${draws}begin;\n${randomized}commit;\n`)
}

async function readUpdateCounts({ url }: SeededDatabase): Promise<{ updates: number; hot: number }> {
  return withClient(url, async client => {
    const { rows } = await client.query(
      `select n_tup_upd::integer as updates, n_tup_hot_upd::integer as hot
        from pg_stat_user_tables
        where relname = 'deployments'`,
    )
    return rows[0]
  })
}
