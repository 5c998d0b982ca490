// The control plane on Node, a real database, the agent's command and a real Podman together.
import * as fs from 'node:fs'
import { afterAll, afterEach, beforeAll, expect, test } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { isListening, startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { type Podman, startPodman } from '../support/podman.ts'
import { makeTempFolder, requestRouter } from '../support/process-engine.ts'

let podman: Podman
let postgres: Postgres
let root: string

beforeAll(async () => {
  root = makeTempFolder()
  ;[podman, postgres] = await Promise.all([
    startPodman(),
    startPostgres({ dataDir: `${root}/postgres`, durable: false }),
  ])
  await migrate(postgres.url, { log: () => {} })
})
afterEach(stopCommands)
afterAll(async () => {
  await Promise.all([podman.stop(), postgres.stop()])
  fs.rmSync(root, { recursive: true, force: true })
})

type Revision = { id: string; status: string; status_message: string | null }
type Answer = {
  id: string
  key: string
  url: string | null
  latest_revision_id: string
  active_revision_id: string | null
  resources: Revision[]
  logs: { message: string }[]
}

/** Starts a control plane in this mode. `api` sends requests with all permissions. */
async function startInstallation(mode: 'saas' | 'self_hosted') {
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const settings = {
    ALLOW_LOOPBACK: 'true',
    DATABASE_URL: postgres.url,
    SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
    PORT: String(port),
    SLIPWAY_HOME: `${root}/${mode}`,
    SLIPWAY_MODE: mode,
  }
  const args = ['--organization', mode, '--email', `${mode}@example.com`]
  const bootstrap = startCommand('src/host/bootstrap.ts', [...args, '--platform-listener', mode], settings)
  await bootstrap.exited
  const [apiKey, listenerKey] = bootstrap.output.out.match(/slw_\w+/g)!
  const node = startCommand('src/host/node.ts', [], settings)
  await node.until(() => isListening(port))
  const api = async (method: string, path: string, body?: unknown) => {
    const headers = { 'X-Api-Key': apiKey!, 'Content-Type': 'application/json' }
    const answer = await fetch(url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { status: answer.status, body: (answer.status === 204 ? {} : await answer.json()) as Answer }
  }
  const startAgent = async (key = listenerKey!) => {
    const settings = { SLIPWAY_URL: url, SLIPWAY_LISTENER_KEY: key, CONTAINER_SOCKET: podman.socket }
    const port = String(await findFreePort())
    return startCommand(
      'src/agent/main.ts',
      ['--home', `${root}/${mode}/agent`, '--engine', 'container', '--port', port, '--stop'],
      settings,
    )
  }
  /** Returns the newest revision once it is deployed or has failed. */
  const waitUntilSettled = (id: string) =>
    waitFor(async () => {
      const { body } = await api('GET', `/v2/deployments/${id}/revisions?limit=1`)
      const newest = body.resources[0]!
      return /DEPLOYED|FAILED/.test(newest.status) ? newest : undefined
    })
  return { api, startAgent, waitUntilSettled }
}
const SMALL = { cpu: 0.1, memory_mb: 64 }
const makeBody = (name: string, source: string, image_uri: string, more = {}) => ({
  name,
  source,
  source_config: { resource_spec: SMALL, ...more },
  source_revision_config: { image_uri },
  secrets: [{ name: 'TEXT', value: 'hush' }],
})
const listContainers = (id: string) =>
  podman.podman('ps', '--all', '--quiet', '--filter', `label=slipway.deployment=${id}`)

test('an internal_container is served through a failed revision and a killed agent, updated, and deleted', async () => {
  const { api, startAgent, waitUntilSettled } = await startInstallation('saas')
  const first = await startAgent()
  const { id } = (await api('POST', '/v2/deployments', makeBody('shop', 'internal_container', podman.image))).body
  expect(await waitUntilSettled(id)).toMatchObject({ status: 'DEPLOYED' })
  const deployed = (await api('GET', `/v2/deployments/${id}`)).body
  expect(deployed).toMatchObject({ active_revision_id: deployed.latest_revision_id })
  const url = deployed.url!
  const oldBody = (await requestRouter(url)).body
  expect((await requestRouter(url, '/health')).body).toBe('well\n')

  const missing = `${podman.registry}/nothing:1`
  await api('PATCH', `/v2/deployments/${id}`, { source_revision_config: { image_uri: missing } })
  const failed = await waitUntilSettled(id)
  expect(failed).toMatchObject({ status: 'DEPLOY_FAILED' })
  expect(failed.status_message).toContain(`The image ${missing} does not exist`)
  expect((await requestRouter(url)).body).toBe(oldBody)

  await first.stop('SIGKILL')
  expect((await requestRouter(url)).body).toBe(oldBody)
  await startAgent()
  await api('PATCH', `/v2/deployments/${id}`, { source_revision_config: { image_uri: podman.image } })
  expect(await waitUntilSettled(id)).toMatchObject({ status: 'DEPLOYED' })
  const newBody = (await requestRouter(url)).body
  expect(newBody).not.toBe(oldBody)
  await waitFor(async () => (await listContainers(id)).split('\n').length === 1)
  expect((await requestRouter(url)).body).toBe(newBody)

  const { latest_revision_id } = (await api('GET', `/v2/deployments/${id}`)).body
  const logs = `/v1/projects/${id}/revisions/${latest_revision_id}/deploy_logs`
  await waitFor(async () =>
    (await api('POST', logs, { limit: 100, order: 'asc' })).body.logs.some(({ message }) =>
      message.includes('response:200'),
    ),
  )
  expect((await api('DELETE', `/v2/deployments/${id}`)).status).toBe(204)
  await waitFor(async () => (await api('GET', `/v2/deployments/${id}`)).status === 404)
  expect(await listContainers(id)).toBe('')
})

test('an external_container is served by a listener that the workspace registered', async () => {
  const { api, startAgent, waitUntilSettled } = await startInstallation('self_hosted')
  const listener = (await api('POST', '/v2/listeners', { compute_type: 'local', compute_id: 'machine' })).body
  const { key } = (await api('POST', `/v2/listeners/${listener.id}/keys`, { description: 'agent' })).body
  await startAgent(key)
  const deployment = makeBody('tool', 'external_container', podman.image, { listener_id: listener.id })
  const { id } = (await api('POST', '/v2/deployments', deployment)).body
  expect(await waitUntilSettled(id)).toMatchObject({ status: 'DEPLOYED' })
  const { url } = (await api('GET', `/v2/deployments/${id}`)).body
  expect((await requestRouter(url!, '/health')).body).toBe('well\n')
  await api('DELETE', `/v2/deployments/${id}`)
  await waitFor(async () => (await api('GET', `/v2/deployments/${id}`)).status === 404)
})
