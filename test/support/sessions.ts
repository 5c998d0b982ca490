// People with sessions, whose requests look like those of a page of this installation.
import { sql } from 'drizzle-orm'
import { newSessionToken } from '../../src/kernel/crypto/crypto.ts'
import { sha256Hex } from '../../src/kernel/crypto/digest.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import { ORGANIZATION_USER } from '../../src/people/access/built-in-roles.ts'
import { type App, getApp, type Reply, send, type Tenant, unusedId } from './app.ts'

/** The cookie of `http://slipway.test`, the address of the tests. */
export const COOKIE = 'slipway-80'
export const cookieHeaders = (token: string): Record<string, string> => ({
  Cookie: `${COOKIE}=${token}`,
  'Sec-Fetch-Site': 'same-origin',
})

/** The token that a response sets. */
export const tokenOf = ({ headers }: Reply): string | undefined =>
  /^[\w-]+=(\w+);/.exec(headers.get('Set-Cookie') ?? '')?.[1]

export function asSession(token: string, app: App = getApp()) {
  const call =
    (method: string) =>
    (path: string, body?: unknown, headers: Record<string, string> = {}) => {
      const type: Record<string, string> = method === 'DELETE' ? {} : { 'Content-Type': 'application/json' }
      return send(method, path, { body, headers: { ...cookieHeaders(token), ...type, ...headers }, app })
    }
  return {
    token,
    get: (path: string, headers?: Record<string, string>) => call('GET')(path, undefined, headers),
    post: call('POST'),
    put: call('PUT'),
    patch: call('PATCH'),
    delete: call('DELETE'),
  }
}

type MemberRoles = { organizationRole?: string; workspaceRole?: string | null }

/** Signs in a person with these roles. Null: no role in the workspace. */
export async function newSession(
  { organization_id, tenant_id }: Pick<Tenant, 'organization_id' | 'tenant_id'>,
  { organizationRole = ORGANIZATION_USER, workspaceRole = null }: MemberRoles = {},
) {
  const member_id = unusedId()
  const token = newSessionToken()
  await runAsSystem(
    getApp().database,
    sql`
      insert into members (id, organization_id, email, role_id)
      values (${member_id}, ${organization_id}, ${`${member_id}@example.com`}, ${organizationRole})`,
    sql`
      insert into workspace_members (organization_id, tenant_id, member_id, role_id)
      select ${organization_id}, ${tenant_id}, ${member_id}, ${workspaceRole}::uuid
      where ${workspaceRole}::uuid is not null`,
    sql`
      insert into sessions (organization_id, member_id, token_hash, method)
      values (${organization_id}, ${member_id}, ${sha256Hex(token)}, 'link')`,
  )
  return { member_id, ...asSession(token) }
}
