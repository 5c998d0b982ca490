// Runs stored through the trace store, as a request of the tenant's key would.

import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import type { Ctx } from '../../src/kernel/http/context.ts'
import { createKeylessCaller } from '../../src/kernel/http/context.ts'
import type { NewFeedback } from '../../src/tracing/store/store.ts'
import { getServices, type Tenant, unusedId } from './app.ts'
import { readStoredRuns } from './stored-runs.ts'
import { post, type RunInput } from './trace-operations.ts'

export function traceCtx({ key }: Pick<Tenant, 'key'>): Ctx {
  const nobody = { kind: 'cron', id: null, organization: '', tenant: null } as const
  const caller = createKeylessCaller(getServices(), nobody, `runs-${unusedId()}`, 'http://slipway.test')
  return { ...caller, actor: { kind: 'key', hash: sha256Hex(key) }, permission: 'runs:create', byPolicy: true }
}

/** Stores roots that begin and end now, unless their members differ. Returns their ids. */
export async function storeRuns(
  tenant: Pick<Tenant, 'key'>,
  runs: Partial<RunInput>[],
  feedback: NewFeedback[] = [],
): Promise<string[]> {
  const operations = runs.map(run =>
    post({
      id: unusedId(),
      name: 'run',
      session_name: 'default',
      loc: ['body'],
      start_time: new Date().toISOString(),
      end_time: new Date().toISOString(),
      ...run,
    }),
  )
  const ctx = traceCtx(tenant)
  await ctx.traces.append(ctx, operations, feedback)
  return operations.map(({ id }) => id)
}

/** The tier of each run. */
export async function readTiers({ tenant_id }: Tenant): Promise<Record<string, string>> {
  return Object.fromEntries((await readStoredRuns(tenant_id)).map(({ id, trace_tier }) => [id, trace_tier]))
}
