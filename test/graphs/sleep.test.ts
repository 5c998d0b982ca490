// The answer of a deployment of graphs to the question whether it may sleep.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { afterAll, beforeAll, expect, it } from 'vitest'
import { openGraphs } from './graphs.ts'

let graphs: Awaited<ReturnType<typeof openGraphs>>
let copy: Awaited<ReturnType<typeof graphs.startCopy>>
beforeAll(async () => {
  graphs = await openGraphs()
  copy = await graphs.startCopy({ apiKey: 'secret', webhooks: { url: { disable_loopback: false } } })
})
afterAll(() => graphs.close())

const KEY = { 'X-Api-Key': 'secret' }
const asks = async (headers?: Record<string, string>) => {
  const response = await copy.send('GET', '/internal/sleep', undefined, headers)
  return { status: response.status, ...((await response.json()) as { may_sleep?: boolean; wake_at?: string | null }) }
}
const post = async (path: string, body: object) => (await (await copy.send('POST', path, body, KEY)).json()) as never
const startRun = async (more: object): Promise<{ run_id: string; thread_id: string }> =>
  post('/runs', { assistant_id: 'echo', input: { say: 'a' }, on_completion: 'keep', ...more })
const cancel = ({ run_id, thread_id }: { run_id: string; thread_id: string }) =>
  copy.send('POST', `/threads/${thread_id}/runs/${run_id}/cancel?wait=true`, undefined, KEY)
const maySleep = (wake_at: unknown = null) =>
  expect.poll(() => asks()).toEqual({ status: 200, may_sleep: true, wake_at })
const STAYS = { status: 200, may_sleep: false, wake_at: null }

it('it may while nothing is to be done, and says so without the key, but not to callers of a router', async () => {
  await maySleep()
  expect((await asks({ 'X-Forwarded-For': '10.0.0.1' })).status).toBe(401)
  expect((await asks({ 'X-Forwarded-For': '10.0.0.1', ...KEY })).status).toBe(200)
})

it('it may not while a run is running, or waits for another', async () => {
  const run = await startRun({ input: { steps: 1000, say: 'late' } })
  await expect.poll(() => copy.server.worker.activeCount).toBe(1)
  expect(await asks()).toEqual(STAYS)
  await cancel(run)
  await maySleep()
  // Its copy ended in its middle.
  await graphs.sql(`update graphs.runs set status = 'running', lease_until = now() + interval '1 hour'
    where run_id = '${run.run_id}'`)
  expect(await asks()).toEqual(STAYS)
  await graphs.sql(`update graphs.runs set graph_id = 'gone' where run_id = '${run.run_id}'`)
  await maySleep()
})

it('it has to be awake for a delayed run and a cron, whichever is first', async () => {
  const { cron_id } = await post('/runs/crons', { assistant_id: 'echo', schedule: '0 0 1 1 *', input: { say: 'a' } })
  const due = async (next: string) =>
    graphs.sql(`update graphs.crons set next_run_date = ${next} where cron_id = '${cron_id}'`)
  const at = (ms: number) => new Date(Math.floor(Date.now() / 1000) * 1000 + ms).toISOString()
  const [inAnHour, inAMinute] = [at(3_600_000), at(60_000)]
  await due(`'${inAnHour}'`)
  await maySleep(inAnHour)
  await due(`now() + interval '8 seconds'`)
  expect(await asks()).toEqual(STAYS)
  await due(`'${inAnHour}'`)
  const run = await startRun({ after_seconds: 3_000 })
  await graphs.sql(`update graphs.runs set start_at = '${inAMinute}' where run_id = '${run.run_id}'`)
  await maySleep(inAMinute)
  await cancel(run)
  await maySleep(inAnHour)
  await copy.send('DELETE', `/runs/crons/${cron_id}`, undefined, KEY)
  await maySleep()
})

it('it may not while another copy may still send a webhook, or has a transaction open', async () => {
  const received = Promise.withResolvers<void>()
  const receiver = createServer((_, response) => {
    response.end()
    received.resolve()
  })
  await new Promise<void>(listening => receiver.listen(0, '127.0.0.1', listening))
  const { port } = receiver.address() as AddressInfo
  const run = await startRun({ webhook: `http://127.0.0.1:${port}` })
  await received.promise
  receiver.close()
  expect(await asks()).toEqual(STAYS)
  await graphs.sql(`update graphs.runs set updated_at = now() - interval '2 minutes' where run_id = '${run.run_id}'`)
  await maySleep()
  await copy.server.db.transaction(async query => {
    await query('select 1')
    expect(await asks()).toEqual(STAYS)
  })
  await maySleep()
})

it('a receiver of a webhook that changes the protocol does not keep it awake', async () => {
  const receiver = createServer(({ socket }) => {
    socket.write('HTTP/1.1 101 Switching Protocols\r\nConnection: Upgrade\r\nUpgrade: x\r\n\r\n')
  })
  await new Promise<void>(listening => receiver.listen(0, '127.0.0.1', listening))
  const { port } = receiver.address() as AddressInfo
  const asked = once(receiver, 'request')
  const run = await startRun({ webhook: `http://127.0.0.1:${port}` })
  await asked
  await graphs.sql(`update graphs.runs set updated_at = now() - interval '2 minutes' where run_id = '${run.run_id}'`)
  await maySleep()
  receiver.close()
})

it('once it said that it may, it begins nothing by itself, and has swept', async () => {
  await graphs.sql(`insert into graphs.store (namespace, key, value, expires_at) values ('{a}', 'b', '1', now())`)
  const worker = await graphs.startCopy({ apiKey: 'secret' })
  const { cron_id } = await post('/runs/crons', { assistant_id: 'echo', schedule: '0 0 1 1 *', input: { say: 'a' } })
  await graphs.sql(`update graphs.crons set next_run_date = now() + interval '1 hour' where cron_id = '${cron_id}'`)
  // The first of a copy sweeps, and waits a second for it.
  await expect
    .poll(async () => (await (await worker.send('GET', '/internal/sleep')).json()) as { may_sleep: boolean })
    .toMatchObject({ may_sleep: true })
  expect(await graphs.sql('select from graphs.store')).toEqual([])
  await graphs.sql(`update graphs.crons set next_run_date = now() where cron_id = '${cron_id}'`)
  // Each copy looks each second.
  await new Promise(resolve => setTimeout(resolve, 2_500))
  expect(await graphs.sql(`select from graphs.runs where metadata ? 'cron_id'`)).toEqual([])
  copy.server.background.pause(0)
  await expect.poll(() => graphs.sql(`select from graphs.runs where metadata ? 'cron_id'`)).not.toEqual([])
})
