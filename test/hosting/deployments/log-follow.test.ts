import { beforeAll, describe, expect, it } from 'vitest'
import { MAX_LINE_BYTES } from '../../../src/hosting/logs/line-text.ts'
import { MAX_LOG_BYTES } from '../../../src/hosting/logs/logs.ts'
import { EDITOR } from '../../../src/people/access/built-in-roles.ts'
import { type App, newTenant, send, unusedId } from '../../support/app.ts'
import { type OpenStream, openStream, startStreamingApp } from '../../support/live-streams.ts'
import { type LoggedDeployment, newLoggedDeployment } from '../../support/logged-deployment.ts'
import { cookieHeaders, newSession } from '../../support/sessions.ts'

type Line = { id: string; arrival: number; message: string; kind: string; revision_id: string; level: string }
type Page = { logs: Line[]; next_after: number; has_more: boolean; dropped: number }

async function read({ tenant, path }: LoggedDeployment, query: Record<string, unknown> = {}): Promise<Page> {
  const { status, body } = await tenant.get(`${path}?${new URLSearchParams(query as Record<string, string>)}`)
  expect(status, JSON.stringify(body)).toBe(200)
  return body
}
const messagesOf = ({ logs }: Pick<Page, 'logs'>) => logs.map(({ message }) => message)
const longLines = (count: number) => Array.from({ length: count }, () => ({ message: 'x'.repeat(MAX_LINE_BYTES) }))
const linesOf = (...messages: string[]) => messages.map(message => ({ message }))

let app: App
beforeAll(() => {
  app = startStreamingApp()
})

/** Other lines are a second older. */
const later = { timestamp: '2026-01-01T00:00:01.000Z' }

describe('the logs of a deployment in the order of arrival', () => {
  it('have a cursor on every page, also on an empty one, and late lines with an older time come last', async () => {
    const deployment = await newLoggedDeployment({ revisions: 2 })
    const { openLog, revisionIds } = deployment
    expect(await read(deployment)).toEqual({ logs: [], next_after: 0, has_more: false, dropped: 0 })
    const [build, run] = [openLog({ kind: 'build' }), openLog({ revision_id: revisionIds[1]! })]
    await build(linesOf('one', 'two'))
    await run([{ message: 'three', timestamp: '2025-01-01T00:00:00.000Z' }], 3)
    await build(linesOf('four'), 2)
    const page = await read(deployment, { limit: 3 })
    expect(page).toMatchObject({ next_after: 3, has_more: true, dropped: 0 })
    expect(page.logs.map(({ arrival, kind, revision_id, message }) => [arrival, kind, revision_id, message])).toEqual([
      [1, 'build', revisionIds[0], 'one'],
      [2, 'build', revisionIds[0], 'two'],
      [3, 'deploy', revisionIds[1], 'three'],
    ])
    const rest = await read(deployment, { limit: 3, after: page.next_after })
    expect([messagesOf(rest), rest.next_after, rest.has_more]).toEqual([['four'], 4, false])
    expect(await read(deployment, { after: 4 })).toEqual({ logs: [], next_after: 4, has_more: false, dropped: 0 })
  })

  it('are filtered by kind, revision, level, text and time, and the cursor passes the other lines', async () => {
    const deployment = await newLoggedDeployment({ revisions: 2 })
    const { openLog, revisionIds } = deployment
    const [first, second] = revisionIds
    await openLog({ kind: 'build' })(linesOf('built', '100% Done'))
    await openLog()([
      { message: 'up', process: 'web' },
      { message: 'broken', level: 'ERROR', process: 'worker' },
    ])
    await openLog({ revision_id: second! })([
      { message: 'up again', level: 'WARNING' },
      { message: 'quiet', ...later },
    ])
    const table: [Record<string, unknown>, string[]][] = [
      [{ kind: 'build' }, ['built', '100% Done']],
      [{ kind: 'deploy' }, ['up', 'broken', 'up again', 'quiet']],
      [{ revision_id: first }, ['built', '100% Done', 'up', 'broken']],
      [{ revision_id: second, kind: 'build' }, []],
      [{ level: 'warning' }, ['broken', 'up again']],
      [{ process: 'worker' }, ['broken']],
      [{ process: 'worker', level: 'critical' }, []],
      [{ query: '% done' }, ['100% Done']],
      [{ start_time: '2026-01-01T01:00:01+01:00' }, ['quiet']],
      [{ query: 'UP', kind: 'deploy', after: 3 }, ['up again']],
    ]
    for (const [filter, expected] of table) {
      const page = await read(deployment, filter)
      expect([messagesOf(page), page.next_after, page.has_more], JSON.stringify(filter)).toEqual([expected, 6, false])
    }
    const tails: [Record<string, unknown>, string[]][] = [
      [{ tail: 0 }, []],
      [{ tail: 2 }, ['up again', 'quiet']],
      [{ tail: 1000 }, ['built', '100% Done', 'up', 'broken', 'up again', 'quiet']],
      [{ tail: 1, kind: 'build' }, ['100% Done']],
      [{ tail: 1, revision_id: first, level: 'error' }, ['broken']],
      [{ tail: 1, query: 'nothing' }, []],
      [{ tail: 2, start_time: later.timestamp }, ['quiet']],
      [{ tail: 1, after: 4 }, ['up again', 'quiet']],
    ]
    for (const [start, expected] of tails)
      expect(messagesOf(await read(deployment, start)), JSON.stringify(start)).toEqual(expected)
  })

  it('tell how many lines were dropped since the cursor, also between kept lines of other logs', async () => {
    const deployment = await newLoggedDeployment({ revisions: 2 })
    const { openLog, revisionIds } = deployment
    const [busy, quiet] = [openLog(), openLog({ revision_id: revisionIds[1]! })]
    await busy(longLines(20))
    await quiet(linesOf('quiet 1', 'quiet 2'))
    for (let batch = 0; batch < 6; batch++) await busy(longLines(50))
    const kept = MAX_LOG_BYTES / MAX_LINE_BYTES
    const total = 320
    const lost = total - kept
    const summaryOf = async (query: Record<string, unknown>) => {
      const { logs, dropped, next_after } = await read(deployment, query)
      return [logs[0]?.arrival, logs.length, dropped, next_after]
    }
    expect(await summaryOf({ limit: 1 })).toEqual([21, 1, 20, 21])
    expect(await summaryOf({ limit: 3 })).toEqual([21, 3, lost, lost + 3])
    expect(await summaryOf({ limit: 3, after: 30 })).toEqual([lost + 3, 3, lost + 2 - 30, lost + 5])
    expect(await summaryOf({ limit: 3, after: lost + 2 })).toEqual([lost + 3, 3, 0, lost + 5])
    expect(await summaryOf({ limit: 3, revision_id: revisionIds[0]! })).toEqual([lost + 3, 3, lost, lost + 5])
    expect(await summaryOf({ revision_id: revisionIds[1]! })).toEqual([21, 2, 0, total + 2])
    expect(await summaryOf({ tail: 1 })).toEqual([total + 2, 1, 0, total + 2])
    const { tenant, path } = deployment
    const stream = await openStream(app, tenant, `${path}/stream?after=30`)
    expect(await stream.next()).toMatchObject({ event: 'dropped', data: JSON.stringify({ lines: lost + 2 - 30 }) })
    expect(await stream.next()).toMatchObject({ id: String(lost + 3), event: 'message' })
    await stream.close()
  })

  it('are refused for invalid parameters, an unknown owner, and a cursor beyond the newest line', async () => {
    const [deployment, other] = await Promise.all([newLoggedDeployment(), newLoggedDeployment()])
    await deployment.openLog()(linesOf('one'))
    const { tenant, path } = deployment
    const codeOf = async (query: string, of = path, by = tenant) => {
      const { status, body } = await by.get(of + query)
      return [status, body.code]
    }
    for (const query of [
      'kind=x',
      'after=-1',
      'after=2',
      'wait=31',
      'tail=1001',
      'limit=0',
      'limit=1001',
      'level=loud',
      'revision_id=1',
    ])
      expect(await codeOf(`?${query}`), query).toEqual([422, 'invalid_request'])
    expect(await codeOf(`?revision_id=${other.revisionIds[0]}`)).toEqual([404, 'revision_not_found'])
    expect(await codeOf('', `/v2/deployments/${unusedId()}/logs`)).toEqual([404, 'deployment_not_found'])
    expect(await codeOf('', path, await newTenant())).toEqual([404, 'deployment_not_found'])
  })
})
const newKey = async ({ tenant }: LoggedDeployment) =>
  (await tenant.post('/workspaces/current/api-keys', { description: 'Follower' })).body as { id: string; key: string }

describe('a page that waits', () => {
  const waitFor = (path: string, query: string, key: string) =>
    send('GET', `${path}?wait=30&${query}`, { headers: { 'X-Api-Key': key }, app })

  it('answers as soon as a line arrives that matches, with no more lines than its limit', async () => {
    const { tenant, path, openLog } = await newLoggedDeployment()
    const write = openLog()
    const waiting = waitFor(path, 'query=AWAITED&limit=1', tenant.key)
    await write(linesOf('another'))
    await write(linesOf('awaited 1', 'awaited 2'))
    const { body } = await waiting
    expect([messagesOf(body), body.next_after, body.has_more]).toEqual([['awaited 1'], 2, true])
  })

  it('answers with the cursor of the end if no line arrives in time', async () => {
    const deployment = await newLoggedDeployment()
    await deployment.openLog()(linesOf('one'))
    expect(await read(deployment, { wait: 30, after: 1 })).toMatchObject({ logs: [], next_after: 1 })
  })

  it('ends with an error when its key is revoked', async () => {
    const deployment = await newLoggedDeployment()
    const { id, key } = await newKey(deployment)
    const waiting = waitFor(deployment.path, '', key)
    await deployment.tenant.delete(`/workspaces/current/api-keys/${id}`)
    expect((await waiting).body.code).toBe('key_revoked')
  })
})

describe('a stream of logs', () => {
  const open = ({ tenant, path }: LoggedDeployment, query = '', headers: object = {}) =>
    openStream(app, tenant, `${path}/stream?${query}`, headers)
  const readItems = async (stream: OpenStream, count: number) => {
    const items: unknown[] = []
    while (items.length < count) {
      const item = await stream.next()
      if (item === undefined) break
      if (item.event)
        items.push([item.id, item.event, item.event === 'message' ? JSON.parse(item.data!).message : item.data])
    }
    await stream.close()
    return items
  }

  it('has the kept lines and then those that arrive, also after Last-Event-ID or from a tail on', async () => {
    const deployment = await newLoggedDeployment()
    const write = deployment.openLog()
    await write(linesOf('one', 'two', 'three'))
    const streams = await Promise.all([
      open(deployment),
      open(deployment, 'after=0&tail=1', { 'Last-Event-ID': '2' }),
      open(deployment, 'tail=1&query=O'),
      open(deployment, 'kind=build'),
      open(deployment, `start_time=${later.timestamp}`),
    ])
    expect(streams[0]!.response.headers.get('Content-Type')).toBe('text/event-stream')
    const found = streams.map((stream, i) => readItems(stream, [5, 3, 2, 1, 1][i]!))
    await write(linesOf('four'))
    await deployment.openLog({ kind: 'build' })([{ message: 'five: on', ...later }])
    const messages = ['one', 'two', 'three', 'four', 'five: on'].map((name, i) => [String(i + 1), 'message', name])
    expect(await Promise.all(found)).toEqual([
      messages,
      messages.slice(2),
      [messages[1], messages[3]],
      ...Array(2).fill([messages[4]]),
    ])
  })

  it('after a line that the deployment does not have begins with a reset', async () => {
    const deployment = await newLoggedDeployment()
    await deployment.openLog()(linesOf('one'))
    const stream = await open(deployment, 'after=9', { Accept: 'application/x-ndjson' })
    expect(JSON.parse((await stream.nextLine())!)).toEqual({ reset: { reason: 'unknown', after: 9, newest: 1 } })
    const next = stream.nextLine()
    await deployment.openLog()(linesOf('two'))
    expect(JSON.parse((await next)!)).toMatchObject({ arrival: 2, message: 'two' })
    await stream.close()
  })

  it('reads a backlog of several pages, and ends after as many round trips as the platform allows', async () => {
    const deployment = await newLoggedDeployment()
    await deployment.openLog()(linesOf(...Array.from({ length: 1000 }, (_, i) => `line ${i + 1}`)))
    await deployment.openLog()(linesOf('line 1001'))
    const { tenant, path } = deployment
    const limited = await openStream(startStreamingApp({ trips: 2 }), tenant, `${path}/stream`)
    const items = await readItems(limited, 1001)
    expect([items.length, items.at(-1)]).toEqual([1000, ['1000', 'message', 'line 1000']])
    const arrivals = (await readItems(await open(deployment), 1001)).map(item => Number((item as string[])[0]))
    expect(arrivals).toEqual(Array.from({ length: 1001 }, (_, i) => i + 1))
  })

  it('ends with an error when its key is revoked', async () => {
    const deployment = await newLoggedDeployment()
    const { id, key } = await newKey(deployment)
    const stream = await openStream(app, { key }, `${deployment.path}/stream`)
    await deployment.tenant.delete(`/workspaces/current/api-keys/${id}`)
    const [[, event, problem]] = (await readItems(stream, 1)) as [[string, string, string]]
    expect([event, JSON.parse(problem).code]).toEqual(['error', 'key_revoked'])
  })

  it('is open to a session, and ends with an error when its person signs out', async () => {
    const deployment = await newLoggedDeployment()
    const session = await newSession(deployment.tenant, { workspaceRole: EDITOR })
    const headers = { ...cookieHeaders(session.token), 'X-Tenant-Id': deployment.tenant.tenant_id }
    const stream = await openStream(app, {}, `${deployment.path}/stream`, headers)
    expect(stream.response.status).toBe(200)
    await session.delete('/v2/me/sessions/current')
    const [[, event, problem]] = (await readItems(stream, 1)) as [[string, string, string]]
    expect([event, JSON.parse(problem).code]).toEqual(['error', 'session_ended'])
  })
})
