// `slipway request-logs` and `slipway logs --requests`, in this process, with an agent that the test drives.
import { afterEach, expect, it, vi } from 'vitest'
import { DEFAULT_REQUEST_LOGS } from '../../src/protocol/defaults.ts'
import { CLOSED_POLICY } from '../../src/protocol/listener-policy.ts'
import { serveApp } from '../support/cli.ts'
import { startHere } from '../support/cli-here.ts'
import { startServing } from '../support/jobs.ts'

afterEach(() => {
  process.exitCode = undefined
  vi.restoreAllMocks()
})

it('sets which requests become lines, and shows those alone', async () => {
  const { url } = await serveApp()
  const { tenant, agent, id, path, revision } = await startServing({
    ...CLOSED_POLICY,
    features: ['images', 'request_logs'],
  })
  const { name } = (await tenant.get(path)).body
  const run = (...args: string[]) => startHere({ url, key: tenant.key }, args).ended
  const stored = async () => (await tenant.get(path)).body.request_logs
  const sampled = { ...DEFAULT_REQUEST_LOGS, rate: 5, slow_ms: 500 }
  const set = await run('request-logs', name, 'sampled', '--rate', '5', '--slow', '500')
  expect([set.error, set.objects, await stored()]).toEqual([undefined, [{ name, request_logs: sampled }], sampled])
  expect((await run('request-logs', name, 'errors')).objects).toEqual([
    { name, request_logs: { ...sampled, mode: 'errors' } },
  ])
  expect((await run('request-logs', name)).objects).toEqual([{ name, request_logs: await stored() }])
  for (const wrong of [['most'], ['all', '--rate', 'x']])
    expect((await run('request-logs', name, ...wrong)).code).toBe(2)
  expect(await stored()).toEqual({ ...sampled, mode: 'errors' })

  const { agent_id, fence } = agent
  const send = (kind: string, message: string) => {
    const lines = [{ timestamp: '2026-01-01T00:00:00.000Z', level: 'ERROR', message }]
    const about = { deployment_id: id, revision_id: revision, kind, stream: crypto.randomUUID(), from: 0 }
    return agent.post('/v1/sync/logs', { agent_id, fence, ...about, lines })
  }
  await send('deploy', 'It listens.')
  await send('request', 'GET /cart 500 3 ms')
  const messages = async (...args: string[]) => (await run('logs', name, ...args)).objects.map(({ message }) => message)
  expect(await messages('--requests')).toEqual(['GET /cart 500 3 ms'])
  expect(await messages('--requests', '--query', '/basket')).toEqual([])
  expect(await messages()).toEqual(['It listens.'])
  expect((await run('logs', name, '--requests', '--build')).code).toBe(2)
})
