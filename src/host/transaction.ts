// A transaction of a connection of the operator's commands.
import type pg from 'pg'

/** Commits what the work did, or undoes it and throws the work's error. */
export async function inTransaction<T>(client: pg.Client, work: () => Promise<T>): Promise<T> {
  await client.query('begin')
  try {
    const result = await work()
    await client.query('commit')
    return result
  } catch (error) {
    await client.query('rollback').catch(() => {})
    throw error
  }
}

/** Like `inTransaction()`, as the role that sees the rows of every tenant. */
export const inSystemTransaction = <T>(client: pg.Client, work: () => Promise<T>): Promise<T> =>
  inTransaction(client, async () => {
    await client.query('set local role slipway_system')
    return work()
  })
