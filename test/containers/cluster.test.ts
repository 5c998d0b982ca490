// From an uploaded source to a pod: the control plane, the installation's registry and the agent's command. A real
// Podman builds the image and runs the pod's container.
import { execFile, spawn } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { promisify } from 'node:util'
import type { V1Deployment } from '@kubernetes/client-node'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { type Postgres, startPostgres } from '../../src/host/embedded-postgres.ts'
import { migrate } from '../../src/host/migrate.ts'
import { findFreePort } from '../../src/postgres/free-port.ts'
import { makeCertificate } from '../support/certificate.ts'
import { isListening, startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { KubernetesApi } from '../support/kubernetes-api.ts'
import { bringUpAutomatically } from '../support/kubernetes-pods.ts'
import { type Podman, startPodman } from '../support/podman.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const run = promisify(execFile)
const SERVE = 'exec httpd -f -p $PORT -h /app'
const root = makeTempFolder()
let podman: Podman
let postgres: Postgres
let registry: ReturnType<typeof spawn>
let cluster: KubernetesApi
let host: string
type Answer = {
  id: string
  upload_url: string
  object_path: string
  status: string
  resources: { status: string; status_message: string | null; source_revision_config: { image_uri?: string } }[]
}
let api: (method: string, path: string, body?: unknown) => Promise<Answer>

beforeAll(async () => {
  ;[podman, postgres, cluster] = await Promise.all([
    startPodman(),
    startPostgres({ dataDir: join(root, 'postgres'), durable: false }),
    new KubernetesApi().open(),
  ])
  await migrate(postgres.url, { log: () => {} })
  bringUpAutomatically(cluster)
  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  // Podman is configured to use plain HTTP for this one.
  host = podman.spareRegistry
  const writeFile = (name: string, text: string) => {
    fs.writeFileSync(join(root, name), text)
    return join(root, name)
  }
  const { key, cert } = makeCertificate('slipway')
  const rootcertbundle = writeFile('certificate.pem', cert)
  const registrySettings = {
    version: 0.1,
    log: { level: 'error' },
    http: { addr: host },
    storage: { filesystem: { rootdirectory: join(root, 'images') } },
    auth: { token: { realm: `${url}/v2/registry/token`, service: host, issuer: 'slipway', rootcertbundle } },
  }
  registry = spawn('docker-registry', ['serve', writeFile('registry.json', JSON.stringify(registrySettings))], {
    stdio: 'ignore',
  })
  const settings = {
    ALLOW_LOOPBACK: 'true',
    DATABASE_URL: postgres.url,
    SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
    PORT: String(port),
    SLIPWAY_HOME: root,
    REGISTRY_URL: `${host}/apps`,
    REGISTRY_SIGNING_KEY: key + cert,
  }
  const args = ['--organization', 'acme', '--email', 'a@example.com', '--platform-listener', 'platform']
  const bootstrap = startCommand('src/host/bootstrap.ts', args, settings)
  await bootstrap.exited
  const [apiKey, listenerKey] = bootstrap.output.out.match(/slw_\w+/g)!
  await startCommand('src/host/node.ts', [], settings).until(() => isListening(port))
  await waitFor(() => isListening(host.split(':')[1]!))
  api = async (method, path, body) => {
    const headers = { 'X-Api-Key': apiKey!, 'Content-Type': 'application/json' }
    const answer = await fetch(url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { ...((answer.status === 204 ? {} : await answer.json()) as Answer), status: String(answer.status) }
  }
  startCommand('src/agent/main.ts', ['--home', join(root, 'agent'), '--engine', 'kubernetes'], {
    SLIPWAY_URL: url,
    SLIPWAY_LISTENER_KEY: listenerKey!,
    KUBECONFIG: writeFile('config', cluster.config.exportConfig()),
    K8S_NAMESPACES: 'apps',
    K8S_DRAIN_SECONDS: '0',
    K8S_HTTP_REGISTRIES: host,
    K8S_BUILD_SOCKET: podman.socket,
    K8S_BUILD_BASE_IMAGE: podman.image,
  })
})
afterAll(async () => {
  await stopCommands()
  registry.kill()
  await Promise.all([podman.stop(), postgres.stop(), cluster.close()])
  fs.rmSync(root, { recursive: true })
})

async function uploadSource(id: string, files: Record<string, string>): Promise<string> {
  const folder = fs.mkdtempSync(join(root, 'source-'))
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(join(folder, name), text)
  const { stdout } = await run('tar', ['czf', '-', '-C', folder, '.'], { encoding: 'buffer' })
  const { upload_url, object_path } = await api('POST', `/v2/deployments/${id}/upload-url`)
  const headers = { 'Content-Type': 'application/gzip' }
  expect((await fetch(upload_url, { method: 'PUT', headers, body: Uint8Array.from(stdout) })).status).toBe(200)
  return object_path
}
const waitUntilSettled = (id: string) =>
  waitFor(async () => {
    const [newest] = (await api('GET', `/v2/deployments/${id}/revisions?limit=1`)).resources
    return newest && /DEPLOYED|FAILED/.test(newest.status) ? newest : undefined
  })

test('an uploaded archive becomes an image that only the pull Secret of its pods can pull', async () => {
  const sourceFields = { source_config: { resource_spec: { cpu: 0.1, memory_mb: 64 } }, source_revision_config: {} }
  const { id } = await api('POST', '/v2/deployments', {
    name: 'shop',
    source: 'internal_source',
    secrets: [],
    ...sourceFields,
  })
  const configuration = { start_command: SERVE, build_command: 'cp page index.html', env: { MODE: 'fast' } }
  const path = await uploadSource(id, { page: 'built', 'slipway.json': JSON.stringify(configuration) })
  await api('PATCH', `/v2/deployments/${id}`, { source_revision_config: { source_tarball_path: path } })
  const revision = await waitUntilSettled(id)
  expect([revision.status, revision.status_message]).toEqual(['DEPLOYED', null])
  const [deployment] = cluster.all('Deployment') as unknown as V1Deployment[]
  const { containers, imagePullSecrets } = deployment!.spec!.template.spec!
  const { image = '', command = [], env = [] } = containers[0]!
  expect(image).toMatch(new RegExp(`^${host}/apps/[0-9a-f-]{36}/${id}@sha256:[0-9a-f]{64}$`))
  expect(revision.source_revision_config.image_uri).toBe(image)

  await expect(podman.podman('pull', image)).rejects.toThrow(/unauthorized|authentication/i)
  const secret = cluster.get('Secret', imagePullSecrets![0]!.name!).data!['.dockerconfigjson']!
  const authfile = join(root, 'auth.json')
  fs.writeFileSync(authfile, Buffer.from(secret, 'base64'))
  await podman.podman('pull', '--authfile', authfile, image)
  const port = String(await findFreePort())
  const environment = env.flatMap(({ name, value = '' }) => ['--env', `${name}=${name === 'PORT' ? port : value}`])
  const restrictions = ['--cap-drop', 'all', '--security-opt', 'no-new-privileges', '--network', 'host']
  const [shell, ...args] = command
  await podman.podman(
    'run',
    '--detach',
    '--name',
    'pod',
    ...restrictions,
    ...environment,
    '--entrypoint',
    shell!,
    image,
    ...args,
  )
  const fetchPage = () => fetch(`http://127.0.0.1:${port}/index.html`).then(res => res.text())
  expect(await waitFor(() => fetchPage().catch(() => ''))).toBe('built')
  expect(await podman.podman('exec', 'pod', 'cat', '/proc/1/status')).toMatch(/^Uid:\s+1000/m)

  const [repository, tag] = [image.split('@')[0], deployment!.metadata!.labels!['slipway/revision-id']]
  const withImage = { ...sourceFields, source_revision_config: { image_uri: `${repository}:${tag}` } }
  const copy = await api('POST', '/v2/deployments', {
    name: 'copy',
    source: 'internal_container',
    secrets: [],
    ...withImage,
  })
  expect((await waitUntilSettled(copy.id)).source_revision_config.image_uri).toBe(image)

  await podman.podman('rm', '--force', '--time', '0', 'pod')
  for (const deploymentId of [id, copy.id]) {
    await api('DELETE', `/v2/deployments/${deploymentId}`)
    await waitFor(async () => (await api('GET', `/v2/deployments/${deploymentId}`)).status === '404')
  }
  expect(cluster.all()).toEqual([])
  expect(await podman.podman('volume', 'ls', '--quiet')).toBe('')
})
