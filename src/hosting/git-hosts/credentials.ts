// Seals and opens an integration's credentials and its cached token. Both are bound to the account at the host.
import { sql } from 'drizzle-orm'
import type { Sealer } from '../../kernel/crypto/crypto.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { HostToken, Integration } from './githost.ts'

/**
 * A GitHub App's private key, or the token of an account (of plain git with a user name), and the secret that signs the
 * host's webhooks. `deploy_keys`: the private halves of the keys of `integrations.ssh`, in the same order.
 */
export type Credentials = {
  private_key?: string
  token?: string
  username?: string
  deploy_keys?: string[]
  webhook_secret: string
}

/** The seal binds to the account, not to the row's id: a reconnected integration is sealed before its row is known. */
export type IntegrationAccount = Pick<Integration, 'tenant_id' | 'host' | 'base_url' | 'account_id'>
export const sealContext = (member: 'credentials' | 'token', { host, base_url, account_id }: IntegrationAccount) =>
  `integrations.${member} ${host} ${base_url} ${account_id}`

export const sealCredentials = (
  sealer: Sealer,
  account: IntegrationAccount,
  credentials: Credentials,
): Promise<string> => sealer.seal(JSON.stringify(credentials), account.tenant_id, sealContext('credentials', account))

/** Null for an installation of the operator's App, whose credentials are settings. */
export async function openCredentials(
  sealer: Sealer,
  row: IntegrationAccount & Pick<Integration, 'credentials'>,
): Promise<Credentials | null> {
  if (!row.credentials) return null
  return JSON.parse(await sealer.open(row.credentials, row.tenant_id, sealContext('credentials', row)))
}

/** The token of an account, opened once. */
export function accountToken(sealer: Sealer, row: Integration): () => Promise<string> {
  let opened: Promise<string> | undefined
  async function open(): Promise<string> {
    const { token } = (await openCredentials(sealer, row)) ?? {}
    if (!token) throw fail('integration_revoked')
    return token
  }
  return () => {
    opened ??= open()
    return opened
  }
}

export const openWebhookSecret = async (
  sealer: Sealer,
  row: IntegrationAccount & Pick<Integration, 'credentials'>,
): Promise<string | null> => (await openCredentials(sealer, row))?.webhook_secret ?? null

const EXPIRY_MARGIN_MS = 5 * 60_000

export async function openStoredToken(sealer: Sealer, row: Integration): Promise<HostToken | null> {
  const { token, token_expires_at } = row
  if (token === null || token_expires_at === null) return null
  if (Date.parse(token_expires_at) < Date.now() + EXPIRY_MARGIN_MS) return null
  return { token: await sealer.open(token, row.tenant_id, sealContext('token', row)), expires_at: token_expires_at }
}

/** SQL assignments over `integrations i`. Without a minted token the columns stay as they are. */
export async function setTokenColumns(sealer: Sealer, account: IntegrationAccount, minted: HostToken | null) {
  if (minted === null) return sql`token = i.token, token_expires_at = i.token_expires_at`
  const sealed = await sealer.seal(minted.token, account.tenant_id, sealContext('token', account))
  return sql`token = ${sealed}, token_expires_at = ${minted.expires_at}::timestamptz`
}
