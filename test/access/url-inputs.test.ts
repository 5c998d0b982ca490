// Every address that a caller can give, found by walking the request schemas. One that can change later is either
// immutable or ends what was granted under the old one: otherwise whoever changes it receives what somebody else
// trusted the old one with.
import { expect, it } from 'vitest'
import type * as z from 'zod'
import { operations } from '../../src/app.ts'
import * as as from '../support/authorization-server.ts'
import { getPolicyPath, setUpPreviews } from '../support/previews.ts'
import { getProviderPath } from '../support/providers.ts'
import { serveRepositories } from '../support/pushes.ts'

// ---- the walk

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

const NAMED = /(^|_)(url|uri|host|endpoint|address|origin|domain|webhook|image)s?$/
/** By its name, or because it takes an address and refuses a word. */
const isAddress = (name: string, leaf: Schema) =>
  NAMED.test(name) ||
  (leaf.safeParse('https://host.example.com/a/path').success && !leaf.safeParse('not-an-address-but-a-word').success)

function addressesIn(schema: Schema, path: string[] = [], seen: Schema[] = []): string[] {
  if (seen.includes(schema)) return []
  const def = (schema as unknown as { _zod: { def: Def } })._zod.def
  const within = (inner: Schema, name?: string) =>
    addressesIn(inner, name === undefined ? path : [...path, name], [...seen, schema])
  if (def.shape) return Object.entries(def.shape).flatMap(([name, member]) => within(member, name))
  if (def.element) return within(def.element)
  if (def.innerType) return within(def.innerType)
  // A preprocessing step has nothing to see before it.
  if (def.in && def.out) return [...within(def.in), ...within(def.out)]
  if (def.options) return def.options.flatMap(option => within(option))
  if (def.valueType) return within(def.valueType, '*')
  if (def.getter) return within(def.getter())
  return def.type === 'string' && isAddress(path.at(-1) ?? '', schema) ? [path.join('.')] : []
}

/** Of routes that take a key; `id member`. */
const found = operations
  .filter(({ verb, method }) => verb && method !== 'get')
  .flatMap(({ id, body, query }) =>
    [body, query].flatMap(schema =>
      (schema ? addressesIn(schema as unknown as Schema) : []).map(one => `${id} ${one}`),
    ),
  )

// ---- the decisions

const NEW = 'names a thing that this request makes, with the credentials that it brings'
const IMAGE =
  'an agent pulls it; the password that it gets is for the registry of this installation, below this workspace’s path'
const VISITED = 'visitors go there; we send nothing to it'

const { app } = as.makeAuthorizationServer()
const EVIL = 'https://evil.example.com/x'

async function endsConnections(member: string) {
  const { tenant } = await as.setUpProvider(app)
  await as.completeAuthentication(app, tenant)
  const elsewhere = { [member]: EVIL }
  expect((await tenant.patch(getProviderPath('example'), elsewhere)).body.code).toBe('secret_required')
  expect((await tenant.patch(getProviderPath('example'), { ...elsewhere, client_secret: 'another' })).status).toBe(200)
  expect((await as.beginAuthentication(tenant)).status).toBe('connection_required')
}

async function needsTheSecretAgain(member: 'on_create' | 'on_delete') {
  serveRepositories()
  const { tenant, parent } = await setUpPreviews()
  const set = (url: string, secret: string) =>
    tenant.put(getPolicyPath(parent.id), { branches: ['*'], hooks: { [member]: url, secret } })
  expect((await set('https://ci.example.com/x', 'hush-hush')).status).toBe(200)
  expect((await set(EVIL, '********')).body.code).toBe('secret_required')
}

/**
 * A sentence says why there is nothing to end. A function shows that changing the address ends what was granted, or
 * is refused.
 */
const DECIDED: Record<string, string | (() => Promise<void>)> = {
  'createProvider auth_url': NEW,
  'createProvider token_url': NEW,
  'createProvider revocation_url': NEW,
  'discoverProvider mcp_server_url': NEW,
  'connectIntegration base_url': NEW,
  'changeProvider auth_url': () => endsConnections('auth_url'),
  'changeProvider token_url': () => endsConnections('token_url'),
  'changeProvider revocation_url': () => endsConnections('revocation_url'),
  'changeProvider mcp_server_url': async () => {
    const { tenant } = await as.setUpProvider(app)
    expect((await tenant.patch(getProviderPath('example'), { mcp_server_url: EVIL })).body.code).toBe(
      'member_immutable',
    )
  },
  'setPreviewPolicy hooks.on_create': () => needsTheSecretAgain('on_create'),
  'setPreviewPolicy hooks.on_delete': () => needsTheSecretAgain('on_delete'),
  'createDeployment source_config.repo_url': NEW,
  'patchDeployment source_config.repo_url': async () => {
    serveRepositories()
    const { tenant, parent } = await setUpPreviews()
    const elsewhere = { source_config: { repo_url: 'https://evil.example.com/a/b' } }
    expect((await tenant.patch(`/v2/deployments/${parent.id}`, elsewhere)).body.code).toBe('member_immutable')
  },
  'createDeployment source_config.custom_url': VISITED,
  'patchDeployment source_config.custom_url': VISITED,
  'report reports.url': VISITED,
  'createDeployment source_revision_config.image_uri': IMAGE,
  'patchDeployment source_revision_config.image_uri': IMAGE,
  'report reports.image_uri': IMAGE,
  ...Object.fromEntries(
    ['createDeployment source_config.', 'patchDeployment source_config.', 'setPreviewPolicy '].flatMap(at =>
      ['init_containers', 'sidecars'].map(kind => [`${at}resource_spec.${kind}.image`, IMAGE]),
    ),
  ),
}

it('every URL that a caller can set has a decision here', () => {
  expect([...new Set(found)].sort()).toEqual(Object.keys(DECIDED).sort())
})

it.each(Object.entries(DECIDED).filter(([, decided]) => typeof decided === 'function'))(
  '%s cannot be changed, or ends what was granted under the one before',
  async (_, holds) => (holds as () => Promise<void>)(),
)
