// `slipway log-archives set`, in this process.
import { afterEach, expect, it } from 'vitest'
import { serveApp } from '../support/cli.ts'
import { startHere } from '../support/cli-here.ts'
import { startServing } from '../support/jobs.ts'

afterEach(() => {
  process.exitCode = undefined
})

it('sets whether lines are archived, for the workspace and for a deployment', async () => {
  const { url } = await serveApp()
  const { tenant, path } = await startServing()
  const { name } = (await tenant.get(path)).body
  const run = (...args: string[]) => startHere({ url, key: tenant.key }, ['log-archives', 'set', ...args]).ended
  const ofWorkspace = async () => (await tenant.get('/v2/log-archive-settings')).body
  const ofDeployment = async () => (await tenant.get(`${path}/log-archive-settings`)).body

  expect((await run('--on', '--days', '20')).objects).toEqual([{ settings: { enabled: true, retention_days: 20 } }])
  expect(await ofWorkspace()).toEqual({ enabled: true, retention_days: 20 })
  expect((await run(name, '--days', '7')).objects).toEqual([{ name, settings: await ofDeployment() }])
  expect(await ofDeployment()).toMatchObject({ enabled: null, retention_days: 7 })
  await run(name, '--off')
  expect(await ofDeployment()).toMatchObject({ enabled: false, retention_days: 7 })
  await run(name, '--inherit')
  expect(await ofDeployment()).toMatchObject({ enabled: null, effective: await ofWorkspace() })

  for (const wrong of [['--on', '--off'], ['--inherit'], [name, '--inherit', '--days', '3'], ['--days', 'x']])
    expect((await run(...wrong)).code).toBe(2)
  expect((await run()).objects).toEqual([{ settings: { enabled: true, retention_days: 20 } }])
})
