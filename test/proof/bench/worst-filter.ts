// P8: a filter that matches nothing, in the biggest tenant and under row-level security, with two different indexes.

import type { Bench, BenchContext } from '../support/bench-context.ts'
import {
  connectAsTenant,
  explainStatement,
  makeListStatement,
  measureStatement,
  withClient,
} from '../support/seeded-database.ts'
import { formatNumber, median, SLICES } from '../support/statistics.ts'

const TARGET = 0.25
const WORST_FILTER = { name_contains: 'no deployment has this name' }

export default {
  id: 'P8',
  what: 'a filter that matches nothing: with the covering index ÷ with a plain list index',
  target: `≤ ${TARGET}, index-only`,
  async run(context: BenchContext) {
    const seeded = await context.deployments()
    const client = await connectAsTenant(context, seeded)
    const worst = makeListStatement(WORST_FILTER)
    await measureStatement(client, worst, 2)
    context.progress('the covering index')
    const covering = await repeatMeasurement(SLICES, () => measureStatement(client, worst, 3))
    const { scans } = await explainStatement(client, worst)
    // Dropping the index locks the table until the rollback, so this connection measures, too.
    context.progress('the plain index alone')
    const plain = await withClient(seeded.url, async owner => {
      await owner.query('begin read write')
      await owner.query('drop index deployments_list')
      await owner.query(`select set_config('app.tenant_id', $1, true)`, [seeded.tenant_id])
      await owner.query('set local role slipway_app')
      await measureStatement(owner, worst, 2)
      return repeatMeasurement(SLICES, () => measureStatement(owner, worst, 3)).finally(() => owner.query('rollback'))
    })
    const ratio = median(covering) / median(plain)
    const indexOnly = scans.includes('Index Only Scan of deployments_list')
    return {
      measured: `${formatNumber(ratio)}, ${indexOnly ? 'index-only' : scans.join(', ')}`,
      met: ratio <= TARGET && indexOnly,
      notes: [
        `covering index: ${formatNumber(median(covering), 1)} ms; plain index: ${formatNumber(median(plain), 1)} ms`,
        `over ${seeded.counts.largest} rows, measured one after the other`,
      ],
      figures: { ratio, scans, ms: { covering, plain } },
    }
  },
} satisfies Bench

async function repeatMeasurement(count: number, act: () => Promise<number>): Promise<number[]> {
  const results: number[] = []
  for (let i = 0; i < count; i++) results.push(await act())
  return results
}
