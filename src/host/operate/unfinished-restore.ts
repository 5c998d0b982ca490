// The mark of a restore that has begun: while it is there, no control plane serves the database.
import type pg from 'pg'
import { inTransaction } from '../transaction.ts'

type UnfinishedRestore = { backup: string; is_loaded: boolean }

const RESTORE_LOCK = 7_547_930

/** One restore at a time creates, reads or drops the table: two at once fail with an error of Postgres. */
const inTurn = <T>(client: pg.Client, use: () => Promise<T>): Promise<T> =>
  inTransaction(client, async () => {
    await client.query(`select pg_advisory_xact_lock(${RESTORE_LOCK})`)
    return use()
  })

export const readUnfinishedRestore = (client: pg.Client): Promise<UnfinishedRestore | undefined> =>
  inTurn(client, () => readMark(client))

async function readMark(client: pg.Client): Promise<UnfinishedRestore | undefined> {
  // Not to_regclass(): it may still see a table that another restore has dropped a moment ago.
  const { rowCount } = await client.query(
    `select from pg_tables where schemaname = 'drizzle' and tablename = 'unfinished_restore'`,
  )
  if (rowCount === 0) return undefined
  return (await client.query<UnfinishedRestore>('select backup, is_loaded from drizzle.unfinished_restore')).rows[0]
}

/** `readiness.ts` looks for the table. */
export const beginRestore = (client: pg.Client, backup: string): Promise<void> =>
  inTurn(client, async () => {
    await client.query('create table if not exists drizzle.unfinished_restore (backup uuid, is_loaded boolean)')
    await client.query('delete from drizzle.unfinished_restore where not is_loaded')
    await client.query(
      `insert into drizzle.unfinished_restore
      select $1, false
      where not exists (select from drizzle.unfinished_restore)`,
      [backup],
    )
  })

/** Belongs in the transaction that loads the rows. */
export async function markLoaded(client: pg.Client, backup: string): Promise<void> {
  await client.query('update drizzle.unfinished_restore set backup = $1, is_loaded = true', [backup])
}

/** Removes the mark of a restore that was overtaken, unless the other restore still needs it. */
export const abandonRestore = (client: pg.Client): Promise<void> =>
  inTurn(client, async () => {
    if ((await readMark(client))?.is_loaded === false) await dropMark(client)
  })

export const endRestore = (client: pg.Client): Promise<void> => inTurn(client, () => dropMark(client))

async function dropMark(client: pg.Client): Promise<void> {
  await client.query('drop table if exists drizzle.unfinished_restore')
}
