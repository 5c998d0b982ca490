// Share links and bypass tokens, as their commands have them in common.
import type { Item } from '../client/client.ts'
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
  return client.call('POST /v2/deployments/{deployment_id}/bypasses', { params, body, signal })
}
