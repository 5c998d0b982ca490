// Renews the grants of people whose pages stay open, for the agent that serves them.
import { sql } from 'drizzle-orm'
import { run } from '../../kernel/db/db.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import { verb } from '../../kernel/http/context.ts'
import type { AccessRenewals, RenewedAccess } from '../../protocol/access-renewals.schema.ts'
import { listeners } from '../listeners/tables.ts'
import { mayRenew } from '../protection/renewals.ts'
import { hasLease } from './lease.ts'

/** A trip for the lease, and one for each grant: every person is asked as if they had come themselves. */
export const renewAccess = verb(
  'listeners:sync',
  async (ctx, { renewals, ...lease }: AccessRenewals): Promise<RenewedAccess> => {
    const [listener_id] = requireRow(
      await run(ctx, sql<[string]>`select ${listeners.id} from ${listeners} where ${hasLease(lease)}`),
      'listener_not_found',
    )
    const renewed: (boolean | null)[] = []
    for (const renewal of renewals) renewed.push(await mayRenew(ctx, listener_id, renewal))
    return { renewed }
  },
)
