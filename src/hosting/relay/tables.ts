// The table of tunnels: terminals and forwarded ports of deployments.
import { sql } from 'drizzle-orm'
import { bigint, boolean, index, integer, json, pgTable, text, uuid } from 'drizzle-orm/pg-core'
import { actorNameColumn, createdAtColumn, idColumn, instantColumn } from '../../kernel/db/columns.ts'
import { tenantColumns } from '../../people/access/tables.ts'
import type { NewForward, NewTerminal } from '../../protocol/tunnels.schema.ts'

/** No foreign key to the deployment: the end of a tunnel is journaled after a deletion, too. */
export const tunnels = pgTable(
  'tunnels',
  {
    id: idColumn(),
    ...tenantColumns(),
    deployment_id: uuid().notNull(),
    revision_id: uuid().notNull(),
    listener_id: uuid().notNull(),
    is_terminal: boolean().notNull(),
    /** A command may have secrets, so that this is deleted with the end. */
    request: json().$type<NewTerminal | NewForward>(),
    /** The actor who asked for it, for the event of its end. */
    actor_kind: text().notNull().default(sql`setting('actor_kind')`),
    actor_id: uuid().default(sql`current_actor()`),
    actor_name: actorNameColumn(),
    /** The end of the ticket. */
    expires_at: instantColumn().notNull(),
    /** The instance that holds the socket of the client, and its address for other instances. */
    instance: text(),
    address: text(),
    joined_at: instantColumn(),
    /** The last time at which a poll named it. */
    offered_at: instantColumn(),
    /** The agent has joined, under this lease. */
    opened_at: instantColumn(),
    fence: bigint({ mode: 'number' }),
    /** The instance writes it while the tunnel is open. */
    seen_at: instantColumn(),
    bytes_in: bigint({ mode: 'number' }).notNull().default(0),
    bytes_out: bigint({ mode: 'number' }).notNull().default(0),
    ended_at: instantColumn(),
    end_reason: text(),
    exit_code: integer(),
    exit_signal: text(),
    created_at: createdAtColumn(),
  },
  t => [
    index('tunnels_open').on(t.tenant_id).where(sql`ended_at is null`),
    index('tunnels_of_listener').on(t.listener_id).where(sql`ended_at is null`),
    index('tunnels_ended').on(t.ended_at).where(sql`ended_at is not null`),
  ],
)
