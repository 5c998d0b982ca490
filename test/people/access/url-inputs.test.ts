// Every URL that a caller can set, found in the request schemas. A URL that can be changed is either immutable or its
// change revokes the credentials granted for the old one. Otherwise the author of the change would receive credentials
// that other people entrusted to the old address.
import { expect, it } from 'vitest'
import type * as z from 'zod'
import { loadOperations } from '../../../src/app.ts'
import { CLOSED_POLICY } from '../../../src/protocol/listener-policy.ts'
import { newTenant } from '../../support/app.ts'
import * as as from '../../support/authorization-server.ts'
import { getPolicyPath, setUpPreviews } from '../../support/previews.ts'
import { getProviderPath } from '../../support/providers.ts'
import { serveRepositories } from '../../support/pushes.ts'
import { newTracedTenant } from '../../support/rules.ts'
import { makeListenerDeployment, makeSyncAgent, newListener } from '../../support/sync-agent.ts'

const operations = await loadOperations()

type Schema = z.core.$ZodType & { safeParse(value: unknown): { success: boolean } }
type Def = {
  type: string
  shape?: Record<string, Schema>
  element?: Schema
  innerType?: Schema
  in?: Schema
  out?: Schema
  options?: Schema[]
  valueType?: Schema
  getter?: () => Schema
}

const ADDRESS_NAMES = /(^|_)(url|uri|host|endpoint|address|origin|domain|webhook|image)s?$/
/** Recognizes an address by its name, or because the schema accepts a URL and refuses a word. */
const isAddress = (name: string, leaf: Schema) =>
  ADDRESS_NAMES.test(name) ||
  (leaf.safeParse('https://host.example.com/a/path').success && !leaf.safeParse('not-an-address-but-a-word').success)

function listAddresses(schema: Schema, path: string[] = [], seen: Schema[] = []): string[] {
  if (seen.includes(schema)) return []
  const def = (schema as unknown as { _zod: { def: Def } })._zod.def
  const within = (inner: Schema, name?: string) =>
    listAddresses(inner, name === undefined ? path : [...path, name], [...seen, schema])
  if (def.shape) return Object.entries(def.shape).flatMap(([name, member]) => within(member, name))
  if (def.element) return within(def.element)
  if (def.innerType) return within(def.innerType)
  if (def.in && def.out) return [...within(def.in), ...within(def.out)]
  if (def.options) return def.options.flatMap(option => within(option))
  if (def.valueType) return within(def.valueType, '*')
  if (def.getter) return within(def.getter())
  return def.type === 'string' && isAddress(path.at(-1) ?? '', schema) ? [path.join('.')] : []
}

/** The operation id and the member, of every route that requires a key. */
const addressInputs = operations
  .filter(({ kind, method }) => kind !== 'open' && method !== 'get')
  .flatMap(one =>
    [one.kind === 'json' ? one.body : undefined, one.query].flatMap(schema =>
      (schema ? listAddresses(schema as unknown as Schema) : []).map(address => `${one.id} ${address}`),
    ),
  )

const NEW = 'belongs to a resource that this request creates, with the credentials of the same request'
const IMAGE = 'agents pull it; the only credential they have is for this workspace in the registry of this installation'
const VISITED = 'only visitors open it; the app sends nothing to it'

const SIGNED =
  'the secret is made for this webhook alone and is never sent; what it signs are events of the same workspace'

const { app } = as.makeAuthorizationServer()
const EVIL = 'https://evil.example.com/x'

async function expectConnectionsEnd(member: string) {
  const { tenant } = await as.setUpProvider(app)
  await as.completeAuthentication(app, tenant)
  const change = { [member]: EVIL }
  expect((await tenant.patch(getProviderPath('example'), change)).body.code).toBe('secret_required')
  expect((await tenant.patch(getProviderPath('example'), { ...change, client_secret: 'another' })).status).toBe(200)
  expect((await as.beginAuthentication(tenant)).status).toBe('connection_required')
}

async function expectSecretRequired(member: 'on_create' | 'on_delete') {
  serveRepositories()
  const { tenant, parent } = await setUpPreviews()
  const set = (url: string, secret: string) =>
    tenant.put(getPolicyPath(parent.id), { branches: ['*'], hooks: { [member]: url, secret } })
  expect((await set('https://ci.example.com/x', 'hush-hush')).status).toBe(200)
  expect((await set(EVIL, '********')).body.code).toBe('secret_required')
}

/** Text: why a change of the address endangers no credential. Function: checks that a change is refused or revokes. */
const DECISIONS: Record<string, string | (() => Promise<void>)> = {
  'createProvider auth_url': NEW,
  'createProvider token_url': NEW,
  'createProvider revocation_url': NEW,
  'discoverProvider mcp_server_url': NEW,
  'connectIntegration base_url': NEW,
  'changeProvider auth_url': () => expectConnectionsEnd('auth_url'),
  'changeProvider token_url': () => expectConnectionsEnd('token_url'),
  'changeProvider revocation_url': () => expectConnectionsEnd('revocation_url'),
  'changeProvider mcp_server_url': async () => {
    const { tenant } = await as.setUpProvider(app)
    expect((await tenant.patch(getProviderPath('example'), { mcp_server_url: EVIL })).body.code).toBe(
      'member_immutable',
    )
  },
  'setPreviewPolicy hooks.on_create': () => expectSecretRequired('on_create'),
  'setPreviewPolicy hooks.on_delete': () => expectSecretRequired('on_delete'),
  'setRollout gates.webhook.url': async () => {
    const tenant = await newTenant()
    const { listener, key } = await newListener(tenant)
    await makeSyncAgent(tenant, key).poll({ policy: { ...CLOSED_POLICY, features: ['images', 'traffic', 'rollout'] } })
    const { body } = await tenant.post('/v2/deployments', makeListenerDeployment(listener, { name: 'shop' }))
    const set = (url: string, secret: string) =>
      tenant.put(`/v2/deployments/${body.id}/rollout`, { steps: [{ share: 10 }], gates: { webhook: { url, secret } } })
    expect((await set('https://ci.example.com/x', 'hush-hush')).status).toBe(200)
    expect((await set(EVIL, '********')).body.code).toBe('secret_required')
  },
  'createTrustedIssuer issuer': NEW,
  'changeTrustedIssuer issuer': 'nothing secret is sent to it, and its tokens get no more than the caller has',
  'renewAccess renewals.host': 'it is compared with the hosts of the deployment, and nothing is sent to it',
  'createChannel target.url': NEW,
  'createChannel target.webhook_url': NEW,
  'createChannel target.address': NEW,
  'changeChannel target.url': SIGNED,
  'changeChannel target.webhook_url': 'it is the credential itself',
  'changeChannel target.address': 'its owner confirms it, and nothing secret is sent to it',
  'createWebhook url': NEW,
  'changeWebhook url': SIGNED,
  'createDrain url': NEW,
  'changeDrain url': async () => {
    const tenant = await newTenant()
    const drain = { name: 'drain', kind: 'otlp', url: 'https://otel.example.com', headers: { Authorization: 'hush' } }
    const path = `/v2/drains/${(await tenant.post('/v2/drains', drain)).body.id}`
    expect((await tenant.patch(path, { url: EVIL })).body.code).toBe('drain_headers_required')
  },
  'createRunRule webhooks.url': NEW,
  'validateRunRule webhooks.url': 'it is neither stored nor called',
  'changeRunRule webhooks.url': async () => {
    const { tenant, createRule } = await newTracedTenant()
    const hook = { url: 'https://ci.example.com/x', headers: { Authorization: 'hush-hush' } }
    const rule = await createRule({ webhooks: [hook] })
    const change = (webhook: object) => tenant.patch(`/runs/rules/${rule.id}`, { webhooks: [webhook] })
    expect((await change({ url: EVIL, headers: { Authorization: '*****' } })).status).toBe(422)
    // The headers belong to their address, so none of them stays.
    expect((await change({ url: EVIL })).body.webhooks).toEqual([{ url: EVIL, headers: {} }])
  },
  'createModelConfiguration base_url': NEW,
  'createModelConfiguration token_url': NEW,
  'changeModelConfiguration base_url': async () => {
    const tenant = await newTenant()
    const model = { name: 'gpt', provider: 'openai', model: 'gpt', secret: 'hush-hush' }
    const path = `/v1/model-configurations/${(await tenant.post('/v1/model-configurations', model)).body.id}`
    expect((await tenant.patch(path, { base_url: EVIL })).body.code).toBe('model_secret_required')
    expect((await tenant.patch(path, { base_url: EVIL, auth_type: 'secret' })).status).toBe(422)
  },
  'changeModelConfiguration token_url': async () => {
    const tenant = await newTenant()
    const client = { auth_type: 'oauth_client_credentials', client_id: 'a', secret: 'hush-hush' }
    const model = {
      name: 'gpt',
      provider: 'openai',
      model: 'gpt',
      ...client,
      token_url: 'https://as.example.com/token',
    }
    const path = `/v1/model-configurations/${(await tenant.post('/v1/model-configurations', model)).body.id}`
    expect((await tenant.patch(path, { token_url: EVIL })).status).toBe(422)
    const { secret: _, ...withoutSecret } = client
    expect((await tenant.patch(path, { ...withoutSecret, token_url: EVIL })).status).toBe(422)
  },
  'poll control_plane_url': 'applications send their trace key there, and the agent that names it has that key',
  'createDeployment source_config.repo_url': NEW,
  'patchDeployment source_config.repo_url': async () => {
    serveRepositories()
    const { tenant, parent } = await setUpPreviews()
    const change = { source_config: { repo_url: 'https://evil.example.com/a/b' } }
    expect((await tenant.patch(`/v2/deployments/${parent.id}`, change)).body.code).toBe('member_immutable')
  },
  'createAccessGrant host': 'an address of the deployment; any other is refused',
  'createDeployment source_config.custom_url': VISITED,
  'patchDeployment source_config.custom_url': VISITED,
  'report reports.url': VISITED,
  'report reports.local_url': VISITED,
  'createDeployment source_revision_config.image_uri': IMAGE,
  'patchDeployment source_revision_config.image_uri': IMAGE,
  'requestPreview image_uri': IMAGE,
  'report reports.image_uri': IMAGE,
  'report reports.custom_host.host': 'compared with the host that the deployment has',
  ...Object.fromEntries(
    ['createDeployment source_config.', 'patchDeployment source_config.', 'setPreviewPolicy '].flatMap(at =>
      ['init_containers', 'sidecars'].map(kind => [`${at}resource_spec.${kind}.image`, IMAGE]),
    ),
  ),
}

it('every URL that a caller can set has a decision in this table', () => {
  expect([...new Set(addressInputs)].sort()).toEqual(Object.keys(DECISIONS).sort())
})

it.each(Object.entries(DECISIONS).filter(([, decision]) => typeof decision === 'function'))(
  '%s cannot be changed without revoking the credentials granted for the old address',
  async (_, checkDecision) => (checkDecision as () => Promise<void>)(),
)
