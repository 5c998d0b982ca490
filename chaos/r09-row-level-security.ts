// R9: the same with the first wall, the statements' own tenant predicates, taken out; and what a statement sees that nobody entered for.
import pg from 'pg'
import { findTenantPredicate, stripTenantPredicates } from '../test/support/tenant-predicates.ts'
import { measureSwappedIds } from './r08-swapped-ids.ts'
import { openTestbed, type Trial, type TrialContext } from './support/testbed.ts'

export default {
  id: 'R9',
  what: 'the same without the first wall',
  target: '0 foreign rows; no setting, no row',
  async run(lab: TrialContext) {
    const left = new Set<string>()
    let rewritten = 0
    const rewrite = (sql: string) => {
      const without = stripTenantPredicates(sql)
      if (without !== sql) rewritten++
      if (findTenantPredicate(without)) left.add(without)
      return without
    }
    const scene = await openTestbed(lab, { rewrite })
    const outcome = await measureSwappedIds(lab, scene)
    const shown = await countVisibleRows(scene.url)
    return {
      ...outcome,
      measured: `${outcome.measured}; ${shown} rows without a setting`,
      met: outcome.met && shown === 0 && left.size === 0 && rewritten > 0,
      notes: [...outcome.notes, `${rewritten} statements rewritten, ${left.size} with a predicate left`, ...left],
    }
  },
} satisfies Trial

/** Rows of tenants that the app's role sees when no enter() has said for whom. */
async function countVisibleRows(url: string): Promise<number> {
  const client = new pg.Client({ connectionString: url })
  await client.connect()
  try {
    const { rows } = await client.query(`select table_name from information_schema.columns
      where table_schema = 'public' and column_name in ('tenant_id', 'scope_id') group by 1`)
    await client.query('set role slipway_app')
    let shown = 0
    for (const { table_name } of rows) {
      const { rows: counts } = await client.query(
        `select count(*)::int as n from ${client.escapeIdentifier(table_name)}`,
      )
      shown += counts[0].n
    }
    return shown
  } finally {
    await client.end()
  }
}
