// Limits of e-mails, which keep a workspace from flooding a mailbox. The operator's mail server bears the blame.
import { sql } from 'drizzle-orm'
import { sha256Hex } from '../../kernel/crypto/digest.ts'
import { type Row, runAsSystem, textArray } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import type { DatabaseServices } from '../../kernel/http/context.ts'

/** Requests to confirm an address, in a day. */
const CONFIRMATIONS = { ofWorkspace: 20, ofAddress: 3 }

async function take(
  { platform, database }: DatabaseServices,
  limits: [scope: string, most: number][],
  period: string,
): Promise<number> {
  const scopes = textArray(limits.map(([scope]) => scope))
  const most = sql`${sql.param(limits.map(([, count]) => count))}::integer[]`
  const query = sql<Row>`select take_mail(${scopes}, ${most}, ${period}::interval)`
  const [, [row]] = (await runAsSystem(database, setClock(platform), query)) as [unknown, Row[]]
  return Number(row![0])
}

/** Counts an e-mail of the workspace. Returns the seconds to wait, or 0 if it may be sent. */
export const takeMail = (services: DatabaseServices, tenant: string): Promise<number> =>
  take(services, [[`workspace ${tenant}`, services.config.smtp?.perHour ?? 0]], '1 hour')

/** Counts a request to confirm, also for the address: many workspaces together cannot flood it. */
export const takeConfirmation = (services: DatabaseServices, tenant: string, address: string): Promise<number> =>
  take(
    services,
    [
      [`confirm address ${sha256Hex(address.toLowerCase())}`, CONFIRMATIONS.ofAddress],
      [`confirm workspace ${tenant}`, CONFIRMATIONS.ofWorkspace],
    ],
    '1 day',
  )
