// Images of the container engine with a real Podman and a real registry: builds, reuse, pulls, credentials and removal.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import * as http from 'node:http'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, test } from 'vitest'
import type { RevisionRef, SourceTree } from '../../src/agent/engine.ts'
import type { ContainerEngine } from '../../src/agent/engines/container.ts'
import { DockerApi } from '../../src/agent/images/docker-api.ts'
import { waitFor } from '../support/commands.ts'
import { SERVE_COMMAND, setUpContainerEngines } from '../support/container-engine.ts'
import { DOCKER_SOCKET, type Podman, startPodman } from '../support/podman.ts'
import { requestRouter } from '../support/process-engine.ts'

let podman: Podman
let ref: RevisionRef
const pods = setUpContainerEngines(() => podman)
const { unit, task, waitForPhase: until } = pods
const newRevision = (): RevisionRef => ({ ...ref, revision_id: randomUUID() })

beforeAll(async () => {
  podman = await startPodman()
})
afterAll(() => podman.stop())
beforeEach(() => {
  pods.begin()
  ref = { deployment_id: randomUUID(), revision_id: randomUUID() }
})
afterEach(() => pods.end())

const rejectionOf = (work: Promise<unknown>) =>
  work.then(
    () => 'nothing failed',
    (error: Error) => `${error.name}: ${error.message}`,
  )
const buildRevision = async (
  engine: ContainerEngine,
  revision: RevisionRef,
  tree: SourceTree,
  secrets: Record<string, string> = {},
) => {
  const lines: string[] = []
  const artifact = await engine.prepare(
    unit(revision, {}, { source: 'internal_source', secrets }),
    tree,
    task(line => lines.push(line)),
  )
  return { artifact, lines }
}
const startAndFetch = async (
  engine: ContainerEngine,
  revision: RevisionRef,
  artifact: Awaited<ReturnType<typeof buildRevision>>['artifact'],
) => {
  await engine.start(unit(revision), artifact)
  await until(engine, revision, 'healthy')
  await engine.route(unit(revision))
  return (await requestRouter(await pods.url(engine, revision))).body
}

/** The tests' registry behind a password. The `image_pull_secrets` named `registry` contain it. */
async function startProtectedRegistry() {
  const auth = Buffer.from('ada:hush').toString('base64')
  const server = http.createServer((req, res) => {
    if (req.headers.authorization !== `Basic ${auth}`)
      return void res.writeHead(401, { 'WWW-Authenticate': 'Basic realm="private"' }).end()
    const { method, url: path } = req
    const forwarded = http.request(`http://${podman.registry}${path}`, { method, headers: req.headers }, answer => {
      answer.pipe(res.writeHead(answer.statusCode!, answer.headers))
    })
    req.pipe(forwarded)
  })
  const host = podman.spareRegistry
  await new Promise<void>(resolve => server.listen(Number(host.split(':')[1]), '127.0.0.1', resolve))
  const secrets = `${pods.home}/secrets`
  fs.mkdirSync(`${secrets}/registry`, { recursive: true })
  fs.writeFileSync(`${secrets}/registry/.dockerconfigjson`, JSON.stringify({ auths: { [host]: { auth } } }))
  return { host, secrets, close: () => server.close() }
}

describe('a source with a Dockerfile', () => {
  test('is built with it, logs the lines of the build, and runs', async () => {
    const { engine } = await pods.open()
    const Dockerfile = [
      `FROM ${podman.image}`,
      'COPY . /www/',
      'RUN echo building it; ls /www; mv /www/page /www/index.html',
      `CMD ["/bin/sh", "-c", "${SERVE_COMMAND}"]\n`,
    ].join('\n')
    const { artifact, lines } = await buildRevision(
      engine,
      ref,
      pods.tree({ Dockerfile, page: 'built', notes: 'ignored', '.dockerignore': 'no*\n' }),
    )
    expect(lines).not.toContain('notes')
    expect(artifact).toMatchObject({ location: expect.stringMatching(/^sha256:[0-9a-f]{64}$/), start_command: null })
    expect(lines).toContain('building it')
    expect(await startAndFetch(engine, ref, artifact)).toBe('built')
  })

  test.runIf(DOCKER_SOCKET)('can use the features of BuildKit if Docker has it', async ({ skip }) => {
    if (!(await new DockerApi(podman.socket).hasBuildKit())) skip()
    const { engine } = await pods.open()
    const steps = 'RUN --mount=type=cache,target=/cache touch /cache/a; ls /cache\nRUN <<EOF\necho heredoc\nEOF\n'
    const Dockerfile = `FROM ${podman.image}\n${steps}`
    const { lines } = await buildRevision(engine, ref, pods.tree({ Dockerfile }))
    expect(lines).toEqual(expect.arrayContaining(['a', 'heredoc']))
  })

  test('can use a base image from a registry with a password', async () => {
    const { host, secrets, close } = await startProtectedRegistry()
    const { engine } = await pods.open({}, { secrets })
    const build = (names: string[]) => {
      const spec = { image_pull_secrets: names.map(name => ({ name })) }
      const tree = pods.tree({ Dockerfile: `FROM ${host}/web:1\nRUN echo built\n` })
      return rejectionOf(engine.prepare(unit(ref, spec, { source: 'internal_source' }), tree, task()))
    }
    expect(await build([])).toMatch(/^PermanentError: The image cannot be built/)
    expect(await build(['registry'])).toBe('nothing failed')
    await podman.podman('rmi', `${host}/web:1`)
    close()
  })

  test('cannot use the image of another deployment as its base image', async () => {
    const { engine } = await pods.open()
    const treeFrom = (image: string) => pods.tree({ Dockerfile: `FROM ${image}\nRUN echo begun\n` })
    const { artifact } = await buildRevision(engine, ref, treeFrom(podman.image))
    expect((await buildRevision(engine, newRevision(), treeFrom(artifact.location))).lines).toContain('begun')
    const otherDeployment = { deployment_id: randomUUID(), revision_id: randomUUID() }
    const withArgument = `ARG ID=${artifact.location.replace('sha256:', '')}\nARG BASE="$ID"\nFROM \${BASE}\n`
    const withCopy = `FROM ${podman.image}\nCOPY --from=${artifact.location.slice('sha256:'.length, 20)} /www /other\n`
    for (const Dockerfile of [`FROM ${artifact.location}\n`, withArgument, withCopy]) {
      expect(await rejectionOf(buildRevision(engine, newRevision(), pods.tree({ Dockerfile }))), Dockerfile).toBe(
        'nothing failed',
      )
      expect(await rejectionOf(buildRevision(engine, otherDeployment, pods.tree({ Dockerfile }))), Dockerfile).toMatch(
        /^PermanentError: (?!The image cannot be built)/,
      )
    }
  })

  test('is not built again if the image of an earlier revision still exists', async () => {
    const { engine } = await pods.open()
    const files = pods.tree({ Dockerfile: `FROM ${podman.image}\nCMD ["/bin/sh", "-c", "${SERVE_COMMAND}"]\n` })
    const { artifact } = await buildRevision(engine, ref, files)
    const rollback = newRevision()
    expect(await engine.reuse(unit(rollback, {}, { source: 'internal_source' }), artifact, task())).toEqual(artifact)
    await engine.start(unit(rollback), artifact)
    await until(engine, rollback, 'healthy')
    await engine.stop(rollback)
    await engine.stop(ref)
    expect(await engine.reuse(unit(newRevision()), artifact, task())).toEqual(artifact)
    const missing = { ...artifact, location: `sha256:${'0'.repeat(64)}` }
    expect(await engine.reuse(unit(newRevision()), missing, task())).toBeNull()
  })

  test('has images that are removed with the deployment', async () => {
    const { engine } = await pods.open()
    for (const page of ['one', 'two'])
      await buildRevision(engine, newRevision(), pods.tree({ Dockerfile: `FROM ${podman.image}\nRUN echo ${page}\n` }))
    const listImages = () =>
      podman.podman('images', '--quiet', '--filter', `label=slipway.deployment=${ref.deployment_id}`)
    expect((await listImages()).split('\n')).toHaveLength(2)
    await engine.remove(ref.deployment_id)
    expect(await listImages()).toBe('')
  })

  test('fails with the last lines of a step that fails', async () => {
    const { engine } = await pods.open()
    const Dockerfile = `FROM ${podman.image}\nRUN echo no such luck; exit 7\n`
    const error = await rejectionOf(buildRevision(engine, ref, pods.tree({ Dockerfile })))
    expect(error).toMatch(/^PermanentError: The image cannot be built: .*\b7\b/)
    expect(error).toMatch(/Its last lines:\n(.*\n)*no such luck/)
  })

  test('ends its build when it is interrupted', async () => {
    const { engine } = await pods.open()
    const controller = new AbortController()
    const Dockerfile = `FROM ${podman.image}\nRUN echo begun; sleep 600\n`
    const lines: string[] = []
    const spec = unit(ref, {}, { source: 'internal_source' })
    const building = rejectionOf(
      engine.prepare(
        spec,
        pods.tree({ Dockerfile }),
        task(line => lines.push(line), controller.signal),
      ),
    )
    await waitFor(() => lines.includes('begun'))
    controller.abort(new Error('interrupted'))
    expect(await building).toBe('Error: interrupted')
  })
})

describe('a source without a Dockerfile', () => {
  const openWithBaseImage = async () => (await pods.open({}, { base_images: { all: podman.image, of: {} } })).engine
  const commands = (more: Partial<SourceTree> = {}) => ({
    install_command: 'touch /cache/runs; cat /cache/runs; echo run >> /cache/runs',
    build_command: 'cp page /www/index.html',
    start_command: SERVE_COMMAND,
    ...more,
  })

  test('is built in the base image, with a persistent cache, and without secrets in the image', async () => {
    const engine = await openWithBaseImage()
    const first = await buildRevision(engine, ref, pods.tree({ page: 'one' }, commands()), { TOKEN: "it's hush" })
    const second = newRevision()
    const rebuilt = await buildRevision(
      engine,
      second,
      pods.tree(
        { page: 'two' },
        commands({ build_command: 'echo $TOKEN $npm_config_dangerously_allow_all_scripts > /www/index.html' }),
      ),
      { TOKEN: "it's hush" },
    )
    expect(rebuilt.lines).toContain('run')
    expect(first.lines).not.toContain('run')
    expect(await startAndFetch(engine, ref, first.artifact)).toBe('one')
    expect(await startAndFetch(engine, second, rebuilt.artifact)).toBe("it's hush true\n")
    expect(await podman.podman('inspect', first.artifact.location)).not.toContain('hush')
    expect((await pods.listContainers(ref)).filter(name => name.includes('build'))).toEqual([])
  })

  test('fails with the last lines of a command that fails, and leaves no container', async () => {
    const engine = await openWithBaseImage()
    const error = await rejectionOf(
      buildRevision(engine, ref, pods.tree({}, commands({ build_command: 'echo oh no; exit 4' }))),
    )
    expect(error).toMatch(/^PermanentError: The build ended with code 4\. Its last lines:\n(.*\n)*oh no$/)
    expect(await pods.listContainers(ref)).toEqual([])
  })

  test('ends its build when interrupted, and a restarted agent removes the build’s container', async () => {
    const engine = await openWithBaseImage()
    const controller = new AbortController()
    const lines: string[] = []
    const tree = pods.tree({}, commands({ build_command: 'echo begun; sleep 600' }))
    const spec = unit(ref, {}, { source: 'internal_source' })
    const building = rejectionOf(
      engine.prepare(
        spec,
        tree,
        task(line => lines.push(line), controller.signal),
      ),
    )
    await waitFor(() => lines.includes('begun'))
    const [name] = await pods.listContainers(ref)
    expect(name).toContain('build')
    await pods.open({}, { base_images: { all: podman.image, of: {} } })
    expect(await pods.listContainers(ref)).toEqual([])
    controller.abort(new Error('interrupted'))
    await building
  })

  test('starts with the modules that Deno kept for it in the build', async () => {
    const image = `${podman.registry}/deno:1`
    const program = `#!/bin/sh
case $1 in
  cache) mkdir -p $DENO_DIR; echo kept > $DENO_DIR/module ;;
  run) cp $DENO_DIR/module /www/index.html; ${SERVE_COMMAND} ;;
esac
`
    const { folder } = pods.tree({ deno: program, Dockerfile: `FROM ${podman.image}\nCOPY --chmod=755 deno /bin/\n` })
    await podman.podman('build', '-t', image, folder)
    await podman.push(image)
    const { engine } = await pods.open({}, { base_images: { all: image, of: {} } })
    const { artifact } = await buildRevision(engine, ref, pods.tree({ 'deno.json': '{}', 'main.ts': '' }))
    expect(await startAndFetch(engine, ref, artifact)).toBe('kept\n')
  })

  test('is refused with the names of all tools that the image lacks', async () => {
    const engine = await openWithBaseImage()
    const files = { 'go.mod': 'module a\ngo 1.26\n', 'main.go': 'package main\n', 'go.sum': '' }
    expect(await rejectionOf(buildRevision(engine, ref, pods.tree(files)))).toMatch(
      /^PermanentError: .*\n(.*\n)*The image .*web:1 lacks: go\./,
    )
  })
})

describe('a static site', () => {
  const site = { folder: 'dist', fallback: null }
  const RULES = "printf '/*\\n  X-Rule: yes\\n' > dist/_headers; printf '/old /page 302\\n' > dist/_redirects"
  const build_command = `mkdir dist; ${RULES}; cp page dist/index.html; ln -s ../page dist/page.html`

  test('is built in the base image and served by the router, without a container', async () => {
    const base_images = { all: podman.image, of: {} }
    const { engine } = await pods.open({}, { base_images })
    const { artifact } = await buildRevision(engine, ref, pods.tree({ page: 'built' }, { site, build_command }))
    expect(await startAndFetch(engine, ref, artifact)).toBe('built')
    expect(await pods.listContainers(ref)).toEqual([])
    const url = await pods.url(engine, ref)
    const page = await requestRouter(url, '/page')
    expect(page).toMatchObject({ status: 200, body: 'built', headers: { 'x-rule': 'yes' } })
    const headers = { 'If-None-Match': page.headers.etag! }
    expect(await requestRouter(url, '/page', { headers })).toMatchObject({ status: 304 })
    expect(await requestRouter(url, '/page', { headers: { Range: 'bytes=1-2' } })).toMatchObject({ body: 'ui' })
    expect(await requestRouter(url, '/old')).toMatchObject({ status: 302 })
    expect(await engine.reuse(unit(newRevision(), {}, { source: 'internal_source' }), artifact, task())).toEqual(
      artifact,
    )
    await engine.close({ stop: false })
    const next = await pods.open({}, { base_images })
    await until(next.engine, ref, 'healthy')
    expect((await requestRouter(await pods.url(next.engine, ref))).body).toBe('built')
  })

  test('needs no image if it has no commands', async () => {
    const { engine } = await pods.open()
    const { artifact } = await buildRevision(engine, ref, pods.tree({ 'index.html': 'as it is' }))
    expect(await startAndFetch(engine, ref, artifact)).toBe('as it is')
  })

  test('is refused beside containers of its own', async () => {
    const { engine } = await pods.open()
    const sidecars = [{ name: 'beside', image: podman.image }]
    const spec = unit(ref, { sidecars }, { source: 'internal_source' })
    const refused = await rejectionOf(engine.prepare(spec, pods.tree({ 'index.html': '' }), task()))
    expect(refused).toMatch(/^PermanentError: .*`sidecars`/)
  })
})

test.runIf(process.getuid?.() === 0 && !DOCKER_SOCKET)(
  'on a full disk, pulls and builds fail with this reason',
  async () => {
    const small = await startPodman(24)
    try {
      const { engine } = await pods.open({}, { socket: small.socket })
      const fill = 'RUN dd if=/dev/urandom of=/big bs=1M count=48'
      const Dockerfile = (from: string) => `FROM ${from}\n${fill}\n`
      expect(await rejectionOf(buildRevision(engine, ref, pods.tree({ Dockerfile: Dockerfile(small.image) })))).toMatch(
        /No space left/i,
      )

      const image_uri = `${small.registry}/big:1`
      fs.writeFileSync(`${pods.home}/Dockerfile`, Dockerfile(podman.image))
      await podman.podman('build', '-t', image_uri, '-f', `${pods.home}/Dockerfile`, pods.home)
      await podman.push(image_uri)
      await podman.podman('rmi', image_uri)
      expect(await rejectionOf(engine.prepare(unit(ref, {}, { image_uri }), null, task()))).toMatch(
        /^PermanentError: The disk of the container engine is full/,
      )
    } finally {
      // While the engine of this test still runs.
      await pods.end()
      pods.begin()
      await small.stop()
    }
  },
  120_000,
)

describe('a pulled image', () => {
  const pushImage = async (tag: string) => {
    const name = `${podman.registry}/apps:${tag}`
    await podman.podman('build', '-t', name, '--label', `tag=${tag}`, '-f', writeDockerfile(), pods.home)
    await podman.push(name)
    await podman.podman('rmi', name)
    return name
  }
  const writeDockerfile = () => {
    const file = `${pods.home}/Dockerfile`
    fs.writeFileSync(file, `FROM ${podman.image}\n`)
    return file
  }
  const listImages = () =>
    podman.podman('images', '--format', '{{.Repository}}:{{.Digest}}', '--filter', `reference=${podman.registry}/apps`)

  test('is removed when it is old or its deployment is deleted, but not if it existed before', async () => {
    const { engine } = await pods.open()
    for (const tag of ['1', '2', '3', '4']) {
      const image_uri = await pushImage(tag)
      const revision = newRevision()
      const artifact = await engine.prepare(unit(revision, {}, { image_uri }), null, task())
      await engine.start(unit(revision), artifact)
      await engine.stop(revision)
    }
    expect((await listImages()).split('\n')).toHaveLength(3)
    await engine.prepare(unit(ref), null, task())
    await engine.remove(ref.deployment_id)
    expect(await listImages()).toBe('')
    expect(await podman.podman('images', '-q', podman.image)).not.toBe('')
  })

  test('stays while its replica waits for a restart, even if newer images follow', async () => {
    const { engine, lines } = await pods.open({ backoff_ms: 600_000 })
    const crashing = newRevision()
    const artifact = await engine.prepare(unit(crashing, {}, { image_uri: await pushImage('6') }), null, task())
    await engine.start(unit(crashing), { ...artifact, start_command: 'exit 1' })
    await waitFor(() => lines.some(line => line.startsWith('ERROR')))
    for (const tag of ['7', '8', '9']) {
      const revision = newRevision()
      const newer = await engine.prepare(unit(revision, {}, { image_uri: await pushImage(tag) }), null, task())
      await engine.start(unit(revision), newer)
      await engine.stop(revision)
    }
    await podman.podman('image', 'inspect', artifact.location)
  })

  test('that was removed is pulled again for the next replica', async () => {
    const { engine } = await pods.open()
    const image_uri = await pushImage('5')
    const spec = unit(ref, {}, { image_uri })
    const artifact = await engine.prepare(spec, null, task())
    await podman.podman('rmi', artifact.location)
    await engine.start(spec, artifact)
    await until(engine, ref, 'healthy')
  })

  test('from a registry with a password is pulled with the login of image_pull_secrets', async () => {
    const { host, secrets, close } = await startProtectedRegistry()
    const { engine } = await pods.open({}, { secrets })
    const image_uri = `${host}/private:1`
    const pull = (names: string[]) =>
      rejectionOf(
        engine.prepare(unit(ref, { image_pull_secrets: names.map(name => ({ name })) }, { image_uri }), null, task()),
      )
    expect(await pull([])).toMatch(/^PermanentError: The registry denied access to the image/)
    expect(await pull(['registry'])).toMatch(/^PermanentError: The image .* does not exist/)
    expect(await pull(['missing'])).toMatch(/^PermanentError: This agent does not have the image_pull_secret `missing`/)
    close()
  })
})
