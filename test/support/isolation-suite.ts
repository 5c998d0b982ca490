// A request of every operation between two tenants, with each other's ids: nothing of another tenant is returned or
// changed.
import { beforeAll, describe, expect, it } from 'vitest'
import { loadOperations } from '../../src/app.ts'
import type { Operation } from '../../src/kernel/http/routes.ts'
import { policyPermissions } from '../../src/kernel/permissions.ts'
import { ADMIN, ORGANIZATION_ADMIN } from '../../src/people/access/built-in-roles.ts'
import { deny, hasTag, newPolicy } from './access-policies.ts'
import {
  type App,
  type AppOptions,
  getApp,
  getExampleBody,
  getExampleRequest,
  newTenant,
  send,
  startApp,
  type Tenant,
  unusedId,
} from './app.ts'
import { newPathParameters } from './path-parameters.ts'
import { readRows } from './traces.ts'

/** Without a foreign id in the path or in the body it would be an ordinary write. */
const withForeignIds = (await loadOperations()).filter(
  one => one.kind !== 'open' && (one.params || 'role_id' in (getExampleBody(one) ?? {})),
)

/** A policy for each limits every request about resources, although none is denied. */
const LIMITED = [...new Set(Object.values(policyPermissions).flat())]

type Options = {
  through: NonNullable<AppOptions['through']>
  /** Policies limit every caller. Such a run tries this third of the operations. */
  policiesFor?: 0 | 1 | 2
}
export function describeIsolation({ through, policiesFor }: Options) {
  const hasPolicies = policiesFor !== undefined
  const tenants: Tenant[] = []
  /** Ids by path parameter, of every tenant. */
  const ids: Record<string, string>[] = []
  let app: App

  beforeAll(async () => {
    app = through === 'gateway' ? getApp() : startApp({ through })
    for (let i = 0; i < 2; i++) {
      const tenant = await newTenant({ app })
      const second = await tenant.owner.post('/workspaces', { display_name: 'Second' })
      tenants.push(tenant)
      const { organization_id, tenant_id } = tenant
      ids.push({ ...(await newPathParameters(tenant)), workspace_id: second.body.id, organization_id, tenant_id })
      if (hasPolicies)
        for (const permission of LIMITED)
          await newPolicy(tenant, deny(permission, hasTag('Secret', 'yes')), ADMIN, ORGANIZATION_ADMIN)
    }
  })

  /** Lists everything that a tenant can list. */
  const listAll = async ({ owner, tenant_id }: Tenant) => {
    const inside = { 'X-Tenant-Id': tenant_id }
    const lists = [
      '/orgs/current/info',
      '/orgs/current/members',
      '/orgs/current/roles',
      '/orgs/current/api-keys',
      '/workspaces',
      '/workspaces/current/members',
      '/v2/deployments',
      '/v2/tag-keys',
      '/sessions',
      '/feedback',
      '/feedback-configs',
      '/ttl-settings',
      '/v2/auth/providers',
      '/v2/auth/tokens',
      '/v1/integrations/forge/githost/install',
      '/v2/listeners',
      '/v2/custom-hosts',
      '/v2/events',
      '/v2/webhooks',
      '/v2/trusted-issuers',
      '/datasets',
      '/annotation-queues',
      '/runs/rules',
    ]
    const bodies = []
    for (const path of lists) {
      const { status, body } = await owner.get(`${path}?limit=100`, inside)
      expect(status, path).toBe(200)
      bodies.push(body)
    }
    return JSON.stringify(bodies, (name, value) => (name === 'last_used_at' ? undefined : value))
  }
  const sendExample = (operation: Operation, path: string, key: string, headers: Record<string, string>) => {
    const example = getExampleRequest(operation)
    const allHeaders = { ...example.headers, ...headers, 'X-Api-Key': key }
    return send(operation.method.toUpperCase(), path, { ...example, headers: allHeaders, app })
  }
  /** Names of members and the like are those of every tenant. */
  const foreignTo = (self: number) =>
    ids.flatMap((own, i) => (i === self ? [] : Object.values(own).filter(value => !/^(?:[a-z]+|\d+)$/.test(value))))

  describe('a tenant', () => {
    it('sees only itself', async () => {
      for (const [self, tenant] of tenants.entries()) {
        const text = await listAll(tenant)
        for (const id of foreignTo(self)) expect(text).not.toContain(id)
        expect(text).toContain(ids[self]!.role_id)
      }
    })

    it('cannot enter the workspace of another tenant', async () => {
      for (const [self, tenant] of tenants.entries()) {
        const headers = { 'X-Tenant-Id': tenants[1 - self]!.tenant_id }
        for (const caller of [tenant, tenant.owner]) {
          expect((await caller.get('/v2/deployments', headers)).status).toBe(403)
          expect((await caller.post('/sessions', { name: 'foreign' }, headers)).status).toBe(403)
        }
      }
    })

    it('can neither read nor change another tenant with its ids in paths or bodies', async () => {
      const before = await Promise.all(tenants.map(listAll))
      const tried = withForeignIds.filter((_, i) => !hasPolicies || i % 3 === policiesFor)
      for (const [i, operation] of tried.entries()) {
        const self = i % 2
        const target = 1 - self
        const body = operation.kind === 'json' &&
          operation.body && {
            ...getExampleBody(operation),
            role_id: ids[target]!.role_id,
            member_id: ids[target]!.member_id,
            email: null,
          }
        const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => ids[target]![name] ?? '1')
        const caller = i % 4 < 2 ? tenants[self]! : tenants[self]!.owner
        const headers = { 'X-Tenant-Id': tenants[self]!.tenant_id }
        const method = operation.method as 'get' | 'post' | 'put' | 'patch' | 'delete'
        const call = () =>
          method === 'get' ? caller.get(path, headers) : caller[method](path, body || undefined, headers)
        const reply = await (operation.kind === 'raw' ? sendExample(operation, path, caller.key, headers) : call())
        expect([403, 404, 422], `${operation.id} answered ${reply.status}`).toContain(reply.status)
        // The answer may repeat what the caller sent: the path and its parameters.
        const parameters = Object.entries(ids[target]!).filter(([name]) => operation.path.includes(`{${name}}`))
        const ownWords = [path, ...parameters.map(([, value]) => value)]
        const rest = ownWords.reduce((text, one) => text.replaceAll(one, ''), reply.text)
        for (const id of foreignTo(self)) expect(rest, operation.id).not.toContain(id)
      }
      expect(await Promise.all(tenants.map(listAll))).toEqual(before)
    })

    it('sends nothing into projects and runs of another tenant', async () => {
      for (const [self, { key }] of tenants.entries()) {
        const target = (self + 1) % tenants.length
        const before = await readRows(tenants[target]!)
        expect(before.length).toBeGreaterThan(0)
        for (const [path, body] of foreignWrites(ids[target]!)) {
          const method = path.endsWith(ids[target]!.run_id!) ? 'PATCH' : 'POST'
          const reply = await send(method, path, { body, headers: { 'X-Api-Key': key }, app })
          expect([403, 404], `${path} answered ${reply.text}`).toContain(reply.status)
        }
        const own = before.map(run => ({ id: run.id, trace_id: run.trace_id, dotted_order: run.dotted_order }))
        const waiting = await send('POST', '/runs/batch', { body: { patch: own }, headers: { 'X-Api-Key': key }, app })
        // The project of a patch is unknown before its post, so policies refuse it.
        expect(waiting.status).toBe(hasPolicies ? 404 : 202)
        expect(await readRows(tenants[target]!)).toEqual(before)
      }
    })
  })
}

/** A run in a project, patches of a run by its id, and feedback on the project. */
function foreignWrites({ session_id, run_id }: Record<string, string>): [path: string, body: object][] {
  const id = unusedId()
  const run = { id, session_id, name: 'run', run_type: 'chain', start_time: '2026-11-24T09:00:00Z' }
  return [
    ['/runs', run],
    ['/runs/batch', { post: [run] }],
    ['/runs/batch', { patch: [{ id: run_id, outputs: {} }] }],
    [`/runs/${run_id}`, { outputs: {} }],
    ['/feedback', { session_id, key: 'correct', score: 1 }],
  ]
}
