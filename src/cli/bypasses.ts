// Share links and bypass tokens, as their commands have them in common.
import type { Item } from '../client/client.ts'
import { pause } from '../client/retry.ts'
import { findDeployment, type Session } from './session.ts'
import { parseDuration } from './times.ts'

export type Bypass = Item<'GET /v2/deployments/{deployment_id}/bypasses'>
export type BypassFlags = { for: string; expiresIn?: string }

export async function createBypass(session: Session, kind: Bypass['kind'], flags: BypassFlags, name?: string) {
  const { client, signal } = session
  const deployment = await findDeployment(session, name)
  const expires_in = flags.expiresIn && parseDuration(flags.expiresIn, '--expires-in')
  const body = {
    kind,
    description: flags.for,
    ...(expires_in && { expires_at: new Date(Date.now() + expires_in).toISOString() }),
  }
  const params = { deployment_id: deployment.id }
  const created = await client.call('POST /v2/deployments/{deployment_id}/bypasses', { params, body, signal })
  await awaitAgent(session, deployment.id)
  return created
}

const AGENT_PATIENCE_MS = 10_000

/** Returns once the agent has confirmed the change, so that the next request meets it. */
export async function awaitAgent({ client, out, signal }: Session, id: string): Promise<void> {
  const query = { deployment_ids: [id], remote_reconciled: true }
  for (const end = Date.now() + AGENT_PATIENCE_MS; Date.now() < end; await pause(300, signal)) {
    const { resources } = await client.call('GET /v2/deployments', { query, signal })
    if (resources.length > 0) return
  }
  out.note('The agent has not confirmed it yet. It takes effect when it does.')
}
