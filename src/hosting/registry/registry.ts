// Push tokens for images of a deployment, also of a future one, and the token service that exchanges them.
import { type SQL, sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { RegistrySettings } from '../../env.ts'
import { createSigner } from '../../kernel/crypto/crypto.ts'
import { type Row, refuseUnless, runAsSystem } from '../../kernel/db/db.ts'
import { commit, setSystemSettings } from '../../kernel/db/journal.ts'
import { requireRow } from '../../kernel/db/rows.ts'
import type { Code } from '../../kernel/http/codes.ts'
import { type Ctx, credentialOf, verb } from '../../kernel/http/context.ts'
import { fail, notConfigured } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type * as shared from '../deployments/schema.ts'
import { isDeployment } from '../deployments/service.ts'
import { findModeFaults, sourceRuleError } from '../deployments/source-rules.ts'
import { deployments } from '../deployments/tables.ts'
import type * as schema from './registry.schema.ts'
import { BASIC_CHALLENGE, type RegistryGrant, verifyRegistryCredential } from './registry-credentials.ts'

type PushTokenRow = { id: string; tenant_id: string; expires_at: string }
type SigningKeys = { sealingKeys: [kid: string, key: string][] }

const ACCESS_TOKEN_SECONDS = 300

const tokenSigner = ({ sealingKeys }: SigningKeys) => createSigner(sealingKeys, 'push tokens')
/** `maker` is the hash of the credential that asked for the token and ends it. */
const signedText = (path: string, expires: number, maker: string) => ['PUSH', path, expires, maker].join('\n')

/** A read that writes its event in the same statement: no token leaves without an event. */
export const issuePushToken = verb(
  'deployments:update',
  async (ctx, { deployment_id }: z.output<typeof shared.DeploymentRef>): Promise<schema.PushToken> => {
    const takesImages = sql`case
      when ${deployments.source} = 'internal_container' then true
      else refuse('source_rule', 'source must be internal_container for a push')
    end`
    const query = sql<PushTokenRow>`
      select id, tenant_id, clock() + interval '1 hour' as expires_at
      from ${deployments}
      where ${isDeployment(deployment_id)}
        and ${refuseUnless('deployment_deleting', sql`${deployments.deleting_at} is null`)}
        and ${takesImages}`
    return offerToken(ctx, 'deployment.push_offered', query, 'deployment_not_found')
  },
)

/** For the image of a deployment that is yet to be created: a part of the registry that no deployment has. */
export const issueNewPushToken = verb('deployments:create', async (ctx): Promise<schema.PushToken> => {
  const faults = findModeFaults('internal_container', ctx.config.mode)
  if (faults.length > 0) throw sourceRuleError(faults)
  const query = sql<PushTokenRow>`
    select ${crypto.randomUUID()}::uuid as id, current_tenant() as tenant_id, clock() + interval '1 hour' as expires_at`
  return offerToken(ctx, 'image.push_offered', query, 'workspace_not_found')
})

/** `query` selects whose part of the registry it is, or nothing if that does not exist. */
async function offerToken(ctx: Ctx, event: string, query: SQL<PushTokenRow>, missing: Code): Promise<schema.PushToken> {
  const { registry } = ctx.config
  if (!registry) throw notConfigured('REGISTRY_URL and REGISTRY_SIGNING_KEY are not set.')
  const row = requireRow(await commit(ctx, event, query), missing)
  const path = `${row.tenant_id}/${row.id}`
  const expires = Date.parse(row.expires_at)
  const maker = credentialOf(ctx).hash
  const signature = await tokenSigner(ctx.config).sign(signedText(path, expires, maker))
  return { token: ['slwp', path, expires, maker, signature].join('.'), registry_url: `${registry.url}/${path}` }
}

type AccessRequest = { authorization: string | undefined; scopes: string[]; requestId: string }
/** The token service of the registry protocol. The password is a push token, or the credential of an agent. */
export async function issueAccessToken(services: Services, { authorization, scopes, requestId }: AccessRequest) {
  const { config, platform } = services
  const { registry } = config
  if (!registry) throw notConfigured('REGISTRY_URL and REGISTRY_SIGNING_KEY are not set.')
  const now = platform.clock.now()
  const password = passwordOf(authorization)
  const grant =
    (await verifyRegistryCredential(services, password, requestId)) ??
    (await verifyPushToken(services, password, requestId))
  const access = scopes.flatMap(scope => scope.split(' ')).flatMap(scope => grantScope(registry, grant, scope))
  const token = await signAccessToken(registry, { sub: grant.path, access }, Math.floor(now / 1000))
  return { token, access_token: token, expires_in: ACCESS_TOKEN_SECONDS, issued_at: new Date(now).toISOString() }
}

function passwordOf(authorization = ''): string {
  const [, basic = ''] = /^Basic +([A-Za-z0-9+/=_-]{1,4096}) *$/i.exec(authorization) ?? []
  return Buffer.from(basic, 'base64')
    .toString()
    .replace(/^[^:]*:/, '')
}

async function verifyPushToken(
  { config, platform, database }: Services,
  password: string,
  requestId: string,
): Promise<RegistryGrant> {
  const [, path, expires, maker, signature] =
    /^slwp\.([0-9a-f-]{36}\/[0-9a-f-]{36})\.(\d{1,15})\.([0-9a-f]{64})\.(.{1,200})$/.exec(password) ?? []
  if (!path || !(await tokenSigner(config).verify(signature!, signedText(path, Number(expires), maker!))))
    throw fail('push_token_invalid', BASIC_CHALLENGE)
  if (Number(expires) <= platform.clock.now()) throw fail('push_token_expired', BASIC_CHALLENGE)
  const [, [row]] = (await runAsSystem(
    database,
    setSystemSettings(platform, requestId),
    sql<Row>`select is_living_credential(${maker!})`,
  )) as [unknown, Row[]]
  if (row![0] !== true) throw fail('push_token_expired', BASIC_CHALLENGE)
  return { path, actions: ['pull', 'push'] }
}

/** The allowed part of a requested scope; a scope outside the granted path is left out. */
function grantScope({ url }: RegistrySettings, grant: RegistryGrant, scope: string) {
  const root = [...url.split('/').slice(1), grant.path].join('/')
  const [, type, name = '', actions = ''] = /^(repository):([^:]+):([a-z,*]+)$/.exec(scope) ?? []
  if (!type || !(name === root || name.startsWith(`${root}/`))) return []
  return [{ type, name, actions: actions.split(',').filter(action => grant.actions.includes(action)) }]
}

const encodeSegment = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

async function signAccessToken(
  { url, key, certificate }: RegistrySettings,
  claims: object,
  now: number,
): Promise<string> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const times = { iat: now, nbf: now - 30, exp: now + ACCESS_TOKEN_SECONDS }
  const names = { iss: 'slipway', aud: url.split('/')[0], jti: crypto.randomUUID() }
  const header = { typ: 'JWT', alg: 'ES256', x5c: [certificate] }
  const text = `${encodeSegment(header)}.${encodeSegment({ ...names, ...times, ...claims })}`
  const signingKey = await crypto.subtle
    .importKey('pkcs8', Buffer.from(key, 'base64'), algorithm, false, ['sign'])
    .catch(cause => {
      throw notConfigured(cause)
    })
  const signature = await crypto.subtle.sign(algorithm, signingKey, new TextEncoder().encode(text))
  return `${text}.${Buffer.from(signature).toString('base64url')}`
}
