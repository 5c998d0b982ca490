// The owner and the place to which each sealed column is bound, equal to those of the slice that opens it.

import { CREDENTIALS_PLACE } from '../../connect/channels/senders/outgoing.ts'
import { MODEL_SECRET_PLACE } from '../../connect/models/configurations.ts'
import { VERIFIER_SEAL_CONTEXT } from '../../connect/oauth/flow.ts'
import { sealContext as providerPlace } from '../../connect/oauth/rows.ts'
import { type TokenOwner, sealContext as tokenPlace } from '../../connect/oauth/tokens.ts'
import { SIGNING_KEY_PLACE, SECRET_PLACE as WEBHOOK_SECRET_PLACE } from '../../connect/webhooks/send.ts'
import { HEADERS_PLACE as DRAIN_HEADERS_PLACE } from '../../hosting/drains/drains.ts'
import { type IntegrationAccount, sealContext as integrationPlace } from '../../hosting/git-hosts/credentials.ts'
import { HOOK_SEAL_CONTEXT } from '../../hosting/previews/preview-hooks.ts'
import { overlaySealContext } from '../../hosting/previews/preview-policy.ts'
import { ROLLOUT_SEAL_CONTEXT } from '../../hosting/rollouts/rollouts.ts'
import { ROUTING_KEY_PLACE } from '../../tracing/rules/alerts.ts'
import { HEADER_PLACE, SECRET_PLACE as RULE_SECRET_PLACE } from '../../tracing/rules/tables.ts'
import type { SEALED } from './sealed-columns.ts'

// biome-ignore lint/suspicious/noExplicitAny: a row of any of the tables
type Row = any
export type Reseal = {
  /** Null stays null. */
  seal(sealed: string | null, owner: string, place: string): Promise<string | null>
  /** The fingerprint of a sealed value that has one. */
  fingerprint(old: string | null, sealed: string, owner: string, place: string): Promise<string | null>
}
type SealedTable = {
  primaryKey: string[]
  /** Columns that `reseal` reads besides the primary key and the sealed columns. */
  reads?: string[]
  /** Columns that a trigger changes along with a sealed column, and that have to stay. */
  stays?: string[]
  /** Returns the new values of the sealed columns. */
  reseal(row: Row, tools: Reseal): Promise<Record<string, unknown>>
}

export const SEALED_ROWS: Record<keyof typeof SEALED, SealedTable> = {
  deployment_secrets: {
    primaryKey: ['deployment_id', 'name', 'version'],
    reseal: async ({ deployment_id, name, sealed, fingerprint }, tools) => ({
      sealed: await tools.seal(sealed, deployment_id, name),
      fingerprint: await tools.fingerprint(fingerprint, sealed, deployment_id, name),
    }),
  },
  integrations: {
    primaryKey: ['id'],
    reads: ['tenant_id', 'host', 'base_url', 'account_id'],
    reseal: async (row: IntegrationAccount & Row, { seal }) => ({
      credentials: await seal(row.credentials, row.tenant_id, integrationPlace('credentials', row)),
      token: await seal(row.token, row.tenant_id, integrationPlace('token', row)),
    }),
  },
  model_configurations: {
    primaryKey: ['id'],
    reseal: async ({ id, secret }, { seal }) => ({ secret: await seal(secret, id, MODEL_SECRET_PLACE) }),
  },
  oauth_flows: {
    primaryKey: ['id'],
    reseal: async ({ id, verifier }, { seal }) => ({ verifier: await seal(verifier, id, VERIFIER_SEAL_CONTEXT) }),
  },
  oauth_providers: {
    primaryKey: ['id'],
    reads: ['provider_id'],
    stays: ['client_secret_urls'],
    reseal: async ({ provider_id, client_secret, registration_access_token }, { seal }) => ({
      client_secret: await seal(client_secret, provider_id, providerPlace('client_secret')),
      registration_access_token: await seal(
        registration_access_token,
        provider_id,
        providerPlace('registration_access_token'),
      ),
    }),
  },
  oauth_tokens: {
    primaryKey: ['id'],
    reads: ['tenant_id', 'provider_id', 'user_id'],
    reseal: async (row: TokenOwner & Row, { seal }) => ({
      access_token: await seal(row.access_token, row.tenant_id, tokenPlace(row, 'access_token')),
      refresh_token: await seal(row.refresh_token, row.tenant_id, tokenPlace(row, 'refresh_token')),
    }),
  },
  deployments: {
    primaryKey: ['id'],
    reseal: async ({ id, rollout_secret }, { seal }) => ({
      rollout_secret: await seal(rollout_secret, id, ROLLOUT_SEAL_CONTEXT),
    }),
  },
  preview_policies: {
    primaryKey: ['id'],
    reseal: async ({ id, secrets, hook_secret }, { seal }) => ({
      secrets: await Promise.all(
        secrets.map(async (secret: { name: string; sealed: string }) => ({
          ...secret,
          sealed: await seal(secret.sealed, id, overlaySealContext(secret.name)),
        })),
      ),
      hook_secret: await seal(hook_secret, id, HOOK_SEAL_CONTEXT),
    }),
  },
  run_rules: {
    primaryKey: ['id'],
    reseal: async ({ id, webhooks, webhook_secret, alerts }, { seal }) => ({
      webhooks: await Promise.all(
        webhooks.map(async (webhook: { headers: Record<string, string> }) => ({
          ...webhook,
          headers: Object.fromEntries(
            await Promise.all(
              Object.entries(webhook.headers).map(async ([name, value]) => [name, await seal(value, id, HEADER_PLACE)]),
            ),
          ),
        })),
      ),
      webhook_secret: await seal(webhook_secret, id, RULE_SECRET_PLACE),
      alerts: await Promise.all(
        alerts.map(async (alert: { routing_key: string }) => ({
          ...alert,
          routing_key: await seal(alert.routing_key, id, ROUTING_KEY_PLACE),
        })),
      ),
    }),
  },
  channels: {
    primaryKey: ['id'],
    reseal: async ({ id, credentials }, { seal }) => ({
      credentials: await seal(credentials, id, CREDENTIALS_PLACE),
    }),
  },
  drains: {
    primaryKey: ['id'],
    reseal: async ({ id, headers }, { seal }) => ({ headers: await seal(headers, id, DRAIN_HEADERS_PLACE) }),
  },
  webhooks: {
    primaryKey: ['id'],
    reseal: async ({ id, secret, previous_secret, signing_key }, { seal }) => ({
      secret: await seal(secret, id, WEBHOOK_SECRET_PLACE),
      previous_secret: await seal(previous_secret, id, WEBHOOK_SECRET_PLACE),
      signing_key: await seal(signing_key, id, SIGNING_KEY_PLACE),
    }),
  },
}
