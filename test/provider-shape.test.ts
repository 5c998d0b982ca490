// The API as Terraform needs it: every resource that can be created and deleted goes through its whole life.
import { expect, it } from 'vitest'
import { loadOperations } from '../src/app.ts'
import { newTenant, type Reply, type Tenant, unusedId } from './support/app.ts'
import { DECLARED, type Declared, NOT_DECLARED } from './support/declared-resources.ts'
import { createPlanner, describeBody, findRoute, isSame, type Members, type State } from './support/planner.ts'

const operations = await loadOperations()

it('each operation that deletes belongs to a declared resource, or is left out for a reason', () => {
  const declared = new Set(Object.values(DECLARED).map(({ item }) => item))
  const deleting = operations.filter(({ method }) => method === 'delete')
  const missing = deleting.filter(({ id, path }) => !declared.has(path) && !(id in NOT_DECLARED))
  expect(missing.map(({ id }) => id)).toEqual([])
  const paths = deleting.flatMap(({ id, path }) => (id in NOT_DECLARED ? [] : [path]))
  expect([...declared].filter(path => !paths.includes(path))).toEqual([])
  const ids = new Set(deleting.map(({ id }) => id))
  expect(Object.keys(NOT_DECLARED).filter(id => !ids.has(id))).toEqual([])
})

it.each(Object.keys(DECLARED))(
  '%s: created, read, changed, drifted, imported, destroyed, created again',
  async name => {
    const declared = DECLARED[name]!
    const tenant = await newTenant()
    const ids = (await declared.parents?.(tenant)) ?? {}
    const { planner, update, idOf, listNamed, hasNameQuery } = describe(tenant, declared, ids)
    const check = (what: string, found: unknown, expected: unknown) => expect.soft(found, what).toEqual(expected)
    const wanted = declared.wanted(ids)
    const changed = { ...wanted, ...declared.changed(ids) }
    const isChangeable = changed !== wanted && !isSame(wanted, changed)
    const read = async (id: string): Promise<State> => {
      const state = await planner.readState(id)
      if (!state) throw new Error(`${id} is not found`)
      return state
    }
    const create = async (members: Members, headers = {}): Promise<string> => {
      const reply = await planner.create(members, headers)
      if (reply.status >= 300) throw new Error(`create answered ${reply.status}: ${reply.text}`)
      return idOf(reply)
    }

    // Created. A repeat that has lost its answer creates nothing.
    check('plan without a state', planner.plan(wanted, undefined, undefined), 'create')
    const once = { 'Idempotency-Key': unusedId() }
    const id = await create(wanted, once)
    if (!declared.isOverwritten) check('id of a repeated create', await create(wanted, once), id)

    // Read: what was sent, in the same order each time, and nothing to do.
    let state = await read(id)
    check('members that differ after create', planner.compare(wanted, state, state), [])
    check('second read', await planner.readState(id), state)
    if (!declared.read) check('has an ETag', typeof state.etag, 'string')

    // Imported by its id and by its name.
    if (declared.named) {
      const name = String(state.read[declared.named.member])
      const named = (one: Members) => one[declared.named!.member] === name
      const found = (await listNamed(name)).filter(one => hasNameQuery || named(one))
      const idMember = declared.idMember ?? 'id'
      check(
        'found by its name',
        found.map(one => one[idMember]),
        [id],
      )
      if (hasNameQuery) check('found by another name', await listNamed(`${name}x`), [])
    }

    if (update) {
      // Applied again, and sent back as it was read: nothing changes but the version.
      const again = await planner.update(wanted, state)
      check('status of the same again', again.status, 200)
      const same = await read(id)
      check('the same again', planner.compare(wanted, same, same), [])
      state = await read(id)
      const echo = Object.fromEntries(
        Object.entries(state.read).filter(
          ([member]) => update.accepts.has(member) && !declared.withSecret?.includes(member),
        ),
      )
      // An integration has only its credential to change, and refuses an empty change.
      if (Object.keys(echo).length > 0) {
        const echoed = await planner.update(echo, state)
        check(`status of an echo: ${echoed.text.slice(0, 300)}`, echoed.status, 200)
      }
      const after = await read(id)
      check('members that an echo changes', planner.compare(echo, after, after), [])
      check('secrets that an echo changes', after.fingerprints, state.fingerprints)
      state = after
    }

    if (isChangeable) {
      // Another client changes it: the plan says so, and applying it restores what is wanted.
      const members = Object.keys(declared.changed(ids)).filter(member => !isSame(wanted[member], changed[member]))
      const plan = update && members.every(member => update.accepts.has(member)) ? 'update' : 'replace'
      check('plan of a change', planner.plan(changed, state, state), plan)
      if (update && plan === 'update') {
        const applied = await planner.update(changed, state)
        check(`status of the change: ${applied.text.slice(0, 300)}`, applied.status, 200)
        const drifted = await read(id)
        check('id after a change', String(drifted.read[declared.idMember ?? 'id'] ?? id), id)
        check('members that differ after a change', planner.compare(changed, drifted, drifted), [])
        check('members that have drifted', planner.compare(wanted, state, drifted).sort(), [...members].sort())
        const patch = findRoute('patch', declared.item)
        if (patch?.kind === 'json' && patch.versioned) {
          const stale = await planner.update(wanted, state)
          check('status with the ETag of an earlier version', stale.status, 412)
        }
        const restored = await planner.update(wanted, drifted)
        check('status of restoring', restored.status, 200)
        state = await read(id)
        check('plan after restoring', planner.plan(wanted, state, await read(id)), 'nothing')
      }
    }

    // Destroyed: gone for every route. What is gone is planned again, and created again.
    const before = state
    check('is destroyed', (await planner.destroy(id)).status < 300, true)
    check('state after destroying', await planner.readState(id), undefined)
    check('plan after destroying', planner.plan(wanted, before, undefined), 'create')
    if (!declared.destroysQuietly) check('status of destroying again', (await planner.destroy(id)).status, 404)
    if (update?.method === 'patch')
      check('status of an update', (await planner.update(wanted, before)).status, declared.isLeaving ? 409 : 404)
    if (declared.named) {
      const left = (await listNamed(before.read[declared.named.member])).filter(one => !declared.isLeaving?.(one))
      check(
        'list after destroying',
        left.filter(one => String(one[declared.idMember ?? 'id']) === id),
        [],
      )
    }
    // Members that are not set may as well be null.
    const creating = findRoute(planner.routes.create.method, planner.routes.create.route)
    const unset = [...describeBody(creating)].filter(([member, isNullable]) => isNullable && !(member in wanted))
    const nulls = Object.fromEntries(unset.map(([member]) => [member, null]))
    const second = await read(await create({ ...nulls, ...wanted }))
    const unlike = Object.keys(before.read).filter(
      member => !METADATA.test(member) && !isSame(before.read[member], second.read[member]),
    )
    check('members that differ in a second creation', unlike, declared.unlike ?? [])
    check('is destroyed again', (await planner.destroy(second.id)).status < 300, true)
  },
)

const METADATA = /(^|_)(id|at|time|until|url|key|fingerprints?|hint)$|^after$/

/** The routes of a resource of this tenant. */
function describe(tenant: Tenant, declared: Declared, ids: Record<string, string>) {
  const fill = (path: string) => path.replace(/\{(\w+)\}/g, (all, name) => ids[name] ?? all)
  const method = declared.create?.method ?? 'post'
  const ownParameter = method === 'post' ? /\{\w+\}$/.exec(declared.item)?.[0] : undefined
  const collection = ownParameter ? declared.item.slice(0, -ownParameter.length - 1) : declared.item
  const createRoute = declared.create?.path ?? collection
  const updateMethod = findRoute('patch', declared.item) ? 'patch' : method === 'put' ? 'put' : undefined
  const accepts = new Set(
    declared.accepts ?? describeBody(updateMethod && findRoute(updateMethod, declared.item)).keys(),
  )
  if (updateMethod === 'patch' && accepts.size === 0) throw new Error(`list in \`accepts\` what ${declared.item} takes`)
  const update = updateMethod && accepts.size > 0 ? ({ method: updateMethod, accepts } as const) : null
  const calls = declared.asOwner ? tenant.owner : tenant
  const planner = createPlanner(calls, {
    item: declared.keyQuery
      ? `${declared.item}?${declared.keyQuery}={id}`
      : fill(ownParameter ? `${collection}/{id}` : collection),
    updatePath: declared.keyQuery ? declared.item : undefined,
    create: { method, path: fill(createRoute), route: createRoute },
    update,
    secrets: declared.secrets?.members ?? [],
    fingerprintsOf: declared.secrets?.fingerprints ?? (() => null),
    computed: declared.computed ?? [],
    isLeaving: declared.isLeaving ?? (() => false),
    read: declared.read && (id => declared.read!(tenant, ids, id)),
  })
  const idOf = ({ body }: Reply) => {
    const created = (body && declared.created?.(body)) ?? body ?? declared.wanted(ids)
    return String(declared.idOf?.(ids) ?? created[declared.idMember ?? 'id'])
  }
  const list = fill(declared.named?.list ?? declared.create?.path ?? collection)
  const query = declared.named?.query ?? findNameQuery(declared.named?.list ?? declared.create?.path ?? collection)
  const listNamed = async (name: unknown): Promise<Members[]> => {
    const { status, body } = await calls.get(query ? `${list}?${query}=${encodeURIComponent(String(name))}` : list)
    if (status !== 200) throw new Error(`the list answered ${status}`)
    return Array.isArray(body) ? body : body[declared.named?.resources ?? 'resources']
  }
  return { planner, update, idOf, listNamed, hasNameQuery: query !== undefined }
}

/** A list in pages takes the name as a filter; one without pages has all. */
function findNameQuery(path: string): string | undefined {
  const shape = findRoute('get', path)?.query?.shape ?? {}
  return 'name' in shape ? 'name' : undefined
}
