// The API as Terraform needs it: every resource that can be created and deleted goes through its whole life.
import { beforeAll, describe, expect, it } from 'vitest'
import { loadOperations } from '../src/app.ts'
import { newTenant, type Reply, type Tenant, unusedId } from './support/app.ts'
import { DECLARED, type Declared, NOT_DECLARED } from './support/declared-resources.ts'
import { createPlanner, describeBody, findRoute, type Members, type Routes } from './support/planner.ts'

const operations = await loadOperations()

it('each operation that deletes belongs to a declared resource, or is left out for a reason', () => {
  const declared = new Set(Object.values(DECLARED).map(({ item }) => item))
  const deleting = operations.filter(({ method }) => method === 'delete')
  const missing = deleting.filter(({ id, path }) => !declared.has(path) && !(id in NOT_DECLARED))
  expect(missing.map(({ id }) => id)).toEqual([])
  const ids = new Set(deleting.map(({ id }) => id))
  expect(Object.keys(NOT_DECLARED).filter(id => !ids.has(id))).toEqual([])
})

const METADATA = /^(id|created_at|updated_at|modified_at|start_time|last_used_at)$/
const withoutMetadata = (read: Members) =>
  Object.fromEntries(Object.entries(read).filter(([name]) => !METADATA.test(name)))

describe.each(Object.entries(DECLARED))('%s', (_, declared) => {
  let tenant: Tenant
  beforeAll(async () => {
    tenant = await newTenant()
  })

  it('lives', async () => {
    await live(tenant, declared)
  })
})

async function live(tenant: Tenant, declared: Declared): Promise<void> {
  const ids = (await declared.parents?.(tenant)) ?? {}
  const fill = (path: string) => path.replace(/\{(\w+)\}/g, (all, name) => ids[name] ?? all)
  const isNested = /\}$/.test(declared.item) && !declared.create?.method
  const parent = isNested ? declared.item.replace(/\/\{\w+\}$/, '') : declared.item
  const createPath = declared.create?.path ?? parent
  const method = declared.create?.method ?? 'post'
  const updateMethod = findRoute('patch', declared.item) ? 'patch' : declared.create?.method === 'put' ? 'put' : null
  const accepts = new Set(declared.accepts ?? describeBody(findRoute(updateMethod ?? '', declared.item)).keys())
  const calls = declared.asOwner ? tenant.owner : tenant
  const idParameter = isNested ? /\{(\w+)\}$/.exec(declared.item)![0] : undefined
  const item = idParameter ? fill(declared.item.replace(idParameter, '{id}')) : fill(declared.item)
  const routes: Routes = {
    item,
    create: { method, path: fill(createPath) },
    idMember: declared.idMember ?? 'id',
    update: updateMethod && { method: updateMethod, accepts },
    secrets: declared.secrets?.members ?? [],
    fingerprintsOf: declared.secrets?.fingerprints ?? (() => null),
    ...(declared.read && { read: id => declared.read!(tenant, ids, id) }),
  }
  const planner = createPlanner(calls, routes)
  const idOf = ({ body }: Reply) => String((declared.created?.(body) ?? body)[routes.idMember])
  const wanted = declared.wanted(ids)
  const check = (what: string, found: unknown, expected: unknown) => expect.soft(found, what).toEqual(expected)

  // Created, and again with the same idempotency key.
  expect(planner.plan(wanted, undefined, undefined)).toBe('create')
  const once = { 'Idempotency-Key': unusedId() }
  const created = await planner.create(wanted, once)
  expect(created.status, created.text).toBeLessThan(300)
  const id = idOf(created)
  const repeated = await planner.create(wanted, once)
  check('id of a repeated create', idOf(repeated), id)

  // Read, and nothing to do.
  const state = await planner.readState(id)
  expect(state, 'read after create').toBeDefined()
  if (!state) return
  check('members that differ after create', planner.compare(wanted, state, state), [])
  check('ETag', typeof state.etag, 'string')
  const again = await planner.readState(id)
  check('a second read', again, state)
}
