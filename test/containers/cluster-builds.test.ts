// Images for a cluster: a real Podman builds them, pushes them to a registry and runs them as restricted as a pod.
import { execFile } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { afterAll, afterEach, beforeAll, beforeEach, expect, test } from 'vitest'
import { NO_EVENTS, type SourceTree } from '../../src/agent/engine.ts'
import { KubernetesEngine } from '../../src/agent/engines/kubernetes.ts'
import { waitFor } from '../support/commands.ts'
import { KubernetesApi } from '../support/kubernetes-api.ts'
import {
  DEPLOYMENT_ID,
  makeKubernetesSettings,
  makeKubernetesUnit,
  makeRevisionId,
} from '../support/kubernetes-fixtures.ts'
import { type Podman, startPodman } from '../support/podman.ts'
import { makeTempFolder } from '../support/process-engine.ts'

const SERVE = 'exec httpd -f -p $PORT -h /app'
let podman: Podman
let api: KubernetesApi
let home: string
const engines: KubernetesEngine[] = []

beforeAll(async () => {
  podman = await startPodman()
})
afterAll(() => podman.stop())
beforeEach(async () => {
  home = makeTempFolder()
  api = await new KubernetesApi().open()
})
afterEach(async () => {
  for (const engine of engines.splice(0)) {
    await engine.remove(DEPLOYMENT_ID)
    await engine.close()
  }
  await api.close()
  fs.rmSync(home, { recursive: true })
})

async function open(more: Record<string, string> = {}) {
  const settings = makeKubernetesSettings({
    K8S_BUILD_SOCKET: podman.socket,
    K8S_BUILD_BASE_IMAGE: podman.image,
    K8S_BUILD_REGISTRY: `${podman.registry}/built`,
    K8S_HTTP_REGISTRIES: podman.registry,
    ...more,
  })
  const engine = new KubernetesEngine({ settings, config: api.config, pause_ms: 2, agent_id: 'one' })
  await engine.open(NO_EVENTS)
  engines.push(engine)
  return engine
}
const unit = (number = 1) =>
  makeKubernetesUnit({ number, source: 'internal_source', image_uri: null, secrets: { TOKEN: 'hush' } })
function tree(files: Record<string, string>, more: Partial<SourceTree> = {}): SourceTree {
  const folder = fs.mkdtempSync(join(home, 'tree-'))
  for (const [name, text] of Object.entries(files)) fs.writeFileSync(join(folder, name), text)
  const configuration = { start_command: null, health_path: null, install_command: null, build_command: null }
  const found = { folder, commit: null, version: null, configuration_path: null, env: { MODE: 'fast' } }
  return { ...found, ...configuration, ...more }
}
const lines: string[] = []
const task = (signal = new AbortController().signal) => ({
  log: (line: string) => void lines.push(line),
  signal,
  cache: home,
  runningFolder: home,
})
const rejectionOf = (work: Promise<unknown>) =>
  work.then(
    () => 'nothing failed',
    (error: Error) => `${error.name}: ${error.message}`,
  )
const listImages = async () =>
  (await podman.podman('images', '--format', '{{.Repository}}:{{.Tag}}', '--filter', 'label=slipway.owner'))
    .split('\n')
    .filter(Boolean)

test('a source without a Dockerfile is built in the base image, and its image does not run as root', async () => {
  const engine = await open()
  const files = tree({ page: 'built' }, { build_command: 'cp page index.html', start_command: SERVE })
  const artifact = await engine.prepare(unit(), files, task())
  expect(artifact).toMatchObject({ start_command: SERVE, env: { MODE: 'fast' } })
  expect(artifact.location).toMatch(new RegExp(`^${podman.registry}/built/${DEPLOYMENT_ID}@sha256:[0-9a-f]{64}$`))
  await engine.start(unit(), artifact)
  const [app] = api.get('Deployment', 'shop-aaaaaaaa00-r1').spec.template.spec.containers
  expect(app).toMatchObject({ image: artifact.location, command: ['/bin/sh', '-c', SERVE] })

  await podman.podman('pull', '--tls-verify=false', artifact.location)
  const user = await podman.podman('inspect', artifact.location, '--format', '{{.Config.User}}')
  expect(user).toBe('1000:1000')
  // Another deployment can start the same image without a start command.
  const startCommand = await podman.podman(
    'inspect',
    artifact.location,
    '--format',
    '{{json .Config.Entrypoint}} {{json .Config.Cmd}}',
  )
  expect(startCommand).toBe(`["/bin/sh","-c"] ${JSON.stringify([SERVE])}`)
  const name = `run-${randomUUID()}`
  const limits = ['--cap-drop', 'all', '--security-opt', 'no-new-privileges', '--network', 'host']
  const port = podman.spareRegistry.split(':')[1]!
  await podman.podman(
    'run',
    '--detach',
    '--name',
    name,
    ...limits,
    '--env',
    `PORT=${port}`,
    '--entrypoint',
    '["/bin/sh","-c"]',
    artifact.location,
    SERVE,
  )
  const execute = (command: string) => podman.podman('exec', name, '/bin/sh', '-c', command)
  expect(await waitFor(() => execute('wget -qO- http://127.0.0.1:$PORT/index.html').catch(() => ''))).toBe('built')
  expect(await execute('echo a > $TMPDIR/a && echo b > $HOME/b && echo c > c && pwd && echo $HOME')).toBe(
    '/app\n/home/app',
  )
  expect(await execute('env')).not.toContain('hush')
  await podman.podman('rm', '--force', '--time', '0', name)
  await podman.podman('rmi', artifact.location)
})

/** The small image with this machine's Node, its libraries and nothing else. */
async function makeNodeImage(): Promise<string> {
  const context = join(home, 'node-image')
  const { stdout } = await promisify(execFile)('ldd', [process.execPath])
  const libraries = stdout.match(/\/\S+/g)!
  for (const file of [process.execPath, ...libraries]) {
    const to = file === process.execPath ? '/usr/bin/node' : file
    fs.mkdirSync(join(context, dirname(to)), { recursive: true })
    fs.copyFileSync(file, join(context, to))
  }
  const copies = ['/usr/bin/node', ...libraries].map(file => `COPY .${file} ${file}`)
  fs.writeFileSync(join(context, 'Dockerfile'), [`FROM ${podman.image}`, ...copies, ''].join('\n'))
  const image = `${podman.registry}/node:1`
  await podman.podman('build', '-t', image, context)
  return image
}

test('a static site becomes an image with a server of its files', async () => {
  const engine = await open({ K8S_BUILD_BASE_IMAGES: `node=${await makeNodeImage()}` })
  const build_command = "mkdir dist; cp page dist/index.html; printf '/*\\n  X-Rule: yes\\n' > dist/_headers"
  const files = tree({ page: 'built' }, { site: { folder: 'dist', fallback: 'index.html' }, build_command })
  const artifact = await engine.prepare(unit(), files, task())
  expect(artifact).toMatchObject({ start_command: null, health_path: null })
  await podman.podman('pull', '--tls-verify=false', artifact.location)
  const port = podman.spareRegistry.split(':')[1]!
  const limits = ['--cap-drop', 'all', '--security-opt', 'no-new-privileges', '--network', 'host', '--read-only']
  const container = await podman.podman('run', '--detach', ...limits, '--env', `PORT=${port}`, artifact.location)
  const fetchPath = (path: string, headers = {}) => fetch(`http://127.0.0.1:${port}${path}`, { headers })
  const page = await waitFor(() => fetchPath('/any/path').catch(() => undefined))
  expect(page.headers.get('x-rule')).toBe('yes')
  expect(await page.text()).toBe('built')
  const etag = page.headers.get('etag')!
  expect((await fetchPath('/', { 'If-None-Match': etag })).status).toBe(304)
  expect(await (await fetchPath('/', { Range: 'bytes=0-1' })).text()).toBe('bu')
  expect((await fetchPath('/missing.css')).status).toBe(404)
  await podman.podman('stop', '--time', '20', container)
  const code = await podman.podman('inspect', container, '--format', '{{.State.ExitCode}}')
  expect(code).toBe('0')
  await podman.podman('rm', container)
  await podman.podman('rmi', artifact.location)
})

test('a source with a Dockerfile is built, older local images are removed, and pushed images are reused', async () => {
  const engine = await open()
  const treeWith = (text: string) =>
    tree({ Dockerfile: `FROM ${podman.image}\nRUN echo ${text} > /www/index.html\nUSER 1000\n` })
  const first = await engine.prepare(unit(1), treeWith('one'), task())
  const second = await engine.prepare(unit(2), treeWith('two'), task())
  expect(first).toMatchObject({ start_command: null })
  expect(second.location).not.toBe(first.location)
  // A rollback reuses the image in the registry.
  expect(await engine.reuse(unit(3), first, task())).toEqual(first)
  const missing = { ...first, location: `${first.location.slice(0, -64)}${'0'.repeat(64)}` }
  expect(await engine.reuse(unit(3), missing, task())).toBeNull()
  const ofOtherDeployment = { ...first, location: first.location.replace(DEPLOYMENT_ID, randomUUID()) }
  expect(await engine.reuse(unit(3), ofOtherDeployment, task())).toBeNull()
  expect((await listImages()).map(name => name.replace('docker.io/', ''))).toEqual([
    `slipway/${DEPLOYMENT_ID}:${makeRevisionId(2)}`,
  ])
  await engine.remove(DEPLOYMENT_ID)
  expect(await listImages()).toEqual([])
})

test('an image that runs as root or as a named user is refused before it is pushed', async () => {
  const engine = await open()
  const error = await rejectionOf(engine.prepare(unit(), tree({ Dockerfile: `FROM ${podman.image}\n` }), task()))
  expect(error).toMatch(/^PermanentError: .*runs as root/)
  const withNamedUser = tree({ Dockerfile: `FROM ${podman.image}\nUSER web\n` })
  expect(await rejectionOf(engine.prepare(unit(), withNamedUser, task()))).toMatch(/^PermanentError: .*`USER 1000`/)
  const withConfiguredUser = await open({ K8S_RUN_AS_USER: '2000' })
  expect(
    await rejectionOf(withConfiguredUser.prepare(unit(), tree({ Dockerfile: `FROM ${podman.image}\n` }), task())),
  ).toBe('nothing failed')
})

test('the image of another deployment cannot be a base image', async () => {
  const engine = await open()
  const otherUnit = { ...unit(2), deployment_id: randomUUID() }
  await engine.prepare(otherUnit, tree({}, { build_command: 'echo built > page', start_command: SERVE }), task())
  const name = `slipway/${otherUnit.deployment_id}:${otherUnit.revision_id}`
  const treeFromIt = () => tree({ Dockerfile: `FROM ${name}\nUSER 1000\n` })
  expect(await rejectionOf(engine.prepare(unit(), treeFromIt(), task()))).toMatch(/^PermanentError: .*slipway\//)
  expect(await rejectionOf(engine.prepare({ ...otherUnit, revision_id: randomUUID() }, treeFromIt(), task()))).toBe(
    'nothing failed',
  )
  await engine.remove(otherUnit.deployment_id)
})

test('a failed build and an interrupted build leave no container', async () => {
  const engine = await open()
  const treeWith = (build_command: string) => tree({}, { build_command, start_command: SERVE })
  expect(await rejectionOf(engine.prepare(unit(), treeWith('echo oh no; exit 4'), task()))).toMatch(
    /^PermanentError: The build ended with code 4\. Its last lines:\n(.*\n)*oh no$/,
  )
  const controller = new AbortController()
  const building = rejectionOf(engine.prepare(unit(), treeWith('echo begun; sleep 600'), task(controller.signal)))
  await waitFor(() => lines.includes('begun'))
  controller.abort(new Error('interrupted'))
  expect(await building).toBe('Error: interrupted')
  expect(await podman.podman('ps', '--all', '--quiet')).toBe('')
})

test('the container of a build that an earlier agent did not finish is removed by the next build', async () => {
  const first = await open()
  const controller = new AbortController()
  const building = rejectionOf(
    first.prepare(
      unit(),
      tree({}, { build_command: 'echo away; sleep 600', start_command: SERVE }),
      task(controller.signal),
    ),
  )
  await waitFor(() => lines.includes('away'))
  const next = await open()
  const files = tree({}, { build_command: 'true', start_command: SERVE })
  await next.prepare(unit(2), files, task())
  expect(await podman.podman('ps', '--all', '--quiet')).toBe('')
  controller.abort()
  await building
})

test('a build names the cause if the registry or the image builder is unreachable', async () => {
  const engine = await open({ K8S_BUILD_REGISTRY: podman.spareRegistry })
  const makeTree = () => tree({}, { build_command: 'true', start_command: SERVE })
  expect(await rejectionOf(engine.prepare(unit(), makeTree(), task()))).toMatch(
    /^PermanentError: The registry .* is unreachable/,
  )
  const withoutBuilder = await open({ K8S_BUILD_SOCKET: join(home, 'nothing') })
  expect(await rejectionOf(withoutBuilder.prepare(unit(), makeTree(), task()))).toMatch(
    /^PermanentError: .*nothing listens on its socket/,
  )
})

test('a tag is resolved to the digest that a real registry returns', async () => {
  const engine = await open()
  const { location } = await engine.prepare(makeKubernetesUnit({ image_uri: podman.image }), null, task())
  const args = ['inspect', '--tls-verify=false', '--format', '{{.Digest}}', `docker://${podman.image}`]
  const { stdout } = await promisify(execFile)('skopeo', args)
  expect(location).toBe(`${podman.image.replace(/:1$/, '')}@${stdout.trim()}`)
})
