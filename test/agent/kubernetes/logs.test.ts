// What pods write, as a node tells it.
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { KubeConfig, type V1Pod } from '@kubernetes/client-node'
import { expect, test } from 'vitest'
import { Logs } from '../../../src/agent/engines/kubernetes/logs.ts'
import { DEPLOYMENT, REVISION } from '../../../src/agent/engines/kubernetes/names.ts'
import { eventually } from '../../support/commands.ts'

test('a line without an end is told before it has one', async () => {
  const time = '2126-11-21T12:00:00.5Z'
  const server = createServer((_, res) => void res.write(`${time} ${'x'.repeat(100_000)}`)).listen(0, '127.0.0.1')
  await once(server, 'listening')
  const at = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  const config = new KubeConfig()
  config.loadFromClusterAndUser({ name: 'test', server: at, skipTLSVerify: true }, { name: 'test' })
  const said: string[] = []
  const logs = new Logs(config, (_, message) => void said.push(message))
  logs.seen(
    {
      metadata: { uid: 'u', name: 'p', namespace: 'n', labels: { [DEPLOYMENT]: 'd', [REVISION]: 'r' } },
      status: { containerStatuses: [{ name: 'app', state: { running: {} } }] },
    } as unknown as V1Pod,
    false,
  )
  await eventually(() => said.length > 0)
  expect(said).toEqual(['x'.repeat(16 * 1024)])
  logs.close()
  server.closeAllConnections()
  server.close()
})
