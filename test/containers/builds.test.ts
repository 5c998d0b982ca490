// The container engine's images against a real Podman and a real registry: built, cached, interrupted, pulled with credentials, pruned.
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
const { unit, task, until } = pods
const next = (): RevisionRef => ({ ...ref, revision_id: randomUUID() })

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
  one: RevisionRef,
  tree: SourceTree,
  secrets: Record<string, string> = {},
) => {
  const lines: string[] = []
  const artifact = await engine.prepare(
    unit(one, {}, { source: 'internal_source', secrets }),
    tree,
    task(line => lines.push(line)),
  )
  return { artifact, lines }
}
const serves = async (
  engine: ContainerEngine,
  one: RevisionRef,
  artifact: Awaited<ReturnType<typeof buildRevision>>['artifact'],
) => {
  await engine.start(unit(one), artifact)
  await until(engine, one, 'healthy')
  await engine.route(unit(one))
  return (await requestRouter(await pods.url(engine, one))).body
}

/** The registry of the tests behind a password, which `image_pull_secrets: [{ name: 'registry' }]` has. */
async function protectedRegistry() {
  const auth = Buffer.from('ada:hush').toString('base64')
  const server = http.createServer((req, res) => {
    if (req.headers.authorization !== `Basic ${auth}`)
      return void res.writeHead(401, { 'WWW-Authenticate': 'Basic realm="private"' }).end()
    const { method, url: path } = req
    const behind = http.request(`http://${podman.registry}${path}`, { method, headers: req.headers }, answer => {
      answer.pipe(res.writeHead(answer.statusCode!, answer.headers))
    })
    req.pipe(behind)
  })
  const host = podman.spare
  await new Promise<void>(resolve => server.listen(Number(host.split(':')[1]), '127.0.0.1', resolve))
  const secrets = `${pods.home}/secrets`
  fs.mkdirSync(`${secrets}/registry`, { recursive: true })
  fs.writeFileSync(`${secrets}/registry/.dockerconfigjson`, JSON.stringify({ auths: { [host]: { auth } } }))
  return { host, secrets, close: () => server.close() }
}

describe('with a Dockerfile', () => {
  test('it is built by it, line by line, and runs', async () => {
    const { engine } = await pods.open()
    const Dockerfile = `FROM ${podman.image}\nCOPY . /www/\nRUN echo building it; ls /www; mv /www/page /www/index.html\nCMD ["/bin/sh", "-c", "${SERVE_COMMAND}"]\n`
    const { artifact, lines } = await buildRevision(
      engine,
      ref,
      pods.tree({ Dockerfile, page: 'built', notes: 'own', '.dockerignore': 'no*\n' }),
    )
    expect(lines).not.toContain('notes')
    expect(artifact).toMatchObject({ location: expect.stringMatching(/^sha256:[0-9a-f]{64}$/), start_command: null })
    expect(lines).toContain('building it')
    expect(await serves(engine, ref, artifact)).toBe('built')
  })

  test.runIf(DOCKER_SOCKET)('where Docker has BuildKit, it may use what only that knows', async ({ skip }) => {
    if (!(await new DockerApi(podman.socket).hasBuildKit())) skip()
    const { engine } = await pods.open()
    const Dockerfile = `FROM ${podman.image}\nRUN --mount=type=cache,target=/cache touch /cache/a; ls /cache\nRUN <<EOF\necho heard\nEOF\n`
    const { lines } = await buildRevision(engine, ref, pods.tree({ Dockerfile }))
    expect(lines).toEqual(expect.arrayContaining(['a', 'heard']))
  })

  test('from an image that takes a password', async () => {
    const { host, secrets, close } = await protectedRegistry()
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

  test('what was built for another deployment is nothing to begin with', async () => {
    const { engine } = await pods.open()
    const FROM = (image: string) => pods.tree({ Dockerfile: `FROM ${image}\nRUN echo begun\n` })
    const { artifact } = await buildRevision(engine, ref, FROM(podman.image))
    expect((await buildRevision(engine, next(), FROM(artifact.location))).lines).toContain('begun')
    const other = { deployment_id: randomUUID(), revision_id: randomUUID() }
    const named = `ARG ID=${artifact.location.replace('sha256:', '')}\nARG BASE="$ID"\nFROM \${BASE}\n`
    const copied = `FROM ${podman.image}\nCOPY --from=${artifact.location.slice('sha256:'.length, 20)} /www /other\n`
    for (const Dockerfile of [`FROM ${artifact.location}\n`, named, copied]) {
      expect(await rejectionOf(buildRevision(engine, next(), pods.tree({ Dockerfile }))), Dockerfile).toBe(
        'nothing failed',
      )
      expect(await rejectionOf(buildRevision(engine, other, pods.tree({ Dockerfile }))), Dockerfile).toMatch(
        /^PermanentError: (?!The image cannot be built)/,
      )
    }
  })

  test('what was built for an earlier revision is used again while its image is there', async () => {
    const { engine } = await pods.open()
    const files = pods.tree({ Dockerfile: `FROM ${podman.image}\nCMD ["/bin/sh", "-c", "${SERVE_COMMAND}"]\n` })
    const { artifact } = await buildRevision(engine, ref, files)
    const back = next()
    expect(await engine.reuse(unit(back, {}, { source: 'internal_source' }), artifact, task())).toEqual(artifact)
    await engine.start(unit(back), artifact)
    await until(engine, back, 'healthy')
    await engine.stop(back)
    await engine.stop(ref)
    expect(await engine.reuse(unit(next()), artifact, task())).toEqual(artifact)
    const gone = { ...artifact, location: `sha256:${'0'.repeat(64)}` }
    expect(await engine.reuse(unit(next()), gone, task())).toBeNull()
  })

  test('what was built goes with the deployment', async () => {
    const { engine } = await pods.open()
    for (const page of ['one', 'two'])
      await buildRevision(engine, next(), pods.tree({ Dockerfile: `FROM ${podman.image}\nRUN echo ${page}\n` }))
    const kept = () => podman.podman('images', '--quiet', '--filter', `label=slipway.deployment=${ref.deployment_id}`)
    expect((await kept()).split('\n')).toHaveLength(2)
    await engine.remove(ref.deployment_id)
    expect(await kept()).toBe('')
  })

  test('a step that fails is told with its last lines', async () => {
    const { engine } = await pods.open()
    const Dockerfile = `FROM ${podman.image}\nRUN echo no such luck; exit 7\n`
    const said = await rejectionOf(buildRevision(engine, ref, pods.tree({ Dockerfile })))
    expect(said).toMatch(/^PermanentError: The image cannot be built: .*\b7\b/)
    expect(said).toMatch(/Its last lines:\n(.*\n)*no such luck/)
  })

  test('an interruption ends it', async () => {
    const { engine } = await pods.open()
    const controller = new AbortController()
    const Dockerfile = `FROM ${podman.image}\nRUN echo begun; sleep 600\n`
    const lines: string[] = []
    const wanted = unit(ref, {}, { source: 'internal_source' })
    const building = rejectionOf(
      engine.prepare(
        wanted,
        pods.tree({ Dockerfile }),
        task(line => lines.push(line), controller.signal),
      ),
    )
    await waitFor(() => lines.includes('begun'))
    controller.abort(new Error('interrupted'))
    expect(await building).toBe('Error: interrupted')
  })
})

describe('without one, in a base image', () => {
  const base = async () => (await pods.open({}, { base_image: podman.image })).engine
  const commands = (more: Partial<SourceTree> = {}) => ({
    ...{
      install_command: 'touch /cache/runs; cat /cache/runs; echo run >> /cache/runs',
      build_command: 'cp page /www/index.html',
    },
    ...{ start_command: SERVE_COMMAND, ...more },
  })

  test('its commands run there, with a cache that stays, and no secret in the image', async () => {
    const engine = await base()
    const first = await buildRevision(engine, ref, pods.tree({ page: 'one' }, commands()), { TOKEN: "it's hush" })
    const second = next()
    const again = await buildRevision(
      engine,
      second,
      pods.tree({ page: 'two' }, commands({ build_command: 'echo $TOKEN > /www/index.html' })),
      { TOKEN: "it's hush" },
    )
    expect(again.lines).toContain('run')
    expect(first.lines).not.toContain('run')
    expect(await serves(engine, ref, first.artifact)).toBe('one')
    expect(await serves(engine, second, again.artifact)).toBe("it's hush\n")
    expect(await podman.podman('inspect', first.artifact.location)).not.toContain('hush')
    expect((await pods.all(ref)).filter(name => name.includes('build'))).toEqual([])
  })

  test('one that fails is told with its last lines, and leaves no container', async () => {
    const engine = await base()
    const said = await rejectionOf(
      buildRevision(engine, ref, pods.tree({}, commands({ build_command: 'echo oh no; exit 4' }))),
    )
    expect(said).toMatch(/^PermanentError: The build ended with code 4\. Its last lines:\n(.*\n)*oh no$/)
    expect(await pods.all(ref)).toEqual([])
  })

  test('an interruption ends it, and so does the next agent with what a killed one was building', async () => {
    const engine = await base()
    const controller = new AbortController()
    const lines: string[] = []
    const tree = pods.tree({}, commands({ build_command: 'echo begun; sleep 600' }))
    const wanted = unit(ref, {}, { source: 'internal_source' })
    const building = rejectionOf(
      engine.prepare(
        wanted,
        tree,
        task(line => lines.push(line), controller.signal),
      ),
    )
    await waitFor(() => lines.includes('begun'))
    const [name] = await pods.all(ref)
    expect(name).toContain('build')
    await pods.open({}, { base_image: podman.image })
    expect(await pods.all(ref)).toEqual([])
    controller.abort(new Error('interrupted'))
    await building
  })

  test('without a base image it says what to do', async () => {
    const { engine } = await pods.open()
    expect(await rejectionOf(buildRevision(engine, ref, pods.tree({}, commands())))).toMatch(
      /^PermanentError: The source has no Dockerfile/,
    )
  })
})

test.runIf(process.getuid?.() === 0 && !DOCKER_SOCKET)(
  'a full disk fails a pull and a build with what to do',
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
      // Whatever this test made, while its engine is there.
      await pods.end()
      pods.begin()
      await small.stop()
    }
  },
  120_000,
)

describe('pulled', () => {
  const pushed = async (tag: string) => {
    const name = `${podman.registry}/apps:${tag}`
    await podman.podman('build', '-t', name, '--label', `tag=${tag}`, '-f', await dockerfile(), pods.home)
    await podman.push(name)
    await podman.podman('rmi', name)
    return name
  }
  const dockerfile = async () => {
    const file = `${pods.home}/Dockerfile`
    fs.writeFileSync(file, `FROM ${podman.image}\n`)
    return file
  }
  const images = async () =>
    podman.podman('images', '--format', '{{.Repository}}:{{.Digest}}', '--filter', `reference=${podman.registry}/apps`)

  test('images go when they are old or the deployment goes; those that were there before stay', async () => {
    const { engine } = await pods.open()
    for (const tag of ['1', '2', '3', '4']) {
      const image_uri = await pushed(tag)
      const one = next()
      const artifact = await engine.prepare(unit(one, {}, { image_uri }), null, task())
      await engine.start(unit(one), artifact)
      await engine.stop(one)
    }
    expect((await images()).split('\n')).toHaveLength(3)
    await engine.prepare(unit(ref), null, task())
    await engine.remove(ref.deployment_id)
    expect(await images()).toBe('')
    expect(await podman.podman('images', '-q', podman.image)).not.toBe('')
  })

  test('that of one which is about to be started again stays, however many came after it', async () => {
    const { engine, lines } = await pods.open({ backoff_ms: 600_000 })
    const serving = next()
    const { location, ...made } = await engine.prepare(
      unit(serving, {}, { image_uri: await pushed('6') }),
      null,
      task(),
    )
    await engine.start(unit(serving), { ...made, location, start_command: 'exit 1' })
    await waitFor(() => lines.some(line => line.startsWith('ERROR')))
    for (const tag of ['7', '8', '9']) {
      const one = next()
      const artifact = await engine.prepare(unit(one, {}, { image_uri: await pushed(tag) }), null, task())
      await engine.start(unit(one), artifact)
      await engine.stop(one)
    }
    await podman.podman('image', 'inspect', location)
  })

  test('an image that somebody removed is pulled again for the next copy', async () => {
    const { engine } = await pods.open()
    const image_uri = await pushed('5')
    const wanted = unit(ref, {}, { image_uri })
    const artifact = await engine.prepare(wanted, null, task())
    await podman.podman('rmi', artifact.location)
    await engine.start(wanted, artifact)
    await until(engine, ref, 'healthy')
  })

  test('a registry that wants a password gets the one of image_pull_secrets', async () => {
    const { host, secrets, close } = await protectedRegistry()
    const { engine } = await pods.open({}, { secrets })
    const image_uri = `${host}/private:1`
    const pull = (names: string[]) =>
      rejectionOf(
        engine.prepare(unit(ref, { image_pull_secrets: names.map(name => ({ name })) }, { image_uri }), null, task()),
      )
    expect(await pull([])).toMatch(/^PermanentError: The registry denied access to the image/)
    expect(await pull(['registry'])).toMatch(/^PermanentError: The image .* does not exist/)
    expect(await pull(['other'])).toMatch(/^PermanentError: This agent does not have the image_pull_secret `other`/)
    close()
  })
})
