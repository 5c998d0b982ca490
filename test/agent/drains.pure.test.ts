// Drains of an agent against receivers on the loopback: what arrives, in what order, and what becomes of failures.
import * as fs from 'node:fs'
import { createServer, type IncomingHttpHeaders } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createServer as createTlsServer } from 'node:tls'
import { gunzipSync } from 'node:zlib'
import { expect, onTestFinished, test } from 'vitest'
import { parseNetworks } from '../../src/agent/builds/allowed-address.ts'
import { LogShipper } from '../../src/agent/control-plane/log-shipper.ts'
import { Drains } from '../../src/agent/drains/drains.ts'
import { sendSyslog } from '../../src/agent/drains/send-syslog.ts'
import type { DrainReports, WorkDrain } from '../../src/protocol/drains.schema.ts'
import { makeCertificate } from '../support/certificate.ts'
import { waitFor } from '../support/commands.ts'

const LOOPBACK = parseNetworks('127.0.0.0/8')
const REF = { deployment_id: crypto.randomUUID(), revision_id: crypto.randomUUID() }
const TENANT = crypto.randomUUID()

type Answer = { status: number; headers?: Record<string, string>; body?: string }
type Received = { path: string; headers: IncomingHttpHeaders; messages: string[] }

/** Keeps the messages of each request. `answer` decides by the messages. */
async function startReceiver(answer: (messages: string[], nth: number) => Answer = () => ({ status: 204 })) {
  const received: Received[] = []
  const server = createServer(async (req, res) => {
    const chunks: Buffer[] = []
    for await (const chunk of req) chunks.push(chunk as Buffer)
    const text = gunzipSync(Buffer.concat(chunks)).toString()
    const messages = text
      .trimEnd()
      .split('\n')
      .map(line => JSON.parse(line).message as string)
    received.push({ path: req.url!, headers: req.headers, messages })
    const { status, headers, body } = answer(messages, received.length)
    res.writeHead(status, headers).end(body)
  })
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  return { received, url: `http://127.0.0.1:${(server.address() as AddressInfo).port}/in` }
}

const makeDrain = (url: string, over: Partial<WorkDrain> = {}): WorkDrain => ({
  id: crypto.randomUUID(),
  tenant_id: TENANT,
  kind: 'ndjson',
  url,
  compression: 'gzip',
  signals: ['logs'],
  deployment_ids: null,
  filter: { min_level: null, processes: [], contains: null },
  sampling_rate: 1,
  access: null,
  ...over,
})

function makeDrains(folder = fs.mkdtempSync(join(tmpdir(), 'drains-')), networks = LOOPBACK) {
  const reports: DrainReports['drains'] = []
  const drains = new Drains({
    folder,
    networks,
    keys: { public_key: '', open: () => ({ 'X-Token': 'opened' }) as never },
    control: { drains: async ({ drains: sent }) => void reports.push(...sent) },
    currentLease: () => ({ agent_id: 'a', fence: 1 }),
    logEvent: () => {},
    report_ms: 0,
    pause_ms: 1,
  })
  drains.describe(REF.deployment_id, { tenant_id: TENANT, name: 'shop' })
  const close = async () => {
    await drains.close()
    fs.rmSync(folder, { recursive: true, force: true })
  }
  onTestFinished(close)
  const write = (...messages: string[]) => {
    const lines = messages.map(message => ({ timestamp: new Date().toISOString(), level: 'INFO' as const, message }))
    drains.addLines(REF, 'deploy', lines)
    return drains.flush()
  }
  const lastReport = () => reports.at(-1)
  return { drains, folder, write, lastReport }
}
const take = (drains: Drains, ...list: WorkDrain[]) => drains.take({ digest: 'd', list }, 'listener')

test('lines arrive once and in order, with opened headers, through failures and a restart of the agent', async () => {
  let isUp = false
  const { url, received } = await startReceiver(() => ({ status: isUp ? 200 : 503 }))
  const first = makeDrains()
  const drain = makeDrain(url, { access: 'sealed' })
  await take(first.drains, drain)
  await first.write('1', '2')
  await waitFor(() => first.drains.flush().then(() => first.lastReport()?.error?.includes('503')))
  expect(first.lastReport()).toMatchObject({ id: drain.id, sent: 0, dropped: 0, waiting: 2 })
  await first.drains.close()

  const second = makeDrains(first.folder)
  isUp = true
  received.length = 0
  await take(second.drains, drain)
  await second.write('3')
  await waitFor(() => second.drains.flush().then(() => second.lastReport()?.sent === 3))
  expect(received.flatMap(({ messages }) => messages)).toEqual(['1', '2', '3'])
  expect(received[0]!.headers['x-token']).toBe('opened')
  expect(second.lastReport()).toMatchObject({ dropped: 0, waiting: 0, error: null, failing_since: null })
})

test('a batch that is too large is halved, one that is refused is dropped and counted', async () => {
  const { url, received } = await startReceiver(messages =>
    messages.length > 2 ? { status: 413 } : { status: messages.includes('bad') ? 400 : 200 },
  )
  const { drains, write, lastReport } = makeDrains()
  await take(drains, makeDrain(url))
  await write('1', '2', '3', 'bad', '5')
  await waitFor(() => drains.flush().then(() => lastReport()?.waiting === 0))
  await write('6')
  await waitFor(() => drains.flush().then(() => lastReport()?.sent === 4))
  expect(lastReport()).toMatchObject({ sent: 4, dropped: 2 })
  expect(received.filter(({ messages }) => messages.length <= 2).map(({ messages }) => messages)).toEqual([
    ['1', '2'],
    ['3'],
    ['bad', '5'],
    ['6'],
  ])
})

test('a count of a receiver that is none does not spoil the counts of the agent', async () => {
  const counts = ['0.5', '-3', '1e999', '"x"', '2']
  const answer = (rejected: string) => `{"partialSuccess":{"rejectedLogRecords":${rejected}}}`
  const { url } = await startReceiver((_, nth) => ({ status: 200, body: answer(counts[nth - 1]!) }))
  const { drains, write, lastReport } = makeDrains()
  await take(drains, makeDrain(url))
  for (const [i] of counts.entries()) {
    await write('1', '2', '3')
    await waitFor(() => drains.flush().then(() => lastReport()?.waiting === 0 && lastReport()!.sent >= i * 3 + 1))
  }
  expect(lastReport()).toMatchObject({ sent: 13, dropped: 2 })
})

test('a receiver in a private network, and a redirect to one, get nothing', async () => {
  const { url, received } = await startReceiver(() => ({
    status: 307,
    headers: { Location: 'http://169.254.169.254/' },
  }))
  const guarded = makeDrains(undefined, [])
  await take(guarded.drains, makeDrain(url))
  await guarded.write('1')
  await waitFor(() => guarded.drains.flush().then(() => guarded.lastReport()?.error?.includes('not reached')))
  expect(received).toEqual([])
  const { drains, write, lastReport } = makeDrains()
  await take(drains, makeDrain(url))
  await write('1')
  await waitFor(() => drains.flush().then(() => lastReport()?.error?.includes('307')))
  expect(lastReport()).toMatchObject({ waiting: 1, sent: 0 })
})

test('each drain gets its own: by deployment, level, text, process and workspace', async () => {
  const { url, received } = await startReceiver()
  const { drains, lastReport } = makeDrains()
  const filter = { min_level: 'WARNING' as const, processes: ['web'], contains: 'PAID' }
  await take(
    drains,
    makeDrain(`${url}/filtered`, { filter }),
    makeDrain(`${url}/other-deployment`, { deployment_ids: [crypto.randomUUID()] }),
    makeDrain(`${url}/other-workspace`, { tenant_id: crypto.randomUUID() }),
    makeDrain(`${url}/metrics`, { signals: ['metrics'] }),
  )
  const line = { timestamp: new Date().toISOString(), level: 'ERROR' as const, message: 'not paid', process: 'web' }
  drains.addLines(REF, 'deploy', [
    line,
    { ...line, level: 'INFO' },
    { ...line, process: 'worker' },
    { ...line, message: 'else' },
  ])
  await drains.flush()
  await waitFor(() => drains.flush().then(() => lastReport() !== undefined && received.length > 0))
  expect(received.map(({ path, messages }) => [path, messages])).toEqual([['/in/filtered', ['not paid']]])
})

test('lines reach drains redacted while the control plane is away, and none without its secrets known', async () => {
  const { url, received } = await startReceiver()
  const { drains } = makeDrains()
  await take(drains, makeDrain(url))
  let isKnown = false
  const shipper = new LogShipper({
    control: { logs: () => Promise.reject(new Error('away')) },
    currentLease: () => ({ agent_id: 'a', fence: 1 }),
    areSecretsKnown: () => isKnown,
    redact: (_ref, text) => text.replace('hush', '*****'),
    drains,
  })
  shipper.add(REF, 'deploy', 'the key is hush', 'INFO')
  await shipper.flush()
  await drains.flush()
  expect(received).toEqual([])
  isKnown = true
  await shipper.flush()
  await shipper.flush()
  await drains.flush()
  await waitFor(() => received.length > 0)
  expect(received.map(({ messages }) => messages)).toEqual([['the key is *****']])
})

test('a drain that is gone leaves nothing on the disk', async () => {
  const { drains, folder, write } = makeDrains()
  const drain = makeDrain('http://127.0.0.1:9/')
  await take(drains, drain)
  await write('1')
  expect(fs.readdirSync(folder)).toEqual([drain.id])
  await take(drains)
  expect(fs.readdirSync(folder)).toEqual([])
})

test('syslog over TLS is taken once the receiver has read to the end, and its certificate is verified', async () => {
  const { key, cert } = makeCertificate('localhost')
  const received: Buffer[] = []
  let isReading = true
  const server = createTlsServer({ key, cert }, socket => {
    socket.on('error', () => {})
    if (!isReading) return socket.destroy()
    socket.on('data', chunk => received.push(chunk))
  })
  server.on('tlsClientError', () => {})
  await new Promise<void>(resolve => server.listen(0, '127.0.0.1', resolve))
  onTestFinished(() => void server.close())
  const url = `tls://localhost:${(server.address() as AddressInfo).port}`
  const networks = parseNetworks('127.0.0.0/8, ::1/128')
  const signal = new AbortController().signal
  const bytes = Buffer.from('5 hello')
  expect(await sendSyslog(bytes, { url, networks, signal, ca: cert })).toMatchObject({ kind: 'taken' })
  expect(Buffer.concat(received).toString()).toBe('5 hello')
  isReading = false
  const broken = await sendSyslog(bytes, { url, networks, signal, ca: cert }).catch(() => ({ kind: 'failed' }))
  expect(broken.kind).toBe('failed')
  await expect(sendSyslog(bytes, { url, networks, signal })).rejects.toThrow(/self-signed|certificate/)
  await expect(sendSyslog(bytes, { url: 'tcp://10.0.0.1:514', networks, signal })).rejects.toThrow(/not reached/)
})
