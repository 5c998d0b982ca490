// Lists the values that the keys of SEALING_KEYS seal and sign. A new one is listed here, and `slipway reseal` has to
// know it.
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { expect, test } from 'vitest'
import { PASSING, SEALED, SIGNED } from '../../src/host/operate/sealed-columns.ts'
import { SRC, sourceFiles } from '../support/source-files.ts'

const files = sourceFiles.filter(path => !/^(agent|host\/operate|kernel\/crypto\/crypto\.ts)/.test(path))

function countCalls(call: RegExp): Record<string, number> {
  const counts = files.map(file => [file, readFileSync(join(SRC, file), 'utf8').match(call)?.length ?? 0] as const)
  return Object.fromEntries(counts.filter(([, count]) => count > 0))
}

const sealedColumns = [...Object.entries(SEALED), ...Object.entries(PASSING)].flatMap(([table, columns]) =>
  columns.map(column => `${table}.${column}`),
)

/** The columns in which each sealed value is stored, or where else it goes. */
const SEALS: Record<string, string[][]> = {
  'people/access/api-keys.ts': [['idempotency_keys.result']],
  'people/authorization-server/authorization.ts': [
    // The page on which a person decides keeps it for ten minutes.
    [],
    ['idempotency_keys.result'],
  ],
  // The id of a client that registered itself, for as long as the key that sealed it stays.
  'people/authorization-server/clients.ts': [[]],
  'hosting/deploy-hooks/deploy-hooks.ts': [['idempotency_keys.result']],
  'hosting/deployments/secret-versions.ts': [['deployment_secrets.sealed']],
  'hosting/drains/drains.ts': [['drains.headers']],
  'hosting/git-hosts/credentials.ts': [['integrations.credentials'], ['integrations.token']],
  'connect/channels/channels.ts': [['channels.credentials']],
  'connect/models/configurations.ts': [['model_configurations.secret']],
  'connect/models/workspace-secrets.ts': [['model_configurations.secret'], ['model_configurations.secret']],
  'connect/oauth/flow.ts': [['oauth_flows.verifier']],
  'connect/oauth/rows.ts': [['oauth_providers.client_secret', 'oauth_providers.registration_access_token']],
  'connect/oauth/tokens.ts': [['oauth_tokens.access_token', 'oauth_tokens.refresh_token']],
  'hosting/protection/bypasses.ts': [['idempotency_keys.result']],
  // The sealed value is in a cookie of a grant, for up to twelve hours.
  'hosting/protection/renewals.ts': [[]],
  'hosting/previews/preview-policy.ts': [['preview_policies.secrets'], ['preview_policies.hook_secret']],
  'hosting/rollouts/rollouts.ts': [['deployments.rollout_secret']],
  'tracing/rules/rules.ts': [['run_rules.webhooks'], ['run_rules.alerts'], ['run_rules.webhook_secret']],
  'people/sign-in/links.ts': [['idempotency_keys.result']],
  // The sealed value is in a cookie of ten minutes.
  'people/sign-in/oidc.ts': [[]],
  'people/sign-in/sessions.ts': [['idempotency_keys.result']],
  'connect/webhooks/endpoints.ts': [
    ['webhooks.secret', 'webhooks.previous_secret'],
    ['webhooks.signing_key'],
    ['webhooks.secret'],
  ],
}

test('every value that is sealed is in a column that `slipway reseal` knows', () => {
  const counts = Object.entries(SEALS).map(([file, calls]) => [file, calls.length])
  expect(countCalls(/\.seal\(/g)).toEqual(Object.fromEntries(counts))
  const named = new Set(Object.values(SEALS).flat(2))
  // A fingerprint is made beside the sealed value.
  expect([...named, 'deployment_secrets.fingerprint'].sort()).toEqual(sealedColumns.sort())
})

/** The receiver of each signature. docs/operate/back-up.md says for how long the key that made it has to stay. */
const SIGNATURES = {
  'people/audit/hash-chain.ts': 'journal_heads.signature, journal_checkpoints.signature',
  'tracing/datasets/attachment-links.ts': 'links of an hour',
  'hosting/custom-hosts/custom-hosts.ts': 'the TXT record of a custom host, for as long as it has to be proved',
  'hosting/registry/registry-credentials.ts': 'credentials of an agent for the registry',
  'hosting/registry/registry.ts': 'tokens for a push',
  'hosting/uploads/uploads.ts': 'links for an upload',
  'hosting/git-hosts/install.ts': 'the state of an installation at a git host',
  'kernel/crypto/application-keys.ts': 'keys by which clients call graphs, until their agent has restarted them',
  'kernel/crypto/trace-keys.ts': 'keys by which applications trace themselves, until their agent has restarted them',
  'hosting/relay/tunnels.ts': 'tickets of terminals, for a minute',
  'hosting/sync/archive-download.ts': 'links for an agent',
  'tracing/runs/object-links.ts': 'links to contents of runs',
}

test('every kind of signature is one of these', () => {
  expect(Object.keys(countCalls(/createSigner\(/g))).toEqual(Object.keys(SIGNATURES).sort())
  expect(Object.keys(SIGNED)).toEqual(['journal_heads', 'journal_checkpoints'])
})
