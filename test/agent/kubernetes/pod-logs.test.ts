// The logs of pods, as the kubelet of a node serves them.
import { once } from 'node:events'
import { createServer, type RequestListener } from 'node:http'
import { type AddressInfo, Socket } from 'node:net'
import { KubeConfig, type V1Pod } from '@kubernetes/client-node'
import { afterEach, expect, test, vi } from 'vitest'
import { DEPLOYMENT_LABEL, REVISION_LABEL } from '../../../src/agent/engines/kubernetes/names.ts'
import { PodLogs } from '../../../src/agent/engines/kubernetes/pod-logs.ts'
import { waitFor } from '../../support/commands.ts'

let close = () => {}
afterEach(() => close())

/** The lines shipped of a container whose node gives this answer. They arrive later. */
async function followPodLog(answer: RequestListener): Promise<string[]> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'test', server: url, skipTLSVerify: true }, { name: 'test' })
  const lines: string[] = []
  const logs = new PodLogs(config, (_, message) => void lines.push(message))
  close = () => {
    logs.close()
    server.closeAllConnections()
    server.close()
  }
  logs.handlePod(
    {
      metadata: { uid: 'u', name: 'p', namespace: 'n', labels: { [DEPLOYMENT_LABEL]: 'd', [REVISION_LABEL]: 'r' } },
      status: { containerStatuses: [{ name: 'app', state: { running: {} } }] },
    } as unknown as V1Pod,
    false,
  )
  return lines
}

test('a line over the size limit is cut and shipped before it ends', async () => {
  const lines = await followPodLog((_, res) => void res.write(`2126-11-21T12:00:00.5Z ${'x'.repeat(100_000)}`))
  await waitFor(() => lines.length > 0)
  expect(lines).toEqual(['x'.repeat(16 * 1024)])
})

test('each line is shipped once, also when the clock of the node changes from summer time', async () => {
  const log = [
    '2126-10-27T02:59:58.9+02:00 before',
    '2126-10-27T02:00:02+01:00 after',
    '2126-10-27T02:00:02.000000001+01:00 at once',
    '2126-10-27T02:00:02.000000001+01:00 again',
    '2126-10-27T02:00:02.00000001+01:00 later',
  ]
  const lines = await followPodLog((_, res) => void res.write(`${log.join('\n')}\n`))
  await waitFor(() => lines.includes('later'))
  expect(lines).toEqual(['before', 'after', 'at once', 'later'])
})

test('an unfinished last line is shipped when the log ends, but not when the connection breaks', async () => {
  const time = '2126-11-21T12:00:00.5Z'
  let requestCount = 0
  const lines = await followPodLog((_, res) => {
    if (requestCount++ === 0) res.write(`${time} its la`, () => res.destroy())
    else res.end(`${time} its last words`)
  })
  await waitFor(() => lines.length > 0)
  expect(lines).toEqual(['its last words'])
})

test('the connection of a log uses TCP keep-alive', async () => {
  const setKeepAlive = vi.spyOn(Socket.prototype, 'setKeepAlive')
  try {
    await followPodLog((_, res) => res.flushHeaders())
    await waitFor(() => setKeepAlive.mock.calls.some(([isEnabled, delayMs]) => isEnabled && delayMs! <= 60_000))
  } finally {
    setKeepAlive.mockRestore()
  }
})
