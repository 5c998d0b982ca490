// What pods write, as a node tells it.
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

/** What is told of a container whose node answers so. */
async function linesOf(answer: RequestListener): Promise<string[]> {
  const server = createServer(answer).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'test', server: at, skipTLSVerify: true }, { name: 'test' })
  const said: string[] = []
  const logs = new PodLogs(config, (_, message) => void said.push(message))
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
  return said
}

test('a very long line is shipped before it ends', async () => {
  const said = await linesOf((_, res) => void res.write(`2126-11-21T12:00:00.5Z ${'x'.repeat(100_000)}`))
  await waitFor(() => said.length > 0)
  expect(said).toEqual(['x'.repeat(16 * 1024)])
})

test('each line is shipped once, also when a node’s clock goes back from summer time', async () => {
  const lines = [
    '2126-10-27T02:59:58.9+02:00 before',
    '2126-10-27T02:00:02+01:00 after',
    '2126-10-27T02:00:02.000000001+01:00 at once',
    '2126-10-27T02:00:02.000000001+01:00 again',
    '2126-10-27T02:00:02.00000001+01:00 later',
  ]
  const said = await linesOf((_, res) => void res.write(`${lines.join('\n')}\n`))
  await waitFor(() => said.includes('later'))
  expect(said).toEqual(['before', 'after', 'at once', 'later'])
})

test('an unfinished last line is shipped, and whole if the answer was cut before', async () => {
  const time = '2126-11-21T12:00:00.5Z'
  let asked = 0
  const said = await linesOf((_, res) => {
    if (asked++ === 0) res.write(`${time} its la`, () => res.destroy())
    else res.end(`${time} its last words`)
  })
  await waitFor(() => said.length > 0)
  expect(said).toEqual(['its last words'])
})

test('a silent connection uses TCP keep-alive', async () => {
  const kept = vi.spyOn(Socket.prototype, 'setKeepAlive')
  try {
    await linesOf((_, res) => res.flushHeaders())
    await waitFor(() => kept.mock.calls.some(([alive, after]) => alive && after! <= 60_000))
  } finally {
    kept.mockRestore()
  }
})
