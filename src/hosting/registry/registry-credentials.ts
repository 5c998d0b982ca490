// Credentials of agents for the registry: signed, for one repository, valid while the listener serves the deployment.
import { sql } from 'drizzle-orm'
import type { RegistrySettings } from '../../env.ts'
import { createSigner } from '../../kernel/crypto/crypto.ts'
import { runAsSystem } from '../../kernel/db/db.ts'
import { setSystemSettings } from '../../kernel/db/journal.ts'
import type { HostServices } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { Services } from '../../kernel/http/routes.ts'
import type { Source } from '../../protocol/parts.schema.ts'

/** The allowed actions, and the path that they are allowed below. */
export type RegistryGrant = { path: string; actions: string[] }
type Claims = RegistryGrant & { key_id: string; deployment_id: string; expires: number }
type GrantSubject = { tenant_id: string; deployment_id: string; source: Source; image_uri: string | null }

const CREDENTIAL_TTL_MS = 60 * 60_000
const PASSWORD_PREFIX = 'slwr'
const PASSWORD_PATTERN = /^slwr\.([\w-]{1,2000})\.(.{1,200})$/
/** Sources whose image the user names. For every other source the agent builds the image. */
export const IMAGE_SOURCES: Source[] = ['internal_container', 'external_container']

export const BASIC_CHALLENGE = { headers: { 'WWW-Authenticate': 'Basic realm="slipway"' } }

const credentialSigner = ({ sealingKeys }: Services['config']) => createSigner(sealingKeys, 'registry credentials')

export async function issueRegistryCredential(
  { config, platform }: HostServices,
  registry: RegistrySettings,
  key_id: string,
  subject: GrantSubject,
) {
  const grant = grantFor(registry, subject)
  const expires = platform.clock.now() + CREDENTIAL_TTL_MS
  const claims: Claims = { ...grant, key_id, deployment_id: subject.deployment_id, expires }
  const text = Buffer.from(JSON.stringify(claims)).toString('base64url')
  const [host, ...rest] = `${registry.url}/${grant.path}`.split('/')
  return {
    registry: host!,
    repository: rest.join('/'),
    username: 'slipway',
    password: [PASSWORD_PREFIX, text, await credentialSigner(config).sign(text)].join('.'),
    expires_at: new Date(expires).toISOString(),
  }
}

/** Pull the image to run, which may be another deployment's of the workspace; or pull and push the image to build. */
function grantFor(
  { url }: RegistrySettings,
  { tenant_id, deployment_id, source, image_uri }: GrantSubject,
): RegistryGrant {
  const own = `${tenant_id}/${deployment_id}`
  if (!IMAGE_SOURCES.includes(source)) return { path: own, actions: ['pull', 'push'] }
  const tenantImage = image_uri?.startsWith(`${url}/${tenant_id}/`) ? image_uri.slice(url.length + 1) : ''
  return { path: /^[^/]+\/[0-9a-f-]{36}(?=[/:@]|$)/.exec(tenantImage)?.[0] ?? own, actions: ['pull'] }
}

/** Undefined for another kind of password. The database is queried only behind a valid signature. */
export async function verifyRegistryCredential(
  services: Services,
  password: string,
  requestId: string,
): Promise<RegistryGrant | undefined> {
  const [, text, signature] = PASSWORD_PATTERN.exec(password) ?? []
  if (!text || !(await credentialSigner(services.config).verify(signature!, text))) return undefined
  const { path, actions, ...claims } = JSON.parse(Buffer.from(text, 'base64url').toString()) as Claims
  if (claims.expires <= services.platform.clock.now() || !(await isStillServed(services, claims, requestId)))
    throw fail('registry_credential_ended', BASIC_CHALLENGE)
  return { path, actions }
}

type CredentialIds = Pick<Claims, 'key_id' | 'deployment_id'>
async function isStillServed(
  { platform, database }: Services,
  { key_id, deployment_id }: CredentialIds,
  requestId: string,
): Promise<boolean> {
  const served = sql`
    select from api_keys k
    join deployments d on d.listener_id = k.listener_id
    where k.id = ${key_id}::uuid
      and k.revoked_at is null
      and coalesce(k.expires_at > clock(), true)
      and (k.member_id is null or bound_key_permissions(k.id) is not null)
      and d.id = ${deployment_id}::uuid
      and d.deleting_at is null`
  const [, rows] = await runAsSystem(database, setSystemSettings(platform, requestId), served)
  return rows!.length > 0
}
