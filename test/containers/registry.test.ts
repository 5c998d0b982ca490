// A real registry that trusts our tokens, and a real client that pushes to it, logged in with a push token.
import { execFile, spawn } from 'node:child_process'
import { createHash } from 'node:crypto'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, beforeAll, expect, test } from 'vitest'
import { migrate } from '../../src/host/migrate.ts'
import { freePort } from '../../src/host/ports.ts'
import { type Postgres, startPostgres } from '../../src/host/postgres.ts'
import { certificateFor } from '../support/certificate.ts'
import { command, eventually, listens, stopAll } from '../support/commands.ts'

const run = promisify(execFile)
const root = fs.mkdtempSync(join(tmpdir(), 'slipway-registry-'))
let postgres: Postgres
let registry: ReturnType<typeof spawn>
let host: string
type Answer = {
  id: string
  token: string
  registry_url: string
  source_revision_config: { image_uri: string }
}
let api: (method: string, path: string, body?: unknown) => Promise<Answer>

beforeAll(async () => {
  const [ourPort, registryPort] = [await freePort(), await freePort()]
  const url = `http://127.0.0.1:${ourPort}`
  host = `127.0.0.1:${registryPort}`
  const { key, cert } = certificateFor('slipway')
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
          ...{ realm: `${url}/v2/registry/token`, service: host, issuer: 'slipway' },
          rootcertbundle: join(root, 'certificate.pem'),
        },
      },
    }),
  )
  registry = spawn('docker-registry', ['serve', join(root, 'registry.json')], { stdio: 'ignore' })

  postgres = await startPostgres({ dataDir: join(root, 'postgres'), durable: false })
  await migrate(postgres.url, { log: () => {} })
  const settings = {
    ...{ DATABASE_URL: postgres.url, SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}` },
    ...{ PORT: String(ourPort), SLIPWAY_HOME: root, REGISTRY_URL: `${host}/apps`, REGISTRY_SIGNING_KEY: key + cert },
  }
  const operator = command('src/host/bootstrap.ts', ['--organization', 'Acme', '--email', 'a@example.com'], settings)
  await operator.exited
  const apiKey = operator.said.out.match(/slw_\w+/)![0]
  await command('src/host/node.ts', [], settings).until(() => listens(ourPort))
  await eventually(() => listens(registryPort))
  const headers = { 'X-Api-Key': apiKey, 'Content-Type': 'application/json' }
  api = async (method, path, body) =>
    (await (
      await fetch(url + path, { method, headers, ...(body !== undefined && { body: JSON.stringify(body) }) })
    ).json()) as Answer
})
afterAll(async () => {
  registry.kill()
  await stopAll()
  await postgres.stop()
  fs.rmSync(root, { recursive: true })
})

/** An image with one empty layer. */
function image(): string {
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
  const named = { ...manifest, annotations: { 'org.opencontainers.image.ref.name': 'latest' } }
  fs.writeFileSync(join(folder, 'oci-layout'), '{"imageLayoutVersion":"1.0.0"}')
  fs.writeFileSync(join(folder, 'index.json'), JSON.stringify({ schemaVersion: 2, manifests: [named] }))
  return `oci:${folder}:latest`
}

const created = async (name: string) =>
  api('POST', '/v2/deployments', {
    ...{ name, source: 'internal_container', source_config: {}, source_revision_config: {}, secrets: [] },
  })
const offered = ({ id }: { id: string }) => api('POST', `/v2/deployments/${id}/push-token`)
const push = (to: string, token: string) =>
  run('skopeo', ['copy', '--dest-tls-verify=false', '--dest-creds', `slipway:${token}`, image(), `docker://${to}`])

test('an image is pushed with the token of its deployment, and becomes what is wanted', async () => {
  const deployment = await created('pushed')
  const { token, registry_url } = await offered(deployment)
  const name = `${registry_url}/web:1.0`
  await push(name, token)
  const read = ['inspect', '--tls-verify=false', '--format', '{{.Digest}}', `docker://${name}`]
  const { stdout } = await run('skopeo', [...read, '--creds', `slipway:${token}`])
  expect(stdout.trim()).toMatch(/^sha256:[0-9a-f]{64}$/)
  await expect(run('skopeo', [...read, '--no-creds'])).rejects.toThrow(/unauthorized|authentication/i)
  const patched = await api('PATCH', `/v2/deployments/${deployment.id}`, {
    source_revision_config: { image_uri: name },
  })
  expect(patched.source_revision_config.image_uri).toBe(name)
})

test('the token of one deployment pushes to no other', async () => {
  const [own, other] = [await offered(await created('one')), await offered(await created('other'))]
  await expect(push(`${other.registry_url}/web:1.0`, own.token)).rejects.toThrow(/denied|unauthorized/i)
  await expect(push(`${host}/apps/web:1.0`, own.token)).rejects.toThrow(/denied|unauthorized/i)
  await expect(push(`${own.registry_url}/web:1.0`, `${own.token}x`)).rejects.toThrow(/unauthorized|authentication/i)
  await push(`${own.registry_url}/web:1.0`, own.token)
})
