// P11: what the indexes of deployments cost a patch, and how many patches update none of them (HOT).

import { migrate } from '../../../src/host/migrate.ts'
import { type SeedResult, seed } from '../../../src/host/seed-data.ts'
import type { Bench, BenchContext } from '../support/bench-context.ts'
import { hasPgbench, PGBENCH_MISSING, preparePgbench } from '../support/pgbench.ts'
import { captureStatements, createDatabase, inlineParameters, withClient } from '../support/seeded-database.ts'
import { formatNumber, measureSlices, median, medianRatio } from '../support/statistics.ts'

const SECONDS = 1
const CLIENTS = 2
const SIZE = { tenants: 10, deployments: 10_000 }
const TARGETS = { ratio: 0.85, hot: 0.95 }

export default {
  id: 'P11',
  what: 'patches per second ÷ with the primary key only; share of HOT updates',
  target: `≥ ${TARGETS.ratio}; ≥ ${TARGETS.hot}`,
  async run(context: BenchContext) {
    if (!hasPgbench) return PGBENCH_MISSING
    const { all, bare } = await makeDatabases(context)
    const [withAllIndexes, withPrimaryKey] = [await preparePatches(context, all), await preparePatches(context, bare)]
    const candidates = {
      all: () => withAllIndexes(SECONDS, { clients: CLIENTS }),
      bare: () => withPrimaryKey(SECONDS, { clients: CLIENTS }),
    }
    context.progress('warming up')
    for (const candidate of Object.values(candidates)) await candidate()
    const before = await readUpdateCounts(all.url)
    const slices = await measureSlices(candidates, context.progress)
    const after = await readUpdateCounts(all.url)
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

type Seeded = SeedResult & { url: string }

const DROP_SECONDARY_INDEXES = `do $$ declare i regclass; begin
  for i in select indexrelid from pg_index where indrelid = 'deployments'::regclass and not indisprimary loop
    execute format('drop index %s', i);
  end loop;
end $$`

async function makeDatabases(context: BenchContext): Promise<{ all: Seeded; bare: Seeded }> {
  const server = await context.database()
  context.progress('making the databases')
  const url = await createDatabase(server.url)
  await migrate(url, { log: () => {} })
  const all = { ...(await seed(url, SIZE)), url }
  const bare = { ...all, url: await createDatabase(server.url, url) }
  await withClient(bare.url, client => client.query(DROP_SECONDARY_INDEXES))
  for (const { url } of [all, bare])
    await withClient(url, async client => {
      await client.query('update deployments set deleting_at = null, remote_reconciled = false')
      await client.query('vacuum (full, analyze) deployments')
    })
  return { all, bare }
}

/** The statements of a patch, each time for another deployment of the biggest tenant. */
async function preparePatches(context: BenchContext, seeded: Seeded) {
  const { organization_id, tenant_id, url } = seeded
  const { rows } = await withClient(url, client =>
    client.query('select id from deployments where tenant_id = $1 limit 1', [tenant_id]),
  )
  const { id } = rows[0]
  const body = JSON.stringify({ secrets: [{ name: 'TOKEN', value: 'a value' }] })
  const statements = await captureStatements(seeded, `/v2/deployments/${id}`, { method: 'PATCH', body })
  const patched = await withClient(url, client =>
    client.query('select latest_revision_id from deployments where id = $1', [id]),
  )
  const replacements = {
    [id]: `md5('${organization_id}:deployment:' || 10 * :n)`,
    [patched.rows[0].latest_revision_id]: `md5(:r || 'revision')`,
  }
  const texts = statements.map(({ query, params }) => {
    // The same value again would be no change.
    const changing = params.map(param =>
      typeof param === 'string' ? param.replaceAll(/"fingerprints":\["[^"]*"\]/g, '"fingerprints":[]') : param,
    )
    return `${inlineParameters({ query, params: changing }, replacements)};\n`
  })
  const draws = `\\set n random(1, ${SIZE.deployments / 10})\n\\set r random(1, 1000000000000000)\n`
  return preparePgbench(context, url, `${draws}begin;\n${texts.join('')}commit;\n`)
}

async function readUpdateCounts(url: string): Promise<{ updates: number; hot: number }> {
  return withClient(url, async client => {
    const { rows } = await client.query(
      `select n_tup_upd::integer as updates, n_tup_hot_upd::integer as hot
        from pg_stat_user_tables
        where relname = 'deployments'`,
    )
    return rows[0]
  })
}
