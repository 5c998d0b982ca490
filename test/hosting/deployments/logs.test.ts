import { sql } from 'drizzle-orm'
import { describe, expect, it } from 'vitest'
import { NewDeployment } from '../../../src/hosting/deployments/schema.ts'
import { MAX_LINE_BYTES, sanitizeMessage } from '../../../src/hosting/logs/line-text.ts'
import { appendLogs, MAX_LOG_LINES, type NewLogLine } from '../../../src/hosting/logs/logs.ts'
import { runAsSystem } from '../../../src/kernel/db/db.ts'
import type { LogKind } from '../../../src/protocol/logs.schema.ts'
import { getApp, newTenant, readEvents, type Tenant, unusedId } from '../../support/app.ts'

const at = (second: number) => new Date(Date.UTC(2026, 0, 1) + second * 1000).toISOString()
const line = (second: number, message = `line ${second}`, level: NewLogLine['level'] = 'INFO'): NewLogLine => ({
  timestamp: at(second),
  level,
  message,
})

async function createLogs(tenant: Tenant) {
  const { body } = await tenant.post('/v2/deployments', NewDeployment.meta()!.example)
  const { id, latest_revision_id } = body as { id: string; latest_revision_id: string }
  const project = `/v1/projects/${id}`
  return {
    revision_id: latest_revision_id,
    build: `${project}/revisions/${latest_revision_id}/build_logs`,
    deploy: `${project}/revisions/${latest_revision_id}/deploy_logs`,
    all: `${project}/deploy_logs`,
    append: async (lines: NewLogLine[], kind: LogKind = 'build', tenant_id = tenant.tenant_id) => {
      const revision = sql`select ${tenant_id}::uuid as tenant_id, ${latest_revision_id}::uuid as id`
      const statement = appendLogs({ revision, kind, stream: unusedId(), from: 0 }, lines)
      const [rows] = (await runAsSystem(getApp().database, statement)) as [string[][]]
      return rows.map(([, written]) => [written])
    },
  }
}

type Line = { id: string; timestamp: string; level: string; message: string }
const listMessages = (logs: Line[]) => logs.map(({ message }) => message)

describe('logs', () => {
  it('are read in the order of time, by kind, for one revision or for all revisions', async () => {
    const tenant = await newTenant()
    const { append, build, deploy, all } = await createLogs(tenant)
    await append([line(2), line(1)])
    await append([line(3, 'up')], 'deploy')
    const { body } = await tenant.post(build, {})
    expect(body.logs).toMatchObject([
      { timestamp: at(1), level: 'INFO', message: 'line 1' },
      { timestamp: at(2), level: 'INFO', message: 'line 2' },
    ])
    expect(new Set(body.logs.map(({ id }: Line) => id)).size).toBe(2)
    expect(body).not.toHaveProperty('next_offset')
    expect(listMessages((await tenant.post(build, { order: 'desc' })).body.logs)).toEqual(['line 2', 'line 1'])
    for (const path of [deploy, all]) expect(listMessages((await tenant.post(path)).body.logs)).toEqual(['up'])
  })

  it('are paged without gaps or repeats, even if lines have the same time', async () => {
    const tenant = await newTenant()
    const { append, build } = await createLogs(tenant)
    await append(Array.from({ length: 25 }, (_, i) => line(Math.floor(i / 10), `n ${i}`)))
    const allMessages = listMessages((await tenant.post(build, { limit: 1000 })).body.logs)
    for (const order of ['asc', 'desc']) {
      const read: string[] = []
      let offset: string | undefined
      do {
        const { body } = await tenant.post(build, { limit: 7, order, ...(offset && { offset }) })
        read.push(...listMessages(body.logs))
        offset = body.next_offset
      } while (offset)
      expect(read).toEqual(order === 'asc' ? allMessages : allMessages.toReversed())
    }
  })

  it('are filtered by minimum level, text and time', async () => {
    const tenant = await newTenant()
    const { append, build } = await createLogs(tenant)
    await append([
      line(1, 'quiet', 'DEBUG'),
      line(2, '100% Done_'),
      line(3, 'careful', 'WARNING'),
      line(4, 'broken', 'ERROR'),
      line(5, 'dead', 'CRITICAL'),
    ])
    const table: [Record<string, unknown>, string[]][] = [
      [{ level: 'warning' }, ['careful', 'broken', 'dead']],
      [{ level: 'CRITICAL' }, ['dead']],
      [{ query: '% done_' }, ['100% Done_']],
      [{ query: '%' }, ['100% Done_']],
      [{ query: '' }, ['quiet', '100% Done_', 'careful', 'broken', 'dead']],
      [{ start_time: at(2), end_time: at(4) }, ['100% Done_', 'careful']],
      [{ start_time: at(2), level: 'error', order: 'desc', query: 'E' }, ['dead', 'broken']],
      [
        { level: null, query: null, offset: null, limit: null, order: null, start_time: null, end_time: null },
        ['quiet', '100% Done_', 'careful', 'broken', 'dead'],
      ],
    ]
    for (const [filter, expected] of table) {
      expect(listMessages((await tenant.post(build, filter)).body.logs), JSON.stringify(filter)).toEqual(expected)
    }
  })

  it('are refused for invalid parameters, and not found in another project', async () => {
    const tenant = await newTenant()
    const { build, deploy, all } = await createLogs(tenant)
    const invalid = [
      { limit: 0 },
      { limit: 1001 },
      { order: 'up' },
      { level: 'loud' },
      { offset: 'x' },
      { start_time: 'now' },
    ]
    const forged = Buffer.from(`${at(1)}~${unusedId()}~-1`).toString('base64url')
    for (const body of [...invalid, { offset: forged }]) {
      expect((await tenant.post(build, body)).status, JSON.stringify(body)).toBe(422)
    }
    for (const path of [build, deploy, all]) {
      const inOtherProject = path.replace(/projects\/[^/]+/, `projects/${unusedId()}`)
      expect((await tenant.post(inOtherProject, {})).status).toBe(404)
    }
  })

  it('are read without an event, and an idempotency key has no effect', async () => {
    const tenant = await newTenant()
    const { append, build } = await createLogs(tenant)
    const headers = { 'Idempotency-Key': 'k' }
    const first = await tenant.post(build, {}, headers)
    await append([line(1)])
    const second = await tenant.post(build, {}, headers)
    expect([first.body.logs.length, second.body.logs.length]).toEqual([0, 1])
    expect(second.headers.has('Idempotency-Replayed')).toBe(false)
    expect(await readEvents(second.headers.get('X-Request-Id')!)).toEqual([])
  })

  it('that belong to another workspace can be neither read nor written', async () => {
    const [own, other] = await Promise.all([newTenant(), newTenant()])
    const { append, build, all } = await createLogs(own)
    expect(await append([line(1)], 'build', other.tenant_id)).toEqual([])
    expect((await own.post(build, {})).body.logs).toEqual([])
    for (const path of [build, all]) expect((await other.post(path, {})).status).toBe(404)
  })
})

describe('a log', () => {
  it('keeps its newest lines, and begins with a warning that counts the dropped ones', async () => {
    const tenant = await newTenant()
    const { append, build } = await createLogs(tenant)
    await append(Array.from({ length: MAX_LOG_LINES }, (_, i) => line(i)))
    expect(listMessages((await tenant.post(build, { limit: 1 })).body.logs)).toEqual(['line 0'])
    for (const [more, dropped] of [
      [3, 3],
      [2, 5],
    ] as const) {
      await append(Array.from({ length: more }, (_, i) => line(MAX_LOG_LINES + dropped - more + i)))
      const [warning, oldest] = (await tenant.post(build, { limit: 2 })).body.logs
      expect([warning.level, warning.message.split(' ')[0], oldest.message]).toEqual([
        'WARNING',
        String(dropped),
        `line ${dropped}`,
      ])
    }
    const [newest] = (await tenant.post(build, { limit: 1, order: 'desc' })).body.logs
    expect(newest.message).toBe(`line ${MAX_LOG_LINES + 4}`)
    const [[[count]]] = (await runAsSystem(
      getApp().database,
      sql`select count(*) from log_lines where tenant_id = ${tenant.tenant_id}::uuid and number > 0`,
    )) as [[[string]]]
    expect(Number(count)).toBe(MAX_LOG_LINES)
  })

  it('keeps the newest 4 MiB, even of one large batch', async () => {
    const tenant = await newTenant()
    const { append, build } = await createLogs(tenant)
    const longest = 'x'.repeat(MAX_LINE_BYTES)
    await append(Array.from({ length: 300 }, (_, i) => line(i, longest)))
    const { logs } = (await tenant.post(build, { limit: 1000 })).body
    expect([logs.length, logs[0].message.split(' ')[0], logs[1].timestamp]).toEqual([257, '44', at(44)])
    await append([line(300, longest)])
    const after = (await tenant.post(build, { limit: 1000 })).body.logs
    expect([after.length, after[0].message.split(' ')[0]]).toEqual([257, '45'])
  })

  it('gives every line its own id under concurrent writes', async () => {
    const tenant = await newTenant()
    const { append, build } = await createLogs(tenant)
    await Promise.all(Array.from({ length: 10 }, (_, i) => append([line(i), line(i)])))
    const { logs } = (await tenant.post(build, {})).body
    expect(new Set(logs.map(({ id }: Line) => id)).size).toBe(20)
  })
})

describe('the message of a log line', () => {
  it('is cut at 16 KiB, but not within a character', () => {
    for (const text of ['x'.repeat(20_000), 'é'.repeat(20_000), `x${'😀'.repeat(10_000)}`]) {
      const cut = sanitizeMessage(text)
      expect(Buffer.byteLength(cut)).toBeLessThanOrEqual(MAX_LINE_BYTES)
      expect(Buffer.byteLength(cut)).toBeGreaterThan(MAX_LINE_BYTES - 8)
      expect(cut).toMatch(/[xé😀] … \(cut\)$/u)
    }
    expect(sanitizeMessage('x'.repeat(MAX_LINE_BYTES))).toHaveLength(MAX_LINE_BYTES)
  })

  it.each([
    ['\u001b[31mred\u001b[0m', '␛[31mred␛[0m'],
    ['a\0b\rc\u007f', 'a␀b␍c␡'],
    ['one\n\ttwo', 'one\n\ttwo'],
    ['\u009b31m \u202edcba', '�31m �dcba'],
    ['\ud800', '�'],
    ['Grüße 😀', 'Grüße 😀'],
  ])('%j is stored as %j', (message, sanitized) => {
    expect(sanitizeMessage(message)).toBe(sanitized)
  })
})
