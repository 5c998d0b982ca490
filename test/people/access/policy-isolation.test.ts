// A policy hides resources on every route: those of a workspace that a caller of the same workspace may not see.
import { sql } from 'drizzle-orm'
import { beforeAll, describe, expect, inject, it } from 'vitest'
import { describeAccess } from '../../../src/kernel/access-scopes.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import type { Operation } from '../../../src/kernel/http/routes.ts'
import {
  organizationPermissions,
  type Permission,
  permissionNames,
  policyPermissions,
} from '../../../src/kernel/permissions.ts'
import { allow, deny, hasTag, newLimitedCaller, newTaggedDeployment, tagValue } from '../../support/access-policies.ts'
import {
  type AppOptions,
  getApp,
  getExampleQuery,
  getExampleRequest,
  guardedOperations,
  newTenant,
  send,
  startApp,
  type Tenant,
  unusedId,
} from '../../support/app.ts'
import { findUnexpected } from '../../support/entries.ts'
import { newPathParameters } from '../../support/path-parameters.ts'
import { storeRuns } from '../../support/runs.ts'

const bound = [...new Set(Object.values(policyPermissions).flat())]
const readings: Permission[] = [
  'deployments:read',
  'projects:read',
  'runs:read',
  'datasets:read',
  'annotation-queues:read',
]
const workspacePermissions = permissionNames.filter(name => !organizationPermissions.includes(name))
/** Path parameters that name a hidden resource, or something that belongs to it. */
const HIDDEN = ['deployment_id', 'session_id', 'run_id', 'dataset_id', 'example_id', 'queue_id', 'feedback_id']
const namesHidden = ({ path }: Operation) => HIDDEN.some(name => path.includes(`{${name}}`))

/** Tags all resources of the workspace. */
async function tagEverything({ tenant_id }: Tenant, tag_value_id: string): Promise<void> {
  const tables = ['deployments', 'projects', 'datasets', 'annotation_queues']
  const tag = (table: string) => sql`
    update ${sql.identifier(table)}
    set tag_value_ids = array[${tag_value_id}::uuid]
    where tenant_id = ${tenant_id}::uuid`
  await runAsSystem(getApp().database, ...tables.map(tag))
}

/** A hash of the rows, by table. */
async function hashHidden(ids: Record<string, string>): Promise<Record<string, string>> {
  const hidden = { deployments: 'deployment_id', revisions: 'revision_id', projects: 'session_id', runs: 'run_id' }
  const tables = Object.entries({
    ...hidden,
    datasets: 'dataset_id',
    feedbacks: 'feedback_id',
    annotation_queues: 'queue_id',
  })
  const hash = ([table, name]: [string, string]) =>
    sql`select md5(to_jsonb(t)::text) from ${sql.identifier(table)} t where id = ${ids[name]}::uuid`
  const rows = (await runAsSystem(getApp().database, ...tables.map(hash))) as [string][][]
  return Object.fromEntries(tables.map(([table], i) => [table, String(rows[i])]))
}

describe.each(['gateway', 'withoutTenantPredicates', 'withoutRowSecurity'] as const)('access through: %s', through => {
  let tenant: Tenant
  /** The ids of a hidden deployment, project with a run, dataset and queue. */
  let hidden: Record<string, string>
  let secrets: string[]
  let before: Record<string, string>

  beforeAll(async () => {
    tenant = await newTenant({ app: getApp() })
    hidden = { ...(await newPathParameters(tenant)), number: '1', name: 'TOKEN' }
    const [run] = await storeRuns(tenant, [{ session_id: hidden.session_id!, name: 'hush-run' }])
    hidden.run_id = run!
    hidden.feedback_id = (await tenant.post('/feedback', { run_id: run, key: 'correct', score: 1 })).body.id
    await tagEverything(tenant, await tagValue(tenant, 'Secret=yes'))
    secrets = [...HIDDEN, 'revision_id'].flatMap(name => hidden[name] ?? []).concat('hush-run')
    before = await hashHidden(hidden)
  })

  const call = (operation: Operation, key: string, ids = hidden) => {
    const path = operation.path.replace(/\{(\w+)\}/g, (_, name) => ids[name] ?? unusedId())
    const example = getExampleRequest(operation)
    const options = { ...example, headers: { ...example.headers, 'X-Api-Key': key }, app: appOf(through) }
    return send(operation.method.toUpperCase(), path + getExampleQuery(operation), options)
  }
  /** The reply may repeat what the caller sent. */
  const findLeaks = (operation: Operation, text: string) => {
    const sent = Object.entries(hidden).flatMap(([name, id]) => (operation.path.includes(`{${name}}`) ? [id] : []))
    const rest = sent.reduce((reply, id) => reply.replaceAll(id, ''), text)
    return secrets.filter(secret => rest.includes(secret))
  }

  const all = guardedOperations.filter(({ verb }) => verb.permission !== null)
  // Callers are of the workspace of the hidden resources, so tenant predicates hide nothing from them. Some operations
  // show that row policies need none.
  const isSampled = through === 'withoutTenantPredicates' && inject('fuzz').requests < 10_000
  const inWorkspace = isSampled ? all.filter((_, i) => i % 3 === 0) : all

  it.runIf(through !== 'withoutRowSecurity')(
    'shows nothing to a caller with every permission, for whom a policy denies reading',
    async () => {
      // Callers that may not read runs may still send them.
      const denied = [...readings, 'runs:create']
      const policies = denied.map(permission => deny(permission, hasTag('Secret', 'yes')))
      const { key } = await newLimitedCaller(tenant, workspacePermissions, policies)
      const unexpected: string[] = []
      for (const operation of inWorkspace) {
        const { status, text } = await call(operation, key)
        const leaks = findLeaks(operation, text)
        if (leaks.length > 0) unexpected.push(`${operation.id} shows ${leaks}`)
        if (namesHidden(operation) && ![403, 404, 422].includes(status)) unexpected.push(`${operation.id} ${status}`)
      }
      expect(unexpected).toEqual([])
      expect(await hashHidden(hidden)).toEqual(before)
    },
    60_000,
  )

  it.runIf(through !== 'withoutRowSecurity')(
    'shows nothing to a caller without any permission, whom policies let in to other resources',
    async () => {
      const policies = bound.map(permission => allow(permission, hasTag('Public', 'yes')))
      const { key } = await newLimitedCaller(tenant, [], policies)
      const unexpected: string[] = []
      // The others need a permission, which no policy gives.
      for (const operation of inWorkspace.filter(({ verb }) => bound.includes(verb.permission!))) {
        const { status, text } = await call(operation, key)
        const leaks = findLeaks(operation, text)
        if (leaks.length > 0) unexpected.push(`${operation.id} shows ${leaks}`)
        if (namesHidden(operation) && ![403, 404, 422].includes(status)) unexpected.push(`${operation.id} ${status}`)
      }
      expect(unexpected).toEqual([])
      expect(await hashHidden(hidden)).toEqual(before)
    },
    60_000,
  )

  it('changes nothing for a caller who may read it, for whom a policy denies every change', async () => {
    const changes = bound.filter(name => !readings.includes(name))
    const policies = changes.map(permission => deny(permission, hasTag('Secret', 'yes')))
    const { key } = await newLimitedCaller(tenant, workspacePermissions, policies)
    const unexpected: string[] = []
    const denied = inWorkspace.filter(one => changes.includes(one.verb.permission!) && namesHidden(one))
    expect(denied.length).toBeGreaterThan(isSampled ? 5 : 15)
    for (const operation of denied) {
      const { body } = await call(operation, key)
      if (body?.code !== 'denied_by_policy') unexpected.push(`${operation.id} ${JSON.stringify(body)}`)
    }
    expect(unexpected).toEqual([])
    expect(await hashHidden(hidden)).toEqual(before)
  })
})

it('a caller that may send runs of a project and not read them sees nothing of a run that it patches', async () => {
  const tenant = await newTenant({ app: getApp() })
  const { session_id } = await newPathParameters(tenant)
  const [run] = await storeRuns(tenant, [{ session_id: session_id!, name: 'hush-run' }])
  await tagEverything(tenant, await tagValue(tenant, 'Secret=yes'))
  const denied = deny('runs:read', hasTag('Secret', 'yes'))
  const { key } = await newLimitedCaller(tenant, workspacePermissions, [denied])
  const headers = { 'X-Api-Key': key }
  const patched = await send('PATCH', `/runs/${run}`, { headers, body: { outputs: { answer: 42 } } })
  expect([patched.status, patched.body]).toEqual([202, { operations: 1, feedback: 0 }])
  expect((await send('GET', `/runs/${run}`, { headers })).status).toBe(404)
})

it('a verb that names no resource in its path opens by a policy, or reaches nothing that has tags', () => {
  const closed = guardedOperations.filter(
    ({ path, verb }) =>
      bound.includes(verb.permission!) && !verb.byPolicy && !HIDDEN.some(name => path.includes(`{${name}}`)),
  )
  const untagged = ['tag-keys', 'tag-values', 'custom-hosts', 'templates', 'auth', 'integrations', 'ttl-settings']
  const settings = ['alert-rules', 'alert-mutes', 'alert-settings', 'log-archive-settings']
  const isUntagged = ({ path }: Operation) => path.split('/').some(word => [...untagged, ...settings].includes(word))
  expect(closed.filter(operation => !isUntagged(operation)).map(({ id }) => id)).toEqual([])
})

const apps = new Map<string, ReturnType<typeof startApp>>()
function appOf(through: NonNullable<AppOptions['through']>) {
  const app = apps.get(through) ?? (through === 'gateway' ? getApp() : startApp({ through }))
  apps.set(through, app)
  return app
}

it('policies let a caller without permissions in for what they are about, and for nothing else', async () => {
  const tenant = await newTenant()
  const policies = bound.map(permission => allow(permission, hasTag('Public', 'yes')))
  const { key } = await newLimitedCaller(tenant, [], policies)
  const entries = permissionNames.flatMap(permission =>
    [true, false].flatMap(inWorkspace =>
      [true, false].map(byPolicy => ({
        key,
        permission,
        inWorkspace,
        access: describeAccess(permission, {}, byPolicy),
        isOpen: byPolicy && bound.includes(permission),
      })),
    ),
  )
  expect(await findUnexpected(entries, ({ isOpen }) => (isOpen ? 'passes' : 'permission_missing'))).toEqual([])
})

it('every permission is one that a policy can be about, or one that no policy gives', async () => {
  const tenant = await newTenant()
  await newTaggedDeployment(tenant, ['Public=yes'])
  const others = permissionNames.filter(name => !bound.includes(name))
  expect(others).not.toEqual([])
  for (const permission of others) {
    const group = { permission, resource_type: 'deployment', conditions: [hasTag('Public', 'yes')] }
    const policy = { name: 'x', effect: 'allow', condition_groups: [group] }
    const { status } = await tenant.owner.post('/v1/platform/orgs/current/access-policies', policy)
    expect([permission, status]).toEqual([permission, 422])
  }
})
