// Tests of uploads for every kind of storage.
import { sql } from 'drizzle-orm'
import { afterEach, beforeAll, describe, expect, it } from 'vitest'
import { MAX_ARCHIVE_BYTES } from '../../src/hosting/uploads/archive-inspection.ts'
import { sweepUploads } from '../../src/hosting/uploads/sweep.ts'
import { runAsSystem } from '../../src/kernel/db/db.ts'
import type { Storage } from '../../src/platform.ts'
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

/** `settings` choose the storage. */
export function describeUploads(settings: Record<string, string> = {}) {
  let shared: App | undefined
  const start = (options: AppOptions = {}) => startApp({ ...options, settings: { ...settings, ...options.settings } })
  const getSharedApp = () => (shared ??= start())
  const newTenant = () => makeTenant({ app: getSharedApp() })
  afterEach(() => {
    clock.ahead = 0
  })

  const deployment = async (tenant: Tenant, over = {}) =>
    (await tenant.post('/v2/deployments', makeSourceBody(over))).body.id
  const offerUpload = async (tenant: Tenant, id?: string) =>
    (await tenant.post(`/v2/deployments/${id ?? (await deployment(tenant))}/upload-url`)).body as {
      upload_url: string
      object_path: string
    }

  type Raw = Bytes | ReadableStream
  async function put(url: string, raw: Raw, headers: Record<string, string> = {}, app = getSharedApp()) {
    const { pathname, search } = new URL(url)
    const { status, body } = await send('PUT', pathname + search, {
      raw,
      headers: { 'Content-Type': 'application/gzip', ...headers },
      app,
    })
    return [status, body?.code]
  }

  const makeSourceConfig = (path: string) => ({ source_revision_config: { source_tarball_path: path } })
  async function readStored(path: string): Promise<Bytes | null> {
    const body = await getSharedApp().platform.storage?.get(path)
    return body ? new Uint8Array(await new Response(body).arrayBuffer()) : null
  }

  describe('an upload', () => {
    it('is stored unchanged, and a patch and a new deployment can use it', async () => {
      const tenant = await newTenant()
      const id = await deployment(tenant)
      const { upload_url, object_path } = await offerUpload(tenant, id)
      const bytes = await makeArchive()
      expect(await put(upload_url, bytes)).toEqual([200, undefined])
      expect(await readStored(object_path)).toEqual(bytes)
      const patched = await tenant.patch(`/v2/deployments/${id}`, makeSourceConfig(object_path))
      expect([patched.status, patched.body.source_revision_config.source_tarball_path]).toEqual([200, object_path])
      const created = await tenant.post('/v2/deployments', makeSourceBody(makeSourceConfig(object_path)))
      expect([created.status, created.body.source_revision_config.source_tarball_path]).toEqual([201, object_path])
    })

    it('is streamed in chunks of any size without a Content-Length, 17 MiB in all', async () => {
      const tenant = await newTenant()
      const bytes = await gzip(Uint8Array.from(Buffer.concat([makeTar('x'), makeRandomBytes(17 * 1024 * 1024)])))
      const { upload_url, object_path } = await offerUpload(tenant)
      const pieces = [bytes.slice(0, 1), bytes.slice(1, 30), bytes.slice(30, 9_000_000), bytes.slice(9_000_000)]
      expect(await put(upload_url, streamChunks(...pieces))).toEqual([200, undefined])
      expect(Buffer.compare((await readStored(object_path))!, bytes)).toBe(0)
    })

    it('is offered only for sources that use archives, with an event', async () => {
      const tenant = await newTenant()
      const other = makeSourceBody({ source: 'internal_container' })
      const { id } = (await tenant.post('/v2/deployments', other)).body
      const refused = await tenant.post(`/v2/deployments/${id}/upload-url`)
      expect([refused.status, refused.body.code]).toEqual([400, 'source_rule'])
      const reply = await tenant.post(`/v2/deployments/${await deployment(tenant)}/upload-url`)
      expect(await readEvents(reply.headers.get('X-Request-Id')!, getSharedApp())).toMatchObject([
        { type: 'upload.offered' },
      ])
    })

    it('returns its size and digest, and its event names the actor that requested the link', async () => {
      const tenant = await newTenant()
      const deployment_id = await deployment(tenant)
      const offered = await tenant.post(`/v2/deployments/${deployment_id}/upload-url`)
      const [offer] = await readEvents(offered.headers.get('X-Request-Id')!, getSharedApp())
      const { pathname, search } = new URL(offered.body.upload_url)
      const raw = await gzip(makeTar('content'))
      const { body, headers } = await send('PUT', pathname + search, { raw, app: getSharedApp() })
      const sha256 = Buffer.from(await crypto.subtle.digest('SHA-256', raw)).toString('hex')
      const stored = { object_path: offered.body.object_path, size: raw.byteLength, sha256 }
      expect(body).toEqual({ ...stored, build_plan: null, build_refusal: expect.stringContaining('start_command') })
      const events = await readEvents(headers.get('X-Request-Id')!, getSharedApp())
      const { actor_kind, actor_id, actor_name, subject_id } = offer!
      expect(actor_id).toEqual(expect.any(String))
      expect(events).toMatchObject([{ type: 'upload.stored', actor_kind, actor_id, actor_name, subject_id }])
      expect(JSON.parse(events[0]!.data as string)).toEqual({ deployment_id, object_path: stored.object_path })
      expect(JSON.parse(events[0]!.changes as string)).toEqual([
        { path: 'sha256', before: null, after: sha256 },
        { path: 'size', before: null, after: raw.byteLength },
      ])
    })

    it('has the same link when the request is repeated with the same idempotency key', async () => {
      const tenant = await newTenant()
      const path = `/v2/deployments/${await deployment(tenant)}/upload-url`
      const [one, two] = [
        await tenant.post(path, undefined, { 'Idempotency-Key': 'k' }),
        await tenant.post(path, undefined, { 'Idempotency-Key': 'k' }),
      ]
      expect(two.headers.get('Idempotency-Replayed')).toBe('true')
      expect(two.body).toEqual(one.body)
    })

    it('is refused while the deployment is being deleted', async () => {
      const tenant = await newTenant()
      const id = await deployment(tenant)
      await tenant.delete(`/v2/deployments/${id}`)
      const { status, body } = await tenant.post(`/v2/deployments/${id}/upload-url`)
      expect([status, body.code]).toEqual([409, 'deployment_deleting'])
    })
  })

  describe('an upload link', () => {
    it('works once, even for eight concurrent uploads', async () => {
      const { upload_url, object_path } = await offerUpload(await newTenant())
      const bytes = await makeArchive()
      const outcomes = await Promise.all(Array.from({ length: 8 }, () => put(upload_url, bytes)))
      expect(outcomes.filter(([status]) => status === 200)).toHaveLength(1)
      expect(outcomes.filter(([, code]) => code === 'upload_link_used')).toHaveLength(7)
      expect(await readStored(object_path)).toEqual(bytes)
    })

    it('expires after 15 minutes', async () => {
      const { upload_url } = await offerUpload(await newTenant())
      clock.ahead = 16 * MINUTE
      expect(await put(upload_url, await makeArchive())).toEqual([410, 'upload_link_expired'])
      clock.ahead = 14 * MINUTE
      expect(await put(upload_url, await makeArchive())).toEqual([200, undefined])
    })

    it('is invalid after any change of its URL', async () => {
      const [own, other] = await Promise.all([newTenant(), newTenant()])
      const { upload_url } = await offerUpload(own)
      const foreign = await offerUpload(other)
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
          url.pathname = new URL(foreign.upload_url).pathname
        }),
        changed(url => {
          url.pathname = url.pathname.replace(own.tenant_id, other.tenant_id)
        }),
      ]
      for (const url of tampered) expect(await put(url, await makeArchive())).toEqual([403, 'upload_link_invalid'])
      expect(await put(upload_url, await makeArchive())).toEqual([200, undefined])
    })

    it('stays valid after the sealing key is rotated, until the old key is removed', async () => {
      const { upload_url } = await offerUpload(await newTenant())
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
      ['text', () => text, 'archive_invalid'],
      ['a tar without gzip', () => makeTar('x'), 'archive_invalid'],
      ['the gzip magic alone', () => Uint8Array.from([0x1f, 0x8b, 8]), 'archive_invalid'],
      [
        'the gzip magic and random bytes',
        () => Uint8Array.from([0x1f, 0x8b, 8, ...makeRandomBytes(40_000)]),
        'archive_invalid',
      ],
      ['gzipped text', () => gzip(text), 'archive_invalid'],
      ['gzipped random bytes', () => gzip(makeRandomBytes(100_000)), 'archive_invalid'],
      ['gzip of less than a tar header', () => gzip(text.slice(0, 100)), 'archive_invalid'],
      ['an empty tar', () => gzip(new Uint8Array(10_240)), 'archive_invalid'],
      ['a gzip bomb', () => gzip(new Uint8Array(20_000_000)), 'archive_invalid'],
    ]
    it.each(cases)('is refused and not stored: %s', async (_, body, code) => {
      const tenant = await newTenant()
      const { upload_url, object_path } = await offerUpload(tenant)
      expect(await put(upload_url, await body())).toEqual([422, code])
      expect(await readStored(object_path)).toBe(null)
      const { body: created } = await tenant.post('/v2/deployments', makeSourceBody(makeSourceConfig(object_path)))
      expect(created.code).toBe('archive_unknown')
    })

    it('is refused for its declared length or type, and the link stays usable', async () => {
      const { upload_url } = await offerUpload(await newTenant())
      const bytes = await makeArchive()
      expect(await put(upload_url, bytes, { 'Content-Length': String(MAX_ARCHIVE_BYTES + 1) })).toEqual([
        413,
        'archive_too_large',
      ])
      expect(await put(upload_url, bytes, { 'Content-Type': 'application/json' })).toEqual([415, 'not_gzip_type'])
      expect(await put(upload_url, bytes)).toEqual([200, undefined])
    })

    it('is refused once it exceeds the limit, without reading the rest', async () => {
      const { upload_url, object_path } = await offerUpload(await newTenant())
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
      expect(await readStored(object_path)).toBe(null)
    })

    it('is refused when it is shorter than declared or is cut off, which uses up the link', async () => {
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
      const { upload_url, object_path } = await offerUpload(tenant)
      expect(await put(upload_url, breaking)).toEqual([400, 'body_cut'])
      expect(await readStored(object_path)).toBe(null)
      expect(await put(upload_url, bytes)).toEqual([410, 'upload_link_used'])
      const other = await offerUpload(tenant)
      const short = await put(other.upload_url, streamChunks(bytes), { 'Content-Length': String(bytes.byteLength + 1) })
      expect(short).toEqual([400, 'body_cut'])
    })
  })

  describe('source_tarball_path', () => {
    it('accepts only an uploaded archive of the same workspace', async () => {
      const [own, other] = await Promise.all([newTenant(), newTenant()])
      const id = await deployment(own)
      const foreign = await offerUpload(other)
      await put(foreign.upload_url, await makeArchive())
      const unused = await offerUpload(own, id)
      for (const path of [foreign.object_path, unused.object_path, 'uploads/1.tgz', `${own.tenant_id}/../x`]) {
        const replies = [
          await own.patch(`/v2/deployments/${id}`, makeSourceConfig(path)),
          await own.patch(`/v2/deployments/${id}?dry_run=true`, makeSourceConfig(path)),
          await own.post('/v2/deployments', makeSourceBody(makeSourceConfig(path))),
        ]
        for (const { status, body } of replies) expect([status, body.code]).toEqual([400, 'archive_unknown'])
      }
    })
  })

  describe('the sweep', () => {
    // The database may have rows of an earlier file.
    beforeAll(async () => {
      await deleteOrganizations()
      await runAsSystem(getSharedApp().database, sql`delete from uploads`)
    })
    const removalsOf = async ({ tenant_id }: Tenant) => {
      const query = sql`select actor_kind, data ->> 'object_path' from events
        where scope_id = ${tenant_id}::uuid and type = 'upload.removed'`
      return (await runAsSystem(getSharedApp().database, query))[0]
    }
    const rowsOf = async ({ tenant_id }: Tenant) => {
      const [rows] = await runAsSystem(
        getSharedApp().database,
        sql`select object_path from uploads where tenant_id = ${tenant_id}::uuid`,
      )
      return (rows as string[][]).map(([path]) => path)
    }

    it('removes archives that no revision uses, a day after their link expired', async () => {
      const tenant = await newTenant()
      const id = await deployment(tenant)
      const [named, orphan, unused] = [
        await offerUpload(tenant, id),
        await offerUpload(tenant, id),
        await offerUpload(tenant, id),
      ]
      for (const { upload_url } of [named, orphan]) await put(upload_url, await makeArchive())
      await tenant.patch(`/v2/deployments/${id}`, makeSourceConfig(named.object_path))
      const all = [named.object_path, orphan.object_path, unused.object_path]
      clock.ahead = DAY
      await sweepUploads(getSharedApp())
      expect((await rowsOf(tenant)).sort()).toEqual(all.sort())
      clock.ahead = DAY + 16 * MINUTE
      await sweepUploads(getSharedApp())
      expect(await rowsOf(tenant)).toEqual([named.object_path])
      expect(await removalsOf(tenant)).toEqual([['cron', orphan.object_path]])
      expect([await readStored(orphan.object_path), await readStored(named.object_path)]).toEqual([
        null,
        await makeArchive(),
      ])
      clock.ahead = 0
      const { body } = await tenant.patch(`/v2/deployments/${id}`, makeSourceConfig(orphan.object_path))
      expect(body.code).toBe('archive_unknown')
    })

    it('removes several hundred at once', async () => {
      const tenant = await newTenant()
      await offerUpload(tenant)
      const copies = sql`insert into uploads (organization_id, tenant_id, object_path, expires_at)
        select organization_id, tenant_id, object_path || n, expires_at
        from uploads, generate_series(1, 250) n
        where tenant_id = ${tenant.tenant_id}::uuid`
      await runAsSystem(getSharedApp().database, copies)
      clock.ahead = DAY + 16 * MINUTE
      await sweepUploads(getSharedApp())
      expect(await rowsOf(tenant)).toEqual([])
      clock.ahead = 0
    })

    it('retries after the storage failed to remove an archive', async () => {
      const broken: Storage = { ...getSharedApp().platform.storage!, remove: () => Promise.reject(new Error('down')) }
      const tenant = await newTenant()
      await offerUpload(tenant)
      clock.ahead = DAY + 16 * MINUTE
      const brokenApp = start({ overrides: { storage: broken, s3: undefined } })
      await expect(sweepUploads(brokenApp)).rejects.toThrow('down')
      await sweepUploads(getSharedApp())
      expect(await rowsOf(tenant)).toHaveLength(1)
      clock.ahead += 3 * MINUTE
      await sweepUploads(getSharedApp())
      expect(await rowsOf(tenant)).toEqual([])
    })
  })
}
