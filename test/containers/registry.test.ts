// A real registry accepts the control plane's tokens, a client pushes to it, and an agent runs the pushed images.
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { makeCertificate } from '../support/certificate.ts'
import { type Command, isListening, startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { type Podman, startPodman } from '../support/podman.ts'
import { requestRouter } from '../support/process-engine.ts'

const run = promisify(execFile)
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-registry-'))
let podman: Podman
let postgres: Postgres
let startAgent: () => Command
let agent: Command
let registry: ReturnType<typeof spawn>
let host: string
type Answer = {
  id: string
  token: string
  registry_url: string
  url: string
  source_revision_config: { image_uri: string }
  resources: { status: string; status_message: string | null }[]
}
let api: (method: string, path: string, body?: unknown) => Promise<Answer>
/** Sends the key of another workspace. */
let otherWorkspaceApi: typeof api

beforeAll(async () => {
  podman = await startPodman()
  const [port, agentPort] = [await findFreePort(), await findFreePort()]
  const url = `http://127.0.0.1:${port}`
  // Podman is configured to use plain HTTP for this one.
  host = podman.spareRegistry
  const { key, cert } = makeCertificate('slipway')
  fs.writeFileSync(join(root, 'certificate.pem'), cert)
  fs.writeFileSync(
    join(root, 'registry.json'),
    JSON.stringify({
      version: 0.1,
      log: { level: 'error' },
      storage: { filesystem: { rootdirectory: join(root, 'images') } },
      http: { addr: host },
      auth: {
        token: {
          realm: `${url}/v2/registry/token`,
          service: host,
          issuer: 'slipway',
          rootcertbundle: join(root, 'certificate.pem'),
        },
      },
    }),
  )
  registry = spawn('docker-registry', ['serve', join(root, 'registry.json')], { stdio: 'ignore' })

  postgres = await startPostgres({ dataDir: join(root, 'postgres'), durable: false })
  await migrate(postgres.url, { log: () => {} })
  const settings = {
    ALLOW_LOOPBACK: 'true',
    DATABASE_URL: postgres.url,
    SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
    PORT: String(port),
    SLIPWAY_HOME: root,
    REGISTRY_URL: `${host}/apps`,
    REGISTRY_SIGNING_KEY: key + cert,
  }
  const bootstrap = async (name: string, more: string[] = []) => {
    const command = startCommand(
      'src/host/bootstrap.ts',
      ['--organization', name, '--email', `${name}@x.org`, ...more],
      settings,
    )
    await command.exited
    return command.output.out.match(/slw_\w+/g)!
  }
  const [apiKey, listenerKey] = await bootstrap('acme', ['--platform-listener', 'platform'])
  const [otherApiKey] = await bootstrap('other')
  await startCommand('src/host/node.ts', [], settings).until(() => isListening(port))
  await waitFor(() => isListening(host.split(':')[1]!))
  const createApi = (key: string) => async (method: string, path: string, body?: unknown) => {
    const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
    const init = { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) }
    return (await (await fetch(url + path, init)).json()) as Answer
  }
  api = createApi(apiKey!)
  otherWorkspaceApi = createApi(otherApiKey!)
  const args = ['--home', join(root, 'agent'), '--engine', 'container', '--port', String(agentPort), '--stop']
  const agentSettings = { SLIPWAY_URL: url, SLIPWAY_LISTENER_KEY: listenerKey!, CONTAINER_SOCKET: podman.socket }
  startAgent = () => startCommand('src/agent/main.ts', args, agentSettings)
  agent = startAgent()
})
afterAll(async () => {
  await stopCommands()
  registry.kill()
  await Promise.all([podman.stop(), postgres.stop()])
  fs.rmSync(root, { recursive: true })
})

/** Writes an image with one empty layer. */
function writeImage(): string {
  const folder = join(root, 'image')
  const blobs = join(folder, 'blobs/sha256')
  fs.mkdirSync(blobs, { recursive: true })
  const blob = (mediaType: string, content: unknown) => {
    const bytes = Buffer.isBuffer(content) ? content : Buffer.from(JSON.stringify(content))
    const hex = createHash('sha256').update(bytes).digest('hex')
    fs.writeFileSync(join(blobs, hex), bytes)
    return { mediaType, digest: `sha256:${hex}`, size: bytes.byteLength }
  }
  const type = (name: string) => `application/vnd.oci.image.${name}`
  const layer = blob(type('layer.v1.tar'), Buffer.alloc(1024))
  const rootfs = { type: 'layers', diff_ids: [layer.digest] }
  const config = blob(type('config.v1+json'), { architecture: 'amd64', os: 'linux', rootfs })
  const manifest = blob(type('manifest.v1+json'), { schemaVersion: 2, config, layers: [layer] })
  const namedManifest = { ...manifest, annotations: { 'org.opencontainers.image.ref.name': 'latest' } }
  fs.writeFileSync(join(folder, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  fs.writeFileSync(join(folder, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [namedManifest] }))
  return `oci:${folder}:latest`
}

const createDeployment = async (name: string, source_revision_config = {}, call = api) =>
  call('POST', '/v2/deployments', {
    name,
    source: 'internal_container',
    source_revision_config,
    secrets: [],
    source_config: { resource_spec: { cpu: 0.1, memory_mb: 64 } },
  })
const requestPushToken = ({ id }: { id: string }) => api('POST', `/v2/deployments/${id}/push-token`)
const push = (to: string, token: string) =>
  run('skopeo', ['copy', '--dest-tls-verify=false', '--dest-creds', `slipway:${token}`, writeImage(), `docker://${to}`])

test('an image is pushed and read with the push token of its deployment, which can then be updated to it', async () => {
  const deployment = await createDeployment('pushed')
  const { token, registry_url } = await requestPushToken(deployment)
  const name = `${registry_url}/web:1.0`
  await push(name, token)
  const inspect = ['inspect', '--tls-verify=false', '--format', '{{.Digest}}', `docker://${name}`]
  const { stdout } = await run('skopeo', [...inspect, '--creds', `slipway:${token}`])
  expect(stdout.trim()).toMatch(/^sha256:[0-9a-f]{64}$/)
  await expect(run('skopeo', [...inspect, '--no-creds'])).rejects.toThrow(/unauthorized|authentication/i)
  const patched = await api('PATCH', `/v2/deployments/${deployment.id}`, {
    source_revision_config: { image_uri: name },
  })
  expect(patched.source_revision_config.image_uri).toBe(name)
})

test('a push token of one deployment is refused for the repositories of others', async () => {
  const [own, other] = [
    await requestPushToken(await createDeployment('one')),
    await requestPushToken(await createDeployment('other')),
  ]
  await expect(push(`${other.registry_url}/web:1.0`, own.token)).rejects.toThrow(/denied|unauthorized/i)
  await expect(push(`${host}/apps/web:1.0`, own.token)).rejects.toThrow(/denied|unauthorized/i)
  await expect(push(`${own.registry_url}/web:1.0`, `${own.token}x`)).rejects.toThrow(/unauthorized|authentication/i)
  await push(`${own.registry_url}/web:1.0`, own.token)
})

/** Returns the newest revision once it is deployed or has failed, with the URL of the deployment. */
const waitUntilSettled = ({ id }: { id: string }, call = api) =>
  waitFor(async () => {
    const [newest] = (await call('GET', `/v2/deployments/${id}/revisions?limit=1`)).resources
    if (!/DEPLOYED|FAILED/.test(newest!.status)) return undefined
    const { url } = await call('GET', `/v2/deployments/${id}`)
    return { ...newest!, url }
  })
const isHealthy = async (url: string) => (await requestRouter(url, '/health')).body === 'well\n'

test('a pushed image runs only in its workspace, also after the loss of agent, containers and images', async () => {
  const shop = await createDeployment('shop')
  const { token, registry_url } = await requestPushToken(shop)
  const image_uri = `${registry_url}/web:1.0`
  const to = ['--dest-tls-verify=false', '--dest-creds', `slipway:${token}`, `docker://${image_uri}`]
  await run('skopeo', ['copy', '--src-tls-verify=false', `docker://${podman.image}`, ...to])
  await api('PATCH', `/v2/deployments/${shop.id}`, { source_revision_config: { image_uri } })
  const { url, ...deployed } = await waitUntilSettled(shop)
  expect([deployed.status, deployed.status_message]).toEqual(['DEPLOYED', null])
  expect(await isHealthy(url)).toBe(true)

  await agent.stop('SIGKILL')
  await podman.podman('rmi', '--all', '--force')
  expect(await podman.podman('images', '--quiet')).toBe('')
  agent = startAgent()
  await waitFor(() => isHealthy(url).catch(() => false))

  const copy = await createDeployment('copy', { image_uri })
  expect((await waitUntilSettled(copy)).status).toBe('DEPLOYED')
  const foreign = await createDeployment('foreign', { image_uri }, otherWorkspaceApi)
  expect(await waitUntilSettled(foreign, otherWorkspaceApi)).toMatchObject({
    status: 'DEPLOY_FAILED',
    status_message: expect.stringContaining(image_uri),
  })
  const { stdout } = await run('grep', ['-rlE', 'slwr\\.', join(root, 'agent')]).catch(error => error)
  expect([stdout, agent.output.out.includes('slwr.')]).toEqual(['', false])
})
