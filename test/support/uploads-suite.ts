// What holds of uploads wherever their archives are kept.
import { sql } from 'drizzle-orm'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { MAX_ARCHIVE_BYTES } from '../../src/deployments/archive-inspection.ts'
import { sweepUploads } from '../../src/deployments/uploads.ts'
import type { Storage } from '../../src/env.ts'
import { runAsSystem } from '../../src/kernel/db.ts'
import {
  type App,
  type AppOptions,
  clock,
  deleteOrganizations,
  newTenant as makeTenant,
  readEvents,
  send,
  startApp,
  type Tenant,
  unusedId,
} from './app.ts'
import { type Bytes, gzip, makeArchive, makeRandomBytes, makeTar, streamChunks } from './archives.ts'

const MINUTE = 60_000
const DAY = 24 * 60 * MINUTE

export const makeSourceBody = (over: Record<string, unknown> = {}) => ({
  name: `app-${unusedId()}`,
  source: 'internal_source',
  source_config: {},
  source_revision_config: {},
  secrets: [],
  ...over,
})

/** The app of these tests keeps archives where the settings say. */
export function describeUploads(settings: Record<string, string> = {}) {
  let shared: App | undefined
  const start = (options: AppOptions = {}) => startApp({ ...options, settings: { ...settings, ...options.settings } })
  const theApp = () => (shared ??= start())
  const newTenant = () => makeTenant({ app: theApp() })
  afterEach(() => {
    clock.ahead = 0
  })

  const deployment = async (tenant: Tenant, over = {}) =>
    (await tenant.post('/v2/deployments', makeSourceBody(over))).body.id
  const offered = async (tenant: Tenant, id?: string) =>
    (await tenant.post(`/v2/deployments/${id ?? (await deployment(tenant))}/upload-url`)).body as {
      upload_url: string
      object_path: string
    }

  type Raw = Bytes | ReadableStream
  async function put(url: string, raw: Raw, headers: Record<string, string> = {}, app = theApp()) {
    const { pathname, search } = new URL(url)
    const { status, body } = await send('PUT', pathname + search, {
      raw,
      headers: { 'Content-Type': 'application/gzip', ...headers },
      app,
    })
    return [status, body?.code]
  }

  const made = (path: string) => ({ source_revision_config: { source_tarball_path: path } })
  async function stored(path: string): Promise<Bytes | null> {
    const body = await theApp().config.uploads?.get(path)
    return body ? new Uint8Array(await new Response(body).arrayBuffer()) : null
  }

  describe('an upload', () => {
    it('is offered, taken, kept byte for byte, and then named by a patch and by a new deployment', async () => {
      const tenant = await newTenant()
      const id = await deployment(tenant)
      const { upload_url, object_path } = await offered(tenant, id)
      const bytes = await makeArchive()
      expect(await put(upload_url, bytes)).toEqual([200, undefined])
      expect(await stored(object_path)).toEqual(bytes)
      const patched = await tenant.patch(`/v2/deployments/${id}`, made(object_path))
      expect([patched.status, patched.body.source_revision_config.source_tarball_path]).toEqual([200, object_path])
      const created = await tenant.post('/v2/deployments', makeSourceBody(made(object_path)))
      expect([created.status, created.body.source_revision_config.source_tarball_path]).toEqual([201, object_path])
    })

    it('is streamed: of any length, in whatever pieces, with a length or without', async () => {
      const tenant = await newTenant()
      const bytes = await gzip(Uint8Array.from(Buffer.concat([makeTar('x'), makeRandomBytes(17 * 1024 * 1024)])))
      const { upload_url, object_path } = await offered(tenant)
      const pieces = [bytes.slice(0, 1), bytes.slice(1, 30), bytes.slice(30, 9_000_000), bytes.slice(9_000_000)]
      expect(await put(upload_url, streamChunks(...pieces))).toEqual([200, undefined])
      expect(Buffer.compare((await stored(object_path))!, bytes)).toBe(0)
    })

    it('is offered to sources that take one only, and leaves its event', async () => {
      const tenant = await newTenant()
      const other = makeSourceBody({ source: 'internal_container' })
      const { id } = (await tenant.post('/v2/deployments', other)).body
      const refused = await tenant.post(`/v2/deployments/${id}/upload-url`)
      expect([refused.status, refused.body.code]).toEqual([400, 'source_rule'])
      const reply = await tenant.post(`/v2/deployments/${await deployment(tenant)}/upload-url`)
      expect(await readEvents(reply.headers.get('X-Request-Id')!, theApp())).toMatchObject([{ type: 'upload.offered' }])
    })

    it('tells its size and digest, and leaves an event in the name of whoever asked for the link', async () => {
      const tenant = await newTenant()
      const deployment_id = await deployment(tenant)
      const asked = await tenant.post(`/v2/deployments/${deployment_id}/upload-url`)
      const [offer] = await readEvents(asked.headers.get('X-Request-Id')!, theApp())
      const { pathname, search } = new URL(asked.body.upload_url)
      const raw = await gzip(makeTar('told'))
      const { body, headers } = await send('PUT', pathname + search, { raw, app: theApp() })
      const sha256 = Buffer.from(await crypto.subtle.digest('SHA-256', raw)).toString('hex')
      const told = { object_path: asked.body.object_path, size: raw.byteLength, sha256 }
      expect(body).toEqual(told)
      const events = await readEvents(headers.get('X-Request-Id')!, theApp())
      const { actor_kind, actor_id, subject_id } = offer!
      expect(actor_id).toEqual(expect.any(String))
      expect(events).toMatchObject([{ type: 'upload.stored', actor_kind, actor_id, subject_id }])
      expect(JSON.parse(events[0]!.data as string)).toEqual({ deployment_id, ...told })
    })

    it('is the same when the request is repeated under its key', async () => {
      const tenant = await newTenant()
      const path = `/v2/deployments/${await deployment(tenant)}/upload-url`
      const [one, two] = [
        await tenant.post(path, undefined, { 'Idempotency-Key': 'k' }),
        await tenant.post(path, undefined, { 'Idempotency-Key': 'k' }),
      ]
      expect(two.headers.get('Idempotency-Replayed')).toBe('true')
      expect(two.body).toEqual(one.body)
    })

    it('is not taken by a deployment that is being deleted', async () => {
      const tenant = await newTenant()
      const id = await deployment(tenant)
      await tenant.delete(`/v2/deployments/${id}`)
      const { status, body } = await tenant.post(`/v2/deployments/${id}/upload-url`)
      expect([status, body.code]).toEqual([409, 'deployment_deleting'])
    })
  })

  describe('a link', () => {
    it('works once, even for many at the same time', async () => {
      const { upload_url, object_path } = await offered(await newTenant())
      const bytes = await makeArchive()
      const outcomes = await Promise.all(Array.from({ length: 8 }, () => put(upload_url, bytes)))
      expect(outcomes.filter(([status]) => status === 200)).toHaveLength(1)
      expect(outcomes.filter(([, code]) => code === 'upload_link_used')).toHaveLength(7)
      expect(await stored(object_path)).toEqual(bytes)
    })

    it('ends after 15 minutes', async () => {
      const { upload_url } = await offered(await newTenant())
      clock.ahead = 16 * MINUTE
      expect(await put(upload_url, await makeArchive())).toEqual([410, 'upload_link_expired'])
      clock.ahead = 14 * MINUTE
      expect(await put(upload_url, await makeArchive())).toEqual([200, undefined])
    })

    it('is void when anything of it is changed', async () => {
      const [own, other] = await Promise.all([newTenant(), newTenant()])
      const { upload_url } = await offered(own)
      const theirs = await offered(other)
      const changed = (change: (url: URL) => void) => {
        const url = new URL(upload_url)
        change(url)
        return url.toString()
      }
      const signature = new URL(upload_url).searchParams.get('signature')!
      const flipped = signature.slice(0, -2) + (signature.at(-2) === 'A' ? 'B' : 'A') + signature.at(-1)
      const tampered = [
        changed(url => url.searchParams.set('signature', flipped)),
        changed(url => url.searchParams.set('signature', signature.slice(0, -4))),
        changed(url => url.searchParams.set('signature', '')),
        changed(url => url.searchParams.set('signature', signature.replace('first', 'other'))),
        changed(url => url.searchParams.set('expires', String(Date.now() + DAY))),
        changed(url => {
          url.pathname = new URL(theirs.upload_url).pathname
        }),
        changed(url => {
          url.pathname = url.pathname.replace(own.tenant_id, other.tenant_id)
        }),
      ]
      for (const url of tampered) expect(await put(url, await makeArchive())).toEqual([403, 'upload_link_invalid'])
      expect(await put(upload_url, await makeArchive())).toEqual([200, undefined])
    })

    it('still holds when a newer sealing key is in front', async () => {
      const { upload_url } = await offered(await newTenant())
      const first = `first:${Buffer.alloc(32, 7).toString('base64url')}`
      const second = `second:${Buffer.alloc(32, 8).toString('base64url')}`
      const rotated = start({ settings: { SEALING_KEYS: `${second},${first}` } })
      const without = start({ settings: { SEALING_KEYS: second } })
      expect(await put(upload_url, await makeArchive(), {}, without)).toEqual([403, 'upload_link_invalid'])
      expect(await put(upload_url, await makeArchive(), {}, rotated)).toEqual([200, undefined])
    })
  })

  describe('a hostile archive', () => {
    const text = new TextEncoder().encode('hello '.repeat(2000)) as Bytes
    const cases: [string, () => Promise<Raw> | Raw, string][] = [
      ['nothing', () => new Uint8Array(), 'archive_invalid'],
      ['no gzip', () => text, 'archive_invalid'],
      ['a tar without gzip', () => makeTar('x'), 'archive_invalid'],
      ['the magic alone', () => Uint8Array.from([0x1f, 0x8b, 8]), 'archive_invalid'],
      ['the magic and noise', () => Uint8Array.from([0x1f, 0x8b, 8, ...makeRandomBytes(40_000)]), 'archive_invalid'],
      ['a gzip of no tar', () => gzip(text), 'archive_invalid'],
      ['a gzip of noise', () => gzip(makeRandomBytes(100_000)), 'archive_invalid'],
      ['a gzip of less than a header', () => gzip(text.slice(0, 100)), 'archive_invalid'],
      ['an empty tar', () => gzip(new Uint8Array(10_240)), 'archive_invalid'],
      ['a bomb', () => gzip(new Uint8Array(20_000_000)), 'archive_invalid'],
    ]
    it.each(cases)('is refused, and nothing of it is kept: %s', async (_, body, code) => {
      const tenant = await newTenant()
      const { upload_url, object_path } = await offered(tenant)
      expect(await put(upload_url, await body())).toEqual([422, code])
      expect(await stored(object_path)).toBe(null)
      const { body: created } = await tenant.post('/v2/deployments', makeSourceBody(made(object_path)))
      expect(created.code).toBe('archive_unknown')
    })

    it('is refused by its declared length and type, which leaves the link unused', async () => {
      const { upload_url } = await offered(await newTenant())
      const bytes = await makeArchive()
      expect(await put(upload_url, bytes, { 'Content-Length': String(MAX_ARCHIVE_BYTES + 1) })).toEqual([
        413,
        'archive_too_large',
      ])
      expect(await put(upload_url, bytes, { 'Content-Type': 'application/json' })).toEqual([415, 'not_gzip_type'])
      expect(await put(upload_url, bytes)).toEqual([200, undefined])
    })

    it('is refused by its streamed length, and read no further', async () => {
      const { upload_url, object_path } = await offered(await newTenant())
      const beginning = await gzip(Uint8Array.from(Buffer.concat([makeTar('x'), makeRandomBytes(100_000)])))
      const piece = new Uint8Array(1024 * 1024)
      let sent = 0
      const endless = new ReadableStream({
        pull(out) {
          out.enqueue(sent++ === 0 ? beginning : piece)
        },
      })
      expect(await put(upload_url, endless)).toEqual([413, 'archive_too_large'])
      expect(sent).toBeLessThan(230)
      expect(await stored(object_path)).toBe(null)
    })

    it('is refused when it breaks off or is not as long as declared, and has spent its link', async () => {
      const tenant = await newTenant()
      const bytes = await makeArchive()
      const breaking = new ReadableStream({
        start(out) {
          out.enqueue(bytes.slice(0, 50))
        },
        pull(out) {
          out.error(new Error('gone'))
        },
      })
      const { upload_url, object_path } = await offered(tenant)
      expect(await put(upload_url, breaking)).toEqual([400, 'body_cut'])
      expect(await stored(object_path)).toBe(null)
      expect(await put(upload_url, bytes)).toEqual([410, 'upload_link_used'])
      const other = await offered(tenant)
      const short = await put(other.upload_url, streamChunks(bytes), { 'Content-Length': String(bytes.byteLength + 1) })
      expect(short).toEqual([400, 'body_cut'])
    })
  })

  describe('source_tarball_path', () => {
    it('is an archive of the same workspace that was really uploaded', async () => {
      const [own, other] = await Promise.all([newTenant(), newTenant()])
      const id = await deployment(own)
      const theirs = await offered(other)
      await put(theirs.upload_url, await makeArchive())
      const unused = await offered(own, id)
      for (const path of [theirs.object_path, unused.object_path, 'uploads/1.tgz', `${own.tenant_id}/../x`]) {
        const replies = [
          await own.patch(`/v2/deployments/${id}`, made(path)),
          await own.patch(`/v2/deployments/${id}?dry_run=true`, made(path)),
          await own.post('/v2/deployments', makeSourceBody(made(path))),
        ]
        for (const { status, body } of replies) expect([status, body.code]).toEqual([400, 'archive_unknown'])
      }
    })
  })

  describe('the sweep', () => {
    // A file gets the database of an earlier one, and a sweep takes a hundred links at the most.
    beforeAll(async () => {
      await deleteOrganizations()
      await runAsSystem(theApp().database, sql`delete from uploads`)
    })
    const removalsOf = async ({ tenant_id }: Tenant) => {
      const query = sql`select actor_kind, data ->> 'object_path' from events
        where scope_id = ${tenant_id}::uuid and type = 'upload.removed'`
      return (await runAsSystem(theApp().database, query))[0]
    }
    const rowsOf = async ({ tenant_id }: Tenant) => {
      const [rows] = await runAsSystem(
        theApp().database,
        sql`select object_path from uploads where tenant_id = ${tenant_id}::uuid`,
      )
      return (rows as string[][]).map(([path]) => path)
    }

    it('removes what no revision names, a day after its link has ended, and nothing else', async () => {
      const tenant = await newTenant()
      const id = await deployment(tenant)
      const [named, orphan, unused] = [await offered(tenant, id), await offered(tenant, id), await offered(tenant, id)]
      for (const { upload_url } of [named, orphan]) await put(upload_url, await makeArchive())
      await tenant.patch(`/v2/deployments/${id}`, made(named.object_path))
      const all = [named.object_path, orphan.object_path, unused.object_path]
      clock.ahead = DAY
      await sweepUploads(theApp())
      expect((await rowsOf(tenant)).sort()).toEqual(all.sort())
      clock.ahead = DAY + 16 * MINUTE
      await sweepUploads(theApp())
      expect(await rowsOf(tenant)).toEqual([named.object_path])
      expect(await removalsOf(tenant)).toEqual([['cron', orphan.object_path]])
      expect([await stored(orphan.object_path), await stored(named.object_path)]).toEqual([null, await makeArchive()])
      clock.ahead = 0
      const { body } = await tenant.patch(`/v2/deployments/${id}`, made(orphan.object_path))
      expect(body.code).toBe('archive_unknown')
    })

    it('tries again what the storage could not remove', async () => {
      const broken: Storage = { ...theApp().config.uploads!, remove: () => Promise.reject(new Error('down')) }
      const tenant = await newTenant()
      await offered(tenant)
      clock.ahead = DAY + 16 * MINUTE
      const brokenApp = start({ overrides: { uploads: broken, s3: undefined } })
      await expect(sweepUploads(brokenApp)).rejects.toThrow('down')
      expect(await rowsOf(tenant)).toHaveLength(1)
      await sweepUploads(theApp())
      expect(await rowsOf(tenant)).toEqual([])
    })
  })
}
