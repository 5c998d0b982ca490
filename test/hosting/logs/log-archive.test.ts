import { gunzipSync } from 'node:zlib'
import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { MAX_QUEUED_BYTES, storeQueuedLines } from '../../../src/hosting/logs/queued-lines.ts'
import type { LogStore, QueuedLine } from '../../../src/hosting/logs/store/store.ts'
import { sweepLogs } from '../../../src/hosting/logs/sweep.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import { fail } from '../../../src/kernel/http/errors.ts'
import { getApp, getServices, newTenant, type Tenant, withClockAhead } from '../../support/app.ts'
import { newLoggedDeployment } from '../../support/logged-deployment.ts'

const HOUR_MS = 3_600_000
const SETTINGS = '/v2/log-archive-settings'

type Archive = { id: string; hour: string; lines: number; dropped_lines: number }
const archivesOf = (id: string) => `/v2/deployments/${id}/log-archives`
const listArchives = async (tenant: Tenant, id: string): Promise<Archive[]> =>
  (await tenant.get(archivesOf(id))).body.resources

async function download(tenant: Tenant, id: string, archive: Archive): Promise<{ message: string; number: number }[]> {
  const headers = { 'X-Api-Key': tenant.key }
  const request = new Request(`http://slipway.test${archivesOf(id)}/${archive.id}`, { headers })
  const response = await getApp().fetch(request)
  expect(response.headers.get('Content-Type')).toBe('application/gzip')
  const text = gunzipSync(Buffer.from(await response.arrayBuffer())).toString()
  return text
    .trimEnd()
    .split('\n')
    .map(line => JSON.parse(line))
}
const sweepAnHourLater = () => withClockAhead(HOUR_MS, () => sweepLogs(getServices()))
const linesOf = (...messages: string[]) => messages.map(message => ({ message }))

describe('an archive of logs', () => {
  it('has each line once that arrived while it was on, and a setting of the deployment wins', async () => {
    const tenant = await newTenant()
    const [kept, other] = [await newLoggedDeployment({ tenant }), await newLoggedDeployment({ tenant })]
    expect((await tenant.get(SETTINGS)).body).toEqual({ enabled: false, retention_days: 30 })
    const send = kept.openLog()
    await send(linesOf('before'))
    await tenant.put(SETTINGS, { enabled: true, retention_days: 7 })
    const own = `/v2/deployments/${other.id}/log-archive-settings`
    const { body } = await tenant.put(own, { enabled: false, retention_days: null })
    expect(body).toEqual({ enabled: false, retention_days: null, effective: { enabled: false, retention_days: 7 } })
    expect((await tenant.get(own)).body).toEqual(body)
    await send(linesOf('one', 'two'), 3)
    await send(linesOf('three'))
    await other.openLog()(linesOf('not kept'))
    await sweepLogs(getServices())
    expect(await listArchives(tenant, kept.id)).toEqual([])
    await sweepAnHourLater()
    const [archive, ...more] = await listArchives(tenant, kept.id)
    expect(more).toEqual([])
    expect(archive).toMatchObject({ lines: 3, dropped_lines: 0 })
    const lines = await download(tenant, kept.id, archive!)
    expect(lines.map(({ message, number }) => [message, number])).toEqual([
      ['one', 2],
      ['two', 3],
      ['three', 4],
    ])
    expect(await listArchives(tenant, other.id)).toEqual([])
    await withClockAhead(8 * 24 * HOUR_MS, () => sweepLogs(getServices()))
    expect(await listArchives(tenant, kept.id)).toEqual([])
  })

  it('goes with its deployment', async () => {
    const tenant = await newTenant()
    const { id, openLog } = await newLoggedDeployment({ tenant })
    await tenant.put(SETTINGS, { enabled: true, retention_days: 7 })
    await openLog()(linesOf('one'))
    await sweepAnHourLater()
    expect(await listArchives(tenant, id)).toHaveLength(1)
    const paths = async () => {
      const query = sql`select object_path from log_archives where tenant_id = ${tenant.tenant_id}::uuid`
      return ((await runAsSystem(getApp().database, query))[0] as string[][]).map(([path]) => path!)
    }
    const [path] = await paths()
    await runAsSystem(getApp().database, sql`delete from deployments where id = ${id}::uuid`)
    await sweepLogs(getServices())
    expect(await paths()).toEqual([])
    expect(await getApp().platform.storage!.get(path!)).toBeNull()
  })

  it('counts lines that came while too many waited', async () => {
    const tenant = await newTenant()
    const { id, openLog } = await newLoggedDeployment({ tenant })
    await tenant.put(SETTINGS, { enabled: true, retention_days: 7 })
    const send = openLog()
    await send(linesOf('one'))
    const fill = (bytes: number) => sql`update log_batches set bytes = ${bytes} where deployment_id = ${id}::uuid`
    await runAsSystem(getApp().database, fill(MAX_QUEUED_BYTES))
    await send(linesOf('two', 'three'))
    await runAsSystem(getApp().database, fill(100))
    await send(linesOf('four'))
    await sweepAnHourLater()
    const [archive] = await listArchives(tenant, id)
    expect(archive).toMatchObject({ lines: 2, dropped_lines: 2 })
    expect((await download(tenant, id, archive!)).map(({ message }) => message)).toEqual(['one', 'four'])
  })
})

describe('lines for a log store', () => {
  it('wait while it is away, and come once, with the numbers that they have in Postgres', async () => {
    const tenant = await newTenant()
    const { id, openLog } = await newLoggedDeployment({ tenant })
    const send = openLog()
    await send(linesOf('one', 'two'))
    const queue = sql`
      insert into log_batches (
        organization_id, tenant_id, deployment_id, revision_id, kind, number, skipped, lines, bytes, content,
        for_store, for_archive)
      select organization_id, tenant_id, deployment_id, revision_id, kind, 3, 1, 2, 10,
        '[{"message": "two"}, {"message": "three"}, {"message": "four"}]', true, false
      from log_lines
      where deployment_id = ${id}::uuid and number = 1`
    await runAsSystem(getApp().database, queue)
    const taken: QueuedLine[] = []
    let isAway = true
    const append = async (lines: QueuedLine[]) => {
      if (isAway) throw fail('database_unavailable')
      taken.push(...lines.filter(line => line.deployment_id === id))
    }
    const logs = { append } as unknown as LogStore
    for (let i = 0; i < 25; i++) await storeQueuedLines({ ...getServices(), logs }).catch(() => {})
    isAway = false
    await storeQueuedLines({ ...getServices(), logs })
    await storeQueuedLines({ ...getServices(), logs })
    expect(taken.map(({ message, number }) => [message, number])).toEqual([
      ['three', 3],
      ['four', 4],
    ])
  })

  it('come although the store refuses a batch of another deployment', async () => {
    const refused = await newLoggedDeployment({ tenant: await newTenant() })
    const { id, openLog } = await newLoggedDeployment({ tenant: await newTenant() })
    await refused.openLog()(linesOf('poison'))
    await openLog()(linesOf('one'))
    const queue = sql`
      insert into log_batches (
        organization_id, tenant_id, deployment_id, revision_id, kind, number, skipped, lines, bytes, content,
        for_store, for_archive)
      select organization_id, tenant_id, deployment_id, revision_id, kind, 1, 0, 1, 10,
        json_build_array(json_build_object('message', message)), true, false
      from log_lines
      where deployment_id in (${id}::uuid, ${refused.id}::uuid) and number = 1`
    await runAsSystem(getApp().database, queue)
    const taken: string[] = []
    const append = async (lines: QueuedLine[]) => {
      if (lines.some(({ message }) => message === 'poison')) throw fail('internal')
      taken.push(...lines.map(({ message }) => message))
    }
    const logs = { append } as unknown as LogStore
    for (let i = 0; i < 25; i++) await storeQueuedLines({ ...getServices(), logs }).catch(() => {})
    expect(taken).toEqual(['one'])
    const left = sql`select from log_batches where deployment_id = ${refused.id}::uuid`
    expect((await runAsSystem(getApp().database, left))[0]).toEqual([])
  })
})
