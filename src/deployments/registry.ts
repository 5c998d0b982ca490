// Pushing images: a token is offered for one deployment, and its registry trades it for the access that it asks for.
import { sql } from 'drizzle-orm'
import type * as z from 'zod'
import type { RegistrySettings } from '../env.ts'
import { verb } from '../kernel/context.ts'
import { signer } from '../kernel/crypto.ts'
import { unless } from '../kernel/db.ts'
import { fail, notConfigured } from '../kernel/errors.ts'
import { commit } from '../kernel/journal.ts'
import type { Services } from '../kernel/routes.ts'
import { found } from '../kernel/rows.ts'
import { deployments } from '../tables.ts'
import type * as schema from './registry.schema.ts'
import { BASIC, type Grant, openAccess } from './registry-access.ts'
import type * as shared from './schema.ts'
import { theOne } from './service.ts'

type Offered = { id: string; tenant_id: string; expires_at: string }
type Keys = { sealingKeys: [kid: string, key: string][] }

const ACCESS_SECONDS = 300

const tokenSigner = ({ sealingKeys }: Keys) => signer(sealingKeys, 'push tokens')
const signed = (path: string, expires: number) => ['PUSH', path, expires].join('\n')

/** A read that writes its event in the same statement: no token leaves without it. */
export const offerPush = verb(
  'deployments:update',
  async (ctx, { deployment_id }: z.output<typeof shared.DeploymentRef>): Promise<schema.PushToken> => {
    const { registry } = ctx.config
    if (!registry) throw notConfigured('REGISTRY_URL and REGISTRY_SIGNING_KEY are not set.')
    const sourced = sql`case when ${deployments.source} = 'internal_container' then true
      else refuse('source_rule', 'source needs to be internal_container for a push') end`
    const offered = sql<Offered>`
      select id, tenant_id, clock() + interval '1 hour' as expires_at from ${deployments}
      where ${theOne(deployment_id)} and ${unless('deployment_deleting', sql`${deployments.deleting_at} is null`)} and ${sourced}`
    const row = found(await commit(ctx, 'deployment.push_offered', offered), 'deployment_not_found')
    const path = `${row.tenant_id}/${row.id}`
    const expires = Date.parse(row.expires_at)
    const signature = await tokenSigner(ctx.config).sign(signed(path, expires))
    return { token: ['slwp', path, expires, signature].join('.'), registry_url: `${registry.url}/${path}` }
  },
)

type Asked = { authorization: string | undefined; scopes: string[]; requestId: string }
/** What the registry's clients come for, as its protocol has it: what a person or an agent was offered is their password. */
export async function grantAccess(services: Services, { authorization, scopes, requestId }: Asked) {
  const { config } = services
  const { registry } = config
  if (!registry) throw notConfigured('REGISTRY_URL and REGISTRY_SIGNING_KEY are not set.')
  const now = Date.now() + config.clockOffset()
  const password = passwordOf(authorization)
  const grant = (await openAccess(services, password, requestId)) ?? (await openPush(config, password, now))
  const access = scopes.flatMap(scope => scope.split(' ')).flatMap(scope => granted(registry, grant, scope))
  const token = await webToken(registry, { sub: grant.path, access }, Math.floor(now / 1000))
  return { token, access_token: token, expires_in: ACCESS_SECONDS, issued_at: new Date(now).toISOString() }
}

function passwordOf(authorization = ''): string {
  const [, basic = ''] = /^Basic +([A-Za-z0-9+/=_-]{1,4096}) *$/i.exec(authorization) ?? []
  return Buffer.from(basic, 'base64')
    .toString()
    .replace(/^[^:]*:/, '')
}

async function openPush(config: Keys, password: string, now: number): Promise<Grant> {
  const [, path, expires, signature] =
    /^slwp\.([0-9a-f-]{36}\/[0-9a-f-]{36})\.(\d{1,15})\.(.{1,200})$/.exec(password) ?? []
  if (!path || !(await tokenSigner(config).verify(signature!, signed(path, Number(expires)))))
    throw fail('push_token_invalid', BASIC)
  if (Number(expires) <= now) throw fail('push_token_expired', BASIC)
  return { path, actions: ['pull', 'push'] }
}

/** Below that path it may do so much; of anything else it is told nothing. */
function granted({ url }: RegistrySettings, { path, actions: may }: Grant, scope: string) {
  const own = [...url.split('/').slice(1), path].join('/')
  const [, type, name = '', actions = ''] = /^(repository):([^:]+):([a-z,*]+)$/.exec(scope) ?? []
  if (!type || !(name === own || name.startsWith(`${own}/`))) return []
  return [{ type, name, actions: actions.split(',').filter(action => may.includes(action)) }]
}

const encoded = (value: unknown) => Buffer.from(JSON.stringify(value)).toString('base64url')

async function webToken({ url, key, certificate }: RegistrySettings, claims: object, now: number): Promise<string> {
  const algorithm = { name: 'ECDSA', namedCurve: 'P-256', hash: 'SHA-256' }
  const times = { iat: now, nbf: now - 30, exp: now + ACCESS_SECONDS }
  const names = { iss: 'slipway', aud: url.split('/')[0], jti: crypto.randomUUID() }
  const text = `${encoded({ typ: 'JWT', alg: 'ES256', x5c: [certificate] })}.${encoded({ ...names, ...times, ...claims })}`
  const imported = await crypto.subtle
    .importKey('pkcs8', Buffer.from(key, 'base64'), algorithm, false, ['sign'])
    .catch(cause => {
      throw notConfigured(cause)
    })
  const signature = await crypto.subtle.sign(algorithm, imported, new TextEncoder().encode(text))
  return `${text}.${Buffer.from(signature).toString('base64url')}`
}
