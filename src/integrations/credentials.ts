// What an integration's host was proved with, sealed and bound to its account there: here it is sealed, and only here opened.
import { sql } from 'drizzle-orm'
import type { Sealer } from '../kernel/crypto.ts'
import type { HostToken, Integration } from './githost.ts'

/** An App's private key or an account's token, and what the host signs its deliveries with. */
export type Credentials = { private_key?: string; token?: string; webhook_secret: string }
/** By the account and not by the row: one that was revoked is connected again before its row is known. */
type IntegrationAccount = Pick<Integration, 'tenant_id' | 'host' | 'base_url' | 'account_id'>
const sealContext = (member: 'credentials' | 'token', { host, base_url, account_id }: IntegrationAccount) =>
  `integrations.${member} ${host} ${base_url} ${account_id}`

export const sealCredentials = (sealer: Sealer, whose: IntegrationAccount, credentials: Credentials): Promise<string> =>
  sealer.seal(JSON.stringify(credentials), whose.tenant_id, sealContext('credentials', whose))

/** Null of an installation of the operator's App, whose credentials are settings. */
export async function openCredentials(
  sealer: Sealer,
  row: IntegrationAccount & Pick<Integration, 'credentials'>,
): Promise<Credentials | null> {
  return (
    row.credentials && JSON.parse(await sealer.open(row.credentials, row.tenant_id, sealContext('credentials', row)))
  )
}

/** By which a delivery to an integration's own address is known to be from its host. */
export const openWebhookSecret = async (
  sealer: Sealer,
  row: IntegrationAccount & Pick<Integration, 'credentials'>,
): Promise<string | null> => (await openCredentials(sealer, row))?.webhook_secret ?? null

/** Whoever asks with it has this long at least. */
const EXPIRY_MARGIN_MS = 5 * 60_000

/** The token that was kept, while it is good for long enough. */
export async function openStoredToken(sealer: Sealer, row: Integration): Promise<HostToken | null> {
  const { token, token_expires_at } = row
  if (token === null || token_expires_at === null || Date.parse(token_expires_at) < Date.now() + EXPIRY_MARGIN_MS)
    return null
  return { token: await sealer.open(token, row.tenant_id, sealContext('token', row)), expires_at: token_expires_at }
}

/** What a write keeps of a token that was minted on the way; as it was where none was. */
export const setTokenColumns = async (sealer: Sealer, whose: IntegrationAccount, minted: HostToken | null) =>
  minted === null
    ? sql`token = i.token, token_expires_at = i.token_expires_at`
    : sql`token = ${await sealer.seal(minted.token, whose.tenant_id, sealContext('token', whose))}, token_expires_at = ${minted.expires_at}::timestamptz`
