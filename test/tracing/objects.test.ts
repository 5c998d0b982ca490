// Long texts of runs and attachments: they lie in the object store as long as a run refers to them.
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { Storage } from '../../src/platform.ts'
import type { StoredObjects } from '../../src/tracing/store/store.ts'
import { type App, getServices, newTenant, startApp, type Tenant, withClockAhead } from '../support/app.ts'
import { onClickHouse } from '../support/stored-runs.ts'
import { newRoot, patch, post } from '../support/trace-operations.ts'
import { append, contextOf, readRows, select } from '../support/traces.ts'

const HOUR = 3600_000
const DAY = 24 * HOUR
const LONG = JSON.stringify({ text: 'long "text" '.repeat(4000) })

function makeStorage() {
  const objects = new Map<string, Uint8Array>()
  const storage: Storage & { fails: boolean } = {
    fails: false,
    async put(path, body) {
      if (storage.fails) throw new Error('The store is away.')
      objects.set(path, body as Uint8Array)
    },
    get: async path => (objects.has(path) ? new Response(objects.get(path) as never).body : null),
    async remove(paths) {
      for (const path of paths) objects.delete(path)
    },
  }
  return { objects, storage, texts: () => [...objects.values()].map(bytes => new TextDecoder().decode(bytes)).sort() }
}
async function makeBed() {
  const store = makeStorage()
  const app = startApp({ overrides: { storage: store.storage } })
  const of = await newTenant()
  return { ...store, app, of, append: (...operations: Parameters<typeof append>[1]) => append(of, operations, app) }
}
const sweep = (app: App, ahead: number) => withClockAhead(ahead, () => app.traces.expire(getServices(app)))
const objectsOf = async (of: Tenant) => (await readRows(of)).map(({ objects }) => objects as StoredObjects | null)
const pathOf = (objects: StoredObjects | null | undefined, name: 'inputs' | 'outputs') => {
  const object = objects?.[name]
  return object && 'path' in object ? object.path : undefined
}
const bytesOf = (text: string) => new TextEncoder().encode(text)
const codeOf = (promise: Promise<unknown>) =>
  promise.then(
    () => 'stored',
    error => error.code,
  )

describe('a text of more than 32 KB, and an attachment', () => {
  it('lie in the object store, and the row says where', async () => {
    const { objects, append, of } = await makeBed()
    const root = newRoot(new Date().toISOString())
    const attachments = [{ name: 'a', type: 'image/png', bytes: bytesOf('png') }]
    await append(post({ ...root, inputs: LONG, outputs: '{"short":1}', attachments }))
    const [row] = await readRows<{ inputs: string; inputs_preview: string; objects: StoredObjects }>(of)
    expect(row).toMatchObject({
      inputs: '',
      outputs: '{"short":1}',
      inputs_preview: expect.stringMatching(/^long "text"/),
    })
    expect(row!.objects).toEqual({
      inputs: { bytes: LONG.length, path: expect.stringMatching(/^traces\/\d{4}-\d\d-\d\d\/[0-9a-f-]{36}$/) },
      attachments: { a: { bytes: 3, type: 'image/png', path: expect.any(String) } },
    })
    expect(new TextDecoder().decode(objects.get(pathOf(row!.objects, 'inputs')!))).toBe(LONG)
    expect(
      await select(
        sql`select run_id, trace_id, bytes from trace_objects where tenant_id = ${of.tenant_id} order by bytes`,
      ),
    ).toEqual([3, LONG.length].map(bytes => ({ run_id: root.id, trace_id: root.id, bytes })))
  })

  it('stay in the row where there is no object store', async () => {
    const app = startApp({ overrides: { storage: undefined } })
    const of = await newTenant()
    const attachments = [{ name: 'a', type: 'text/plain', bytes: bytesOf('text') }]
    await append(of, [post({ ...newRoot(new Date().toISOString()), inputs: LONG, attachments })], app)
    expect(await readRows(of)).toMatchObject([
      { inputs: LONG, objects: { attachments: { a: { bytes: 4, type: 'text/plain', base64: 'dGV4dA==' } } } },
    ])
  })

  it('are not put for a key that may not write runs', async () => {
    const { objects, of, app } = await makeBed()
    const ctx = { ...contextOf(of, app), actor: { kind: 'key', hash: 'unknown' } as const }
    const refused = codeOf(ctx.traces.append(ctx, [post({ ...newRoot(new Date().toISOString()), inputs: LONG })]))
    expect([await refused, objects.size]).toEqual(['key_unknown', 0])
  })
})

describe('a request that is refused', () => {
  it('leaves no objects behind', async () => {
    const { objects, append, of } = await makeBed()
    const root = newRoot(new Date().toISOString())
    await append(post({ ...root, session_name: 'one' }))
    expect(await codeOf(append(post({ ...root, session_name: 'two', inputs: LONG })))).toBe('run_in_other_project')
    expect([objects.size, await objectsOf(of)]).toEqual([0, [null]])
  })

  it('is answered with 503 while the store is away, and works when it is back', async () => {
    const { objects, storage, append, of } = await makeBed()
    const operation = post({ ...newRoot(new Date().toISOString()), inputs: LONG, outputs: LONG })
    storage.fails = true
    expect(await codeOf(append(operation))).toBe('trace_storage_unavailable')
    expect([objects.size, await readRows(of)]).toEqual([0, []])
    storage.fails = false
    await append(operation)
    expect([objects.size, (await objectsOf(of)).length]).toEqual([2, 1])
  })
})

describe('an object goes', () => {
  // ClickHouse keeps it until its trace expires.
  it.skipIf(onClickHouse)(
    'an hour after another text has taken its place, and at once if a patch is here already',
    async () => {
      const { objects, texts, append, app, of } = await makeBed()
      const root = newRoot(new Date().toISOString())
      const other = LONG.replace('long', 'other')
      await append(post({ ...root, inputs: LONG, outputs: LONG }))
      await append(patch({ ...root, session_name: 'default', inputs: other, outputs: '{}' }))
      await append(post({ ...root, inputs: LONG, outputs: LONG }))
      expect(objects.size).toBe(5)
      await sweep(app, 1000)
      expect(objects.size).toBe(3)
      await sweep(app, HOUR + 1000)
      expect(texts()).toEqual([other])
      expect(await readRows(of)).toMatchObject([
        { inputs: '', outputs: '{}', objects: { inputs: { bytes: other.length } } },
      ])
    },
  )

  it('when its trace expires, later if the trace is upgraded, and at once if it is deleted', async () => {
    const { texts, append, app, of } = await makeBed()
    const ctx = contextOf(of, app)
    const roots = ['short', 'upgraded', 'deleted', 'project'].map(name => ({
      name,
      ...newRoot(new Date().toISOString()),
    }))
    for (const { name, ...root } of roots)
      await append(post({ ...root, session_name: name, inputs: LONG.replace('long', name) }))
    const names = () => texts().map(text => /\w+/.exec(text.slice(8))![0])
    await ctx.traces.upgrade(ctx, [roots[1]!.trace_id])
    await ctx.traces.remove(ctx, [roots[2]!.trace_id])
    await runAsSystem(app.database, sql`delete from projects where name = 'project' and tenant_id = ${of.tenant_id}`)
    await sweep(app, 1000)
    await sweep(app, 1000)
    expect(names()).toEqual(['short', 'upgraded'])
    await sweep(app, 14 * DAY - 60_000)
    expect(names()).toEqual(['short', 'upgraded'])
    await sweep(app, 14 * DAY + 1000)
    expect(names()).toEqual(['upgraded'])
    await sweep(app, 400 * DAY + 1000)
    expect(names()).toEqual([])
    expect(await select(sql`select from trace_objects where tenant_id = ${of.tenant_id}`)).toEqual([])
  })
})
