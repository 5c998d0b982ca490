// The mark of a restore that has begun: while it is there, no control plane serves the database.
import type pg from 'pg'
import { inTransaction } from '../transaction.ts'

type UnfinishedRestore = { backup: string; is_loaded: boolean }

export async function readUnfinishedRestore(client: pg.Client): Promise<UnfinishedRestore | undefined> {
  const { rows } = await client.query(`select to_regclass('drizzle.unfinished_restore') as existing`)
  if (rows[0].existing === null) return undefined
  return (await client.query<UnfinishedRestore>('select backup, is_loaded from drizzle.unfinished_restore')).rows[0]
}

/** `readiness.ts` looks for the table. */
export const beginRestore = (client: pg.Client, backup: string): Promise<void> =>
  inTransaction(client, async () => {
    await client.query('create table if not exists drizzle.unfinished_restore (backup uuid, is_loaded boolean)')
    await client.query('lock table drizzle.unfinished_restore in exclusive mode')
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
  inTransaction(client, async () => {
    if ((await readUnfinishedRestore(client))?.is_loaded === false) await endRestore(client)
  })

export async function endRestore(client: pg.Client): Promise<void> {
  await client.query('drop table if exists drizzle.unfinished_restore')
}
