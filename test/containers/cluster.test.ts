// The whole way of what has to be built for a cluster: the control plane, its own registry, the agent as the program it is, a real Podman, and a pod's part played by it.
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
  // Podman takes that one over plain http.
  host = podman.spareRegistry
  const file = (name: string, text: string) => {
    fs.writeFileSync(join(root, name), text)
    return join(root, name)
  }
  const { key, cert } = makeCertificate('slipway')
  const rootcertbundle = file('certificate.pem', cert)
  const serving = {
    ...{ version: 0.1, log: { level: 'error' }, http: { addr: host } },
    storage: { filesystem: { rootdirectory: join(root, 'images') } },
    auth: { token: { realm: `${url}/v2/registry/token`, service: host, issuer: 'slipway', rootcertbundle } },
  }
  registry = spawn('docker-registry', ['serve', file('registry.json', JSON.stringify(serving))], { stdio: 'ignore' })
  const settings = {
    ...{
      ALLOW_LOOPBACK: 'true',
      DATABASE_URL: postgres.url,
      SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
    },
    ...{ PORT: String(port), SLIPWAY_HOME: root, REGISTRY_URL: `${host}/apps`, REGISTRY_SIGNING_KEY: key + cert },
  }
  const people = ['--organization', 'acme', '--email', 'a@example.com', '--platform-listener', 'platform']
  const operator = startCommand('src/host/bootstrap.ts', people, settings)
  await operator.exited
  const [own, listener] = operator.output.out.match(/slw_\w+/g)!
  await startCommand('src/host/node.ts', [], settings).until(() => isListening(port))
  await waitFor(() => isListening(host.split(':')[1]!))
  api = async (method, path, body) => {
    const headers = { 'X-Api-Key': own!, 'Content-Type': 'application/json' }
    const answer = await fetch(url + path, {
      method,
      headers,
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    return { ...((answer.status === 204 ? {} : await answer.json()) as Answer), status: String(answer.status) }
  }
  startCommand('src/agent/main.ts', ['--home', join(root, 'agent'), '--engine', 'kubernetes'], {
    ...{ SLIPWAY_URL: url, SLIPWAY_LISTENER_KEY: listener!, KUBECONFIG: file('config', cluster.config.exportConfig()) },
    ...{ K8S_NAMESPACES: 'apps', K8S_DRAIN_SECONDS: '0', K8S_HTTP_REGISTRIES: host },
    ...{ K8S_BUILD_SOCKET: podman.socket, K8S_BUILD_BASE_IMAGE: podman.image },
  })
})
afterAll(async () => {
  await stopCommands()
  registry.kill()
  await Promise.all([podman.stop(), postgres.stop(), cluster.close()])
  fs.rmSync(root, { recursive: true })
})

async function uploadSource(id: string, files: Record<string, string>): Promise<string> {
  const at = fs.mkdtempSync(join(root, 'source-'))
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(join(at, name), text)
  const { stdout } = await run('tar', ['czf', '-', '-C', at, '.'], { encoding: 'buffer' })
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

test('an archive becomes an image of the installation’s registry, which pods pull with what they are given, and nobody else', async () => {
  const wanted = { source_config: { resource_spec: { cpu: 0.1, memory_mb: 64 } }, source_revision_config: {} }
  const { id } = await api('POST', '/v2/deployments', {
    name: 'shop',
    source: 'internal_source',
    secrets: [],
    ...wanted,
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
  const given = env.flatMap(({ name, value = '' }) => ['--env', `${name}=${name === 'PORT' ? port : value}`])
  const confines = ['--cap-drop', 'all', '--security-opt', 'no-new-privileges', '--network', 'host']
  const [shell, ...args] = command
  await podman.podman('run', '--detach', '--name', 'pod', ...confines, ...given, '--entrypoint', shell!, image, ...args)
  const answer = () => fetch(`http://127.0.0.1:${port}/index.html`).then(res => res.text())
  expect(await waitFor(() => answer().catch(() => ''))).toBe('built')
  expect(await podman.podman('exec', 'pod', 'cat', '/proc/1/status')).toMatch(/^Uid:\s+1000/m)

  const [repository, tag] = [image.split('@')[0], deployment!.metadata!.labels!['slipway/revision-id']]
  const named = { ...wanted, source_revision_config: { image_uri: `${repository}:${tag}` } }
  const other = await api('POST', '/v2/deployments', {
    name: 'copy',
    source: 'internal_container',
    secrets: [],
    ...named,
  })
  expect((await waitUntilSettled(other.id)).source_revision_config.image_uri).toBe(image)

  await podman.podman('rm', '--force', '--time', '0', 'pod')
  for (const one of [id, other.id]) {
    await api('DELETE', `/v2/deployments/${one}`)
    await waitFor(async () => (await api('GET', `/v2/deployments/${one}`)).status === '404')
  }
  expect(cluster.all()).toEqual([])
  expect(await podman.podman('volume', 'ls', '--quiet')).toBe('')
})
