// After a restore, agents keep the deployments that the restored database does not know, until an operator ends it.
import type pg from 'pg'
import { connectClient } from '../migrate.ts'
import { inSystemTransaction } from '../transaction.ts'

/**
 * Also ends every lease, under a fence that no agent has had: what an agent reports or does before it polls again could
 * be about deployments that the database does not know.
 */
export async function holdRemovals(client: pg.Client): Promise<void> {
  await client.query('set local role slipway_system')
  await client.query(`
    update listeners set
      holds_removals_since = now(),
      fence = fence + 1000000,
      agent_id = null,
      lease_expires_at = null`)
  await client.query('reset role')
}

export async function releaseRemovals(url: string, log: (line: string) => void): Promise<void> {
  const client = await connectClient(url)
  try {
    const { rowCount } = await inSystemTransaction(client, () =>
      client.query('update listeners set holds_removals_since = null where holds_removals_since is not null'),
    )
    log(
      rowCount
        ? `Agents now remove what the database does not know. Listeners: ${rowCount}.`
        : 'No listener holds removals. Nothing was changed.',
    )
  } finally {
    await client.end()
  }
}
