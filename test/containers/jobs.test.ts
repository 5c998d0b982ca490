// Jobs in containers of a real Podman, by an agent and a fake control plane: run, found again, lost, cancelled.
import { randomUUID } from 'node:crypto'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { ContainerEngine } from '../../src/agent/engines/container.ts'
import { waitFor } from '../support/commands.ts'
import { setUpContainerEngines } from '../support/container-engine.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { type Podman, startPodman } from '../support/podman.ts'
import { closeAgents, runAgent } from '../support/process-engine.ts'

let podman: Podman
let control: ControlPlane
const pods = setUpContainerEngines(() => podman)
beforeAll(async () => {
  podman = await startPodman()
})
afterAll(() => podman.stop())
beforeEach(async () => {
  pods.begin()
  control = await startControlPlane()
})
afterEach(async () => {
  await closeAgents()
  await control.stop()
  await pods.end()
})

function startAgent() {
  const agent = new Agent({
    agent_id: 'agent-1',
    version: 'test',
    home: pods.home,
    engine: new ContainerEngine(pods.options),
    wait: 5,
    control: createControlPlaneClient({ url: control.url, key: 'key' }),
    logToOperator: () => {},
  })
  runAgent(agent)
  return agent
}
const endOf = (job: string) =>
  waitFor(() => control.jobReports.find(one => one.job_id === job && one.state !== 'running'))
const statesOf = (job: string) => control.jobReports.filter(one => one.job_id === job).map(({ state }) => state)
const linesOf = (job: string) => control.logs.filter(({ of }) => of === job).map(({ message }) => message)
const containersOf = async (job: string) =>
  (await podman.podman('ps', '--all', '--quiet', '--filter', `label=slipway.copy=${job}`)).split('\n').filter(Boolean)

test('jobs run in containers, outlive their agent, and are lost with their container', async () => {
  const first = startAgent()
  const id = randomUUID()
  const revision = control.want(
    id,
    { source: 'internal_container', image_uri: podman.image },
    { secrets: { GREETING: 'hello there' } },
  )
  await waitFor(() => control.reportedStates(revision).includes('deployed'))

  const job = control.wantJob(id, ['sh', '-c', 'echo "$GREETING $SLIPWAY_ROLE $PORT."; exit 3'])
  expect(await endOf(job)).toMatchObject({ state: 'failed', exit_code: 3, revision_id: revision })
  expect(linesOf(job)).toEqual(['******** run .'])
  const asWeb = control.wantJob(id, 'echo $SLIPWAY_ROLE', { process: 'web' })
  expect(await endOf(asWeb)).toMatchObject({ state: 'succeeded' })
  expect(linesOf(asWeb)).toEqual(['web'])
  const unknown = control.wantJob(id, 'true', { process: 'worker' })
  expect(await endOf(unknown)).toMatchObject({ state: 'failed', reason: expect.stringContaining('worker') })
  const late = control.wantJob(id, 'sleep 60', { timeout_seconds: 1 })
  expect(await endOf(late)).toMatchObject({ state: 'timed_out' })
  for (const ended of [job, asWeb, late]) await waitFor(async () => (await containersOf(ended)).length === 0)

  const [kept, removed, cancelled] = ['sleep 5; echo over', 'sleep 60', 'sleep 60'].map(command =>
    control.wantJob(id, `echo begun; ${command}`),
  ) as [string, string, string]
  for (const running of [kept, removed, cancelled]) await waitFor(() => linesOf(running).includes('begun'))
  await first.close({ stop: false })
  await podman.podman('rm', '--force', '--time', '0', ...(await containersOf(removed)))
  control.cancelJob(cancelled)
  startAgent()
  expect(await endOf(removed)).toMatchObject({ state: 'lost' })
  expect(await endOf(cancelled)).toMatchObject({ state: 'cancelled' })
  expect(await endOf(kept)).toMatchObject({ state: 'succeeded', exit_code: 0 })
  expect(linesOf(kept)).toEqual(['begun', 'over'])
  expect(statesOf(removed)).toEqual(['running', 'lost'])
  expect(linesOf(removed)).toEqual(['begun'])
})
