// Limits of e-mails. A workspace that floods a mailbox would get the operator's mail server blocked.
import { type SQL, sql } from 'drizzle-orm'
import { type Row, runAsSystem } from '../../kernel/db/db.ts'
import { setClock } from '../../kernel/db/journal.ts'
import type { DatabaseServices, HostServices } from '../../kernel/http/context.ts'

/** Requests to confirm an address, in a day. Many organizations together cannot flood a mailbox. */
export const CONFIRMATIONS = { ofOrganization: 20, ofMailbox: 3 }

/** An expression that counts an e-mail of a workspace. It comes to the seconds to wait, or to 0 if it may be sent. */
export const countMail = ({ config }: Pick<HostServices, 'config'>, tenant: SQL): SQL =>
  sql`take_mail(
    array['workspace ' || ${tenant}::text], array[${config.smtp?.perHour ?? 0}::integer], interval '1 hour')`

export async function takeMail(services: DatabaseServices, tenant: string): Promise<number> {
  const query = sql<Row>`select ${countMail(services, sql`${tenant}`)}`
  const [, [row]] = (await runAsSystem(services.database, setClock(services.platform), query)) as [unknown, Row[]]
  return Number(row![0])
}
