// P11: what the indexes of deployments cost a patch, and how many patches touch none of them.
import { fixed, inTurn, median, ratio } from './support/figures.ts'
import type { Bench, Lab } from './support/lab.ts'
import { installed, pgbench, withoutPgbench } from './support/pgbench.ts'
import { asked, literal, openSeeded, type SeededDatabase, statementsOf } from './support/seeded.ts'

const SLICES = 5
const SECONDS = 2
const CLIENTS = 2
const DEPLOYMENTS = 10_000
const TARGETS = { ratio: 0.85, hot: 0.95 }

export default {
  id: 'P11',
  what: 'patches a second ÷ with the primary key only; HOT ratio',
  target: `≥ ${TARGETS.ratio}; ≥ ${TARGETS.hot}`,
  async run(lab: Lab) {
    if (!installed) return withoutPgbench
    const size = { tenants: 10, deployments: DEPLOYMENTS }
    const all = await openSeeded(lab, await lab.database(), size)
    const bare = await openSeeded(lab, await lab.database(), size)
    await asked(bare.url, client => client.query(ALL_BUT_THE_PRIMARY_KEY))
    const [withAll, withOne] = [await patching(lab, all), await patching(lab, bare)]
    const things = { all: () => withAll(SECONDS, CLIENTS), bare: () => withOne(SECONDS, CLIENTS) }
    lab.progress('warming up')
    for (const thing of Object.values(things)) await thing()
    const before = await updatesOf(all)
    const slices = await inTurn(SLICES, things, lab.progress)
    const after = await updatesOf(all)
    const figure = ratio(slices.all, slices.bare)
    const hot = (after.hot - before.hot) / (after.updates - before.updates)
    return {
      measured: `${fixed(figure)}; ${fixed(hot, 3)}`,
      met: figure >= TARGETS.ratio && hot >= TARGETS.hot,
      notes: [
        `${fixed(median(slices.all), 0)} and ${fixed(median(slices.bare), 0)} a second; each makes a revision and seals a secret`,
      ],
      figures: { ratio: figure, hot, tps: slices },
    }
  },
} satisfies Bench

const ALL_BUT_THE_PRIMARY_KEY = `do $$ declare i regclass; begin
  for i in select indexrelid from pg_index where indrelid = 'deployments'::regclass and not indisprimary loop
    execute format('drop index %s', i);
  end loop;
end $$`

/** The statements of a patch, each time of another of the big tenant's deployments. */
async function patching(lab: Lab, seeded: SeededDatabase) {
  const { organization_id, tenant_id, url } = seeded
  const id = await asked(url, async client => {
    await client.query('update deployments set deleting_at = null, remote_reconciled = false')
    await client.query('vacuum (full, analyze) deployments')
    const { rows } = await client.query('select id from deployments where tenant_id = $1 limit 1', [tenant_id])
    return rows[0].id as string
  })
  const body = JSON.stringify({ secrets: [{ name: 'TOKEN', value: 'a value' }] })
  const statements = await statementsOf(seeded, `/v2/deployments/${id}`, { method: 'PATCH', body })
  const revision = await asked(url, async client => {
    const { rows } = await client.query('select latest_revision_id from deployments where id = $1', [id])
    return rows[0].latest_revision_id as string
  })
  const script = statements.map(one => `${literal(one)};\n`).join('')
  const another = script
    .replaceAll(`'${id}'`, `md5('${organization_id}:deployment:' || 10 * :n)`)
    .replaceAll(`'${revision}'`, `md5(:r || 'revision')`)
  const draws = `\\set n random(1, ${DEPLOYMENTS / 10})\n\\set r random(1, 1000000000000000)\n`
  return pgbench(lab, url, `${draws}begin;\n${another}commit;\n`)
}

async function updatesOf({ url }: SeededDatabase): Promise<{ updates: number; hot: number }> {
  return asked(url, async client => {
    const { rows } = await client.query(
      `select n_tup_upd::integer as updates, n_tup_hot_upd::integer as hot from pg_stat_user_tables where relname = 'deployments'`,
    )
    return rows[0]
  })
}
