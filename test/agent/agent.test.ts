// The agent with real git and real processes against a fake control plane: rollouts, failures, and the lease.
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterAll, afterEach, beforeAll, beforeEach, describe, expect, onTestFinished, test, vi } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import { TransientError } from '../../src/agent/engine.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { withDefaults } from '../../src/protocol/resources.schema.ts'
import { gzip, makeTar } from '../support/archives.ts'
import { waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { type GitServer, startGitServer } from '../support/git-server.ts'
import {
  closeAgents,
  FAST_LIMITS,
  LOOPBACK_NETWORKS,
  makeTempFolder,
  requestRouter,
  runAgent,
  startPolling,
} from '../support/process-engine.ts'

let home: string
let control: ControlPlane
let git: GitServer

async function startServers() {
  home = makeTempFolder()
  ;[control, git] = await Promise.all([
    startControlPlane(),
    startGitServer({ username: 'x-access-token', password: 'hush-clone' }),
  ])
}
async function stopServers() {
  await closeAgents()
  await Promise.all([control.stop(), git.stop()])
  fs.rmSync(home, { recursive: true, force: true })
}

function startAgent({
  folder = home,
  agent_id = 'agent-1',
  ...limits
}: Partial<Limits> & { folder?: string; agent_id?: string } = {}) {
  const engine = new ProcessEngine({ home: folder, port: 0, limits: { ...FAST_LIMITS, ...limits } })
  const operatorLines: string[] = []
  const agent = new Agent({
    agent_id,
    version: 'test',
    home: folder,
    engine,
    networks: LOOPBACK_NETWORKS,
    wait: 5,
    retry: 50,
    control: createControlPlaneClient({ url: control.url, key: 'key' }),
    logToOperator: line => void operatorLines.push(line),
  })
  runAgent(agent)
  return { agent, operatorLines }
}

const makeApplication = (text: string) => ({
  'package.json': '{}',
  'app.json': JSON.stringify({ start_command: 'node main.cjs' }),
  'main.cjs': `const { createServer } = require('node:http')
console.log('serving ${text}')
createServer((req, res) => res.end('${text}' + (process.env.TOKEN ?? ''))).listen(process.env.PORT)`,
})
const makeSource = (more = {}, ref = 'main') => ({
  source: 'githost' as const,
  platform_config_path: 'app.json',
  git: { url: git.url, ref, commit_sha: null },
  ...more,
})
const waitForOutcome = (revision: string) =>
  waitFor(() => control.reports.find(one => one.revision_id === revision && /deployed|failed/.test(one.state)))
/** The last reported URL. */
const findUrl = () => control.reports.findLast(({ url }) => url)!.url!

/** Deploys the application `old`, and then a revision with these changes, whose report it returns. */
async function deployFailing(id: string, files: Record<string, string>, more = {}) {
  git.push(makeApplication('old'), 'Old', id)
  const { url } = await waitForOutcome(control.want(id, makeSource({}, id)))
  const client = startPolling(url!, { pause_ms: 25 })
  try {
    git.push(files, 'New', id)
    const revision = control.want(id, makeSource(more, id))
    const report = await waitForOutcome(revision)
    const before = client.count('200 old')
    await waitFor(() => client.count('200 old') > before + 5)
    await waitFor(() => !fs.existsSync(join(home, 'process', id, 'revisions', revision)))
    expect(client.responses()).toEqual(['200 old'])
    return report
  } finally {
    await client.stop()
  }
}
describe('the protection', () => {
  beforeEach(startServers)
  afterEach(stopServers)

  test('is set although nothing of the deployment can be started', async () => {
    startAgent()
    const id = randomUUID()
    git.push(makeApplication('shown'), 'Shown', id)
    const { url } = await waitForOutcome(control.want(id, makeSource({}, id)))
    const status = async () => (await requestRouter(url!, '/')).status
    expect(await status()).toBe(200)
    const start = vi.spyOn(ProcessEngine.prototype, 'start').mockRejectedValue(new TransientError('no space'))
    onTestFinished(() => start.mockRestore())
    control.updateWork(id, { protection: { open_paths: [], bypasses: [] } })
    await waitFor(async () => (await status()) === 401)
    expect(start).toHaveBeenCalled()
  })
})

describe('a release command', () => {
  beforeEach(startServers)
  afterEach(stopServers)
  const makeReleased = (release_command: string) => ({
    ...makeApplication('new'),
    'app.json': JSON.stringify({ start_command: 'node main.cjs', release_command }),
  })

  test('runs once before the start, in the environment of its revision', async () => {
    startAgent()
    const id = randomUUID()
    const count = join(home, 'count')
    git.push(makeReleased(`echo "ran $TOKEN" >> ${count}`), 'New', id)
    const revision = control.want(id, makeSource({}, id), { secrets: { TOKEN: '1' } })
    expect(await waitForOutcome(revision)).toMatchObject({ state: 'deployed' })
    expect(fs.readFileSync(count, 'utf8')).toBe('ran 1\n')
  })

  test('that fails ends the revision with its last lines, and the old one serves', async () => {
    startAgent()
    const report = await deployFailing(randomUUID(), makeReleased('echo no table; exit 3'))
    expect(report).toMatchObject({ state: 'failed', message: expect.stringMatching(/code 3.*no table/s) })
    expect(control.reportedStates(report.revision_id!)).toContain('deploying')
  })

  test('waits for an attached database, and one that is no address ends the revision', async () => {
    startAgent()
    const id = randomUUID()
    const count = join(home, 'count')
    const server = createServer().listen(0, '127.0.0.1')
    await once(server, 'listening')
    onTestFinished(() => void server.close())
    const redis = `redis://:hush@127.0.0.1:${(server.address() as AddressInfo).port}`
    const resource_spec = withDefaults({ attached_database: 'REDIS_URL' }, 'dev')
    const deploy = async (secrets: Record<string, string>) => {
      git.push(makeReleased(`echo ran >> ${count}`), randomUUID(), id)
      return waitForOutcome(control.want(id, { ...makeSource({}, id), resource_spec }, { secrets }))
    }
    expect(await deploy({ REDIS_URL: redis })).toMatchObject({ state: 'deployed' })
    const failed = await deploy({ REDIS_URL: 'hush' })
    expect(failed).toMatchObject({ state: 'failed', message: expect.stringContaining('`REDIS_URL`') })
    expect(JSON.stringify([failed, control.logs])).not.toContain('hush')
    expect(fs.readFileSync(count, 'utf8')).toBe('ran\n')
  })

  test('with workers alone is deployed without a URL, and workers that fail leave the old revision', async () => {
    startAgent({ settle_ms: 100 })
    const id = randomUUID()
    git.push({ Procfile: 'worker: node worker.js', 'worker.js': 'setInterval(() => {}, 1e9)' }, 'Work', id)
    const alone = await waitForOutcome(control.want(id, makeSource({ platform_config_path: null }, id)))
    expect(alone).toMatchObject({ state: 'deployed', healthy: true, url: null })
    const files = { ...makeApplication('new'), Procfile: 'worker: echo no queue; exit 3' }
    const web = randomUUID()
    git.push(makeApplication('old'), 'Old', web)
    const { url } = await waitForOutcome(control.want(web, makeSource({}, web)))
    git.push(files, 'New', web)
    const report = await waitForOutcome(control.want(web, makeSource({}, web)))
    expect(report).toMatchObject({ state: 'failed', message: expect.stringMatching(/`worker`.*no queue/s) })
    expect((await requestRouter(url!)).body).toBe('old')
  })

  test('that runs when the agent is killed is found by the next agent, and runs one time', async () => {
    const { agent } = startAgent()
    const id = randomUUID()
    const [count, gate] = [join(home, 'count'), join(home, 'gate')]
    const command = `echo ran >> ${count}; while [ ! -e ${gate} ]; do sleep 0.05; done`
    git.push(makeReleased(command), 'New', id)
    const revision = control.want(id, makeSource({}, id))
    await waitFor(() => fs.existsSync(count))
    await agent.close({ stop: false })
    startAgent()
    fs.writeFileSync(gate, '')
    expect(await waitForOutcome(revision)).toMatchObject({ state: 'deployed' })
    expect(fs.readFileSync(count, 'utf8')).toBe('ran\n')
  })
})

type DeployedFailure = (id: string) => Promise<unknown>
const makeBroken = (code: string) => ({
  'package.json': '{}',
  'app.json': JSON.stringify({ start_command: 'node main.mjs' }),
  'main.mjs': code,
})

async function expectFailure(deploy: DeployedFailure, reason: RegExp) {
  expect(await deploy(randomUUID())).toMatchObject({ state: 'failed', message: expect.stringMatching(reason) })
  for (const { message } of control.logs) expect(message).not.toContain(home)
}

describe('deployments of one agent', () => {
  beforeAll(async () => {
    await startServers()
    startAgent({ disk_mb: 4 })
  })
  afterAll(stopServers)

  test.concurrent('each template can be deployed and answers', async () => {
    const answers: string[] = []
    for (const [template_id, path] of [
      ['web-service', '/notes'],
      ['static-site', '/'],
      ['mcp-server', '/healthz'],
    ] as const) {
      const deployment = randomUUID()
      const report = await waitForOutcome(control.want(deployment, { source: 'internal_template', template_id }))
      expect(report).toMatchObject({ state: 'deployed' })
      answers.push((await requestRouter(report.url!, path)).body.trim())
    }
    expect(answers).toEqual(['[]', expect.stringContaining('It is served'), '{"ok":true}'])
  })

  describe('a failed revision has a reason, and the old revision keeps serving', () => {
    test.concurrent.each<[string, DeployedFailure, RegExp]>([
      [
        'a broken build',
        id => deployFailing(id, {}, { build_command: 'cat nothing.txt' }),
        /build command `cat nothing.txt` ended with code 1.*No such file/s,
      ],
      [
        'a crash loop',
        id => deployFailing(id, makeBroken('console.log("no table"); process.exit(2)')),
        /^Crash loop.*code 2.*no table/s,
      ],
      [
        'a missing image',
        id => deployFailing(id, {}, { source: 'internal_container', image_uri: 'registry.example.com/x:1', git: null }),
        /container images/,
      ],
      [
        'a full disk',
        id =>
          deployFailing(
            id,
            makeBroken(
              'import { writeFileSync } from "node:fs"; ' +
                'writeFileSync(process.env.TMPDIR + "/x", Buffer.alloc(8e6, 1)); setInterval(() => {}, 1e9)',
            ),
          ),
        /disk limit of 4 MB/,
      ],
      [
        'a ref that does not exist',
        id => deployFailing(id, {}, { git: { url: git.url, ref: 'gone', commit_sha: null } }),
        /no branch, tag or full commit id `gone`/,
      ],
      [
        'an application that prints its folder',
        id => deployFailing(id, makeBroken('console.log(process.cwd(), process.env.HOME); import("./gone.mjs")')),
        /^Crash loop.*\n\/app \/home\/app\n.*'\/app\/gone.mjs' imported from \/app\/main.mjs/s,
      ],
      [
        'a build that prints its folder',
        id => deployFailing(id, {}, { build_command: 'cat $PWD/nothing.txt' }),
        /cat: '?\/app\/nothing.txt/,
      ],
      [
        'an unknown template',
        id => deployFailing(id, {}, { source: 'internal_template', template_id: 'x', git: null }),
        /choose one of/,
      ],
    ])('%s', (_, deploy, reason) => expectFailure(deploy, reason))
  })
})

describe('a revision that is not healthy in time fails with its reason, and the old revision keeps serving', () => {
  beforeAll(async () => {
    await startServers()
    startAgent({ ready_ms: 5_000 })
  })
  afterAll(stopServers)

  test.concurrent.each<[string, DeployedFailure, RegExp]>([
    ['a port never opened', id => deployFailing(id, makeBroken('setInterval(() => {}, 1e9)')), /PORT/],
    [
      'a failing health check',
      id =>
        deployFailing(id, {
          ...makeApplication('new'),
          'app.json': '{"start_command": "node main.mjs", "health_path": "/healthz"}',
          'main.mjs': `
          import { createServer } from 'node:http'
          createServer((req, res) => res.writeHead(503).end()).listen(process.env.PORT)`,
        }),
      /GET \/healthz answers 503/,
    ],
  ])('%s', (_, deploy, reason) => expectFailure(deploy, reason))
})

describe('an agent', () => {
  let id: string
  beforeEach(async () => {
    id = randomUUID()
    await startServers()
  })
  afterEach(stopServers)

  test('a change during a rollout is applied after the rollout', async () => {
    git.push(makeApplication('one'), 'First')
    startAgent()
    let generation = 0
    control.faults.onReport = report => {
      if (generation) return
      generation = report.generation
      control.faults.hidesChanges = true
      control.updateWork(id, { custom_url: 'https://shop.example.com/below' })
    }
    const one = control.want(id, makeSource())
    expect(await waitForOutcome(one)).toMatchObject({ state: 'deployed', generation })
    control.faults.hidesChanges = false
    expect(
      await waitFor(
        async () =>
          (await requestRouter(findUrl(), '/below', { headers: { host: 'shop.example.com' } })).status === 200,
      ),
    ).toBe(true)
  })

  test('a rejected report does not delay the reports of other deployments', async () => {
    git.push(makeApplication('one'), 'First')
    startAgent()
    const rejected = randomUUID()
    control.faults.unreadableDeployment = rejected
    control.want(rejected, makeSource())
    expect(await waitForOutcome(control.want(id, makeSource()))).toMatchObject({ state: 'deployed' })
    control.faults.unreadableDeployment = ''
    expect(control.reports.filter(one => one.deployment_id === rejected)).toEqual([])
    expect(await waitForOutcome(control.want(rejected, makeSource()))).toMatchObject({ state: 'deployed' })
  })

  describe('work that the agent cannot read', () => {
    const later = { source: 'of_a_later_release' as never }

    test('fails its revision, leaves the deployment as it runs, and delays no other', async () => {
      git.push(makeApplication('old'), 'First')
      const { operatorLines } = startAgent()
      await waitForOutcome(control.want(id, makeSource()))
      const client = startPolling(findUrl())
      onTestFinished(client.stop)
      const unreadable = control.want(id, makeSource(later))
      expect(await waitForOutcome(control.want(randomUUID(), makeSource()))).toMatchObject({ state: 'deployed' })
      expect(await waitForOutcome(unreadable)).toMatchObject({
        deployment_id: id,
        state: 'failed',
        message: expect.stringContaining('`revision.source`'),
      })
      expect(operatorLines.filter(line => line.startsWith('work not readable deployment=shop-'))).toHaveLength(1)
      git.push(makeApplication('new'), 'Second')
      expect(await waitForOutcome(control.want(id, makeSource()))).toMatchObject({ state: 'deployed' })
      await waitFor(() => client.count('200 new'))
      await client.stop()
      expect(client.responses().sort()).toEqual(['200 new', '200 old'])
    })

    test('is not sent again while it stays the same, and removes nothing when the agent starts again', async () => {
      git.push(makeApplication('old'), 'First')
      const { agent } = startAgent()
      await waitForOutcome(control.want(id, makeSource()))
      const url = findUrl()
      await agent.close({ stop: false })
      const { work } = control.workByDeployment.get(id)!
      control.updateWork(id, { serving: { ...work.serving!, ...later } })
      const unnamed = randomUUID()
      control.want(unnamed, makeSource(later), { deployment_id: 'unknown' })
      const { operatorLines } = startAgent()
      await waitFor(() => operatorLines.filter(line => line.startsWith('work not readable')).length === 2)
      const { count } = control.resyncs
      const other = randomUUID()
      for (const text of ['one', 'two']) {
        git.push(makeApplication(text), text)
        expect(await waitForOutcome(control.want(other, makeSource()))).toMatchObject({ state: 'deployed' })
      }
      expect(control.resyncs.count).toBe(count)
      expect((await requestRouter(url)).body).toBe('old')
      expect(fs.readdirSync(join(home, 'process', id, 'revisions'))).toEqual([work.serving!.id])
      control.workByDeployment.delete(unnamed)
      control.updateWork(id, { serving: work.serving })
      await waitFor(() => control.reports.findLast(one => one.deployment_id === id)?.state === 'serving')
    })
  })

  test('a repository is deployed, updated and rolled back without one failed request', async () => {
    const first = git.push(makeApplication('one'), 'First')
    startAgent()
    const one = control.want(id, makeSource(), { secrets: { TOKEN: '!' } })
    expect(await waitForOutcome(one)).toMatchObject({ state: 'deployed', healthy: true })
    expect(control.reports.find(({ commit }) => commit)!.commit).toMatchObject({
      sha: first,
      message: 'First',
      author: 'Ada',
    })
    const client = startPolling(findUrl())
    onTestFinished(client.stop)
    await waitFor(() => client.count('200 one!'))
    git.push(makeApplication('two'))
    expect(await waitForOutcome(control.want(id, makeSource()))).toMatchObject({ state: 'deployed' })
    await waitFor(() => client.count('200 two'))
    const requestsBefore = git.requests.length
    const rollback = control.want(id, makeSource({ git: { ...makeSource().git, commit_sha: first } }), {
      secrets: { TOKEN: '!' },
    })
    expect(await waitForOutcome(rollback)).toMatchObject({ state: 'deployed' })
    await waitFor(async () => (await requestRouter(findUrl())).body === 'one!')
    expect(client.responses().sort()).toEqual(['200 one!', '200 two'])
    // The output of the first build was retained.
    expect(git.requests).toHaveLength(requestsBefore)
    await waitFor(() =>
      control.logs.some(({ of, kind, message }) => of === rollback && kind === 'deploy' && message === 'serving one'),
    )
    expect(
      control.logs.some(({ of, kind, message }) => of === one && kind === 'build' && message.includes(first)),
    ).toBe(true)
    // All other builds are removed, or retained for another rollback.
    const builds = () => fs.readdirSync(join(home, 'builds', id)).filter(name => name !== 'cache' && name !== 'source')
    const isRetained = (name: string) => fs.existsSync(join(home, 'builds', id, name, 'kept.json'))
    await waitFor(
      () =>
        builds()
          .filter(name => !isRetained(name))
          .join() === rollback,
    )
  })

  test('an archive whose download link has expired is fetched with a new link', async () => {
    const file = await gzip(makeTar('hello'))
    const requests: string[] = []
    const server = createServer((req, res) => {
      requests.push(req.url!)
      if (req.url !== '/old') return void res.end(file)
      // The next resync has another link.
      control.workByDeployment.get(id)!.work.revision!.archive!.url = url('/new')
      res.writeHead(403, { 'Content-Type': 'application/problem+json' }).end('{"code":"download_link_expired"}')
    }).listen(0, '127.0.0.1')
    onTestFinished(() => void server.close())
    await once(server, 'listening')
    const url = (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
    const sha256 = createHash('sha256').update(file).digest('hex')
    startAgent()
    const archive = { url: url('/old'), sha256, size: file.byteLength }
    const revision = control.want(id, { source: 'internal_source', archive })
    await waitForOutcome(revision)
    expect(requests).toEqual(expect.arrayContaining(['/old', '/new']))
    await waitFor(() => control.logs.some(({ message }) => /download link of the archive has expired/.test(message)))
  })

  test('the use of an application is reported once and not with each request', async () => {
    git.push(makeApplication('old'))
    startAgent({ usage_poll_ms: 100, usage_report_ms: 500 })
    await waitForOutcome(control.want(id, makeSource()))
    const reported = () => control.reports.filter(one => one.state === 'serving').map(one => one.last_request_at)
    const first = await waitFor(() => reported().at(-1))
    await waitFor(() => Date.now() > Date.parse(first) + 600)
    const [reportsBefore, since] = [control.reports.length, Date.now()]
    while (Date.now() < since + 300) await requestRouter(findUrl())
    const next = await waitFor(() => reported().find(at => at! > first))
    expect(Date.parse(next!)).toBeGreaterThanOrEqual(since)
    // The first one at once, and then one per interval.
    expect(control.reports.length - reportsBefore).toBeLessThanOrEqual(2 + (Date.now() - since) / 500)
  })

  test('an interrupted build ends with all its processes, and the old revision keeps serving', async () => {
    git.push(makeApplication('old'))
    startAgent()
    await waitForOutcome(control.want(id, makeSource()))
    const revision = control.want(id, makeSource({ build_command: 'echo begun && sleep 60' }))
    await waitFor(() => control.logs.some(({ of, message }) => of === revision && message === 'begun'))
    await waitFor(() => control.reportedStates(revision).includes('building'))
    control.interrupt(id)
    await waitFor(() => control.reports.at(-1)?.state === 'serving')
    await waitFor(() => !fs.existsSync(join(home, 'builds', id, revision)))
    await waitFor(() => control.logs.some(({ of, message }) => of === revision && message.includes('interrupted')))
    expect((await requestRouter(findUrl())).body).toBe('old')
  })

  test('a deleted deployment is removed and reported as removed', async () => {
    git.push(makeApplication('old'))
    const { operatorLines } = startAgent()
    await waitForOutcome(control.want(id, makeSource()))
    control.wantAbsent(id)
    await waitFor(() => control.reports.some(({ state }) => state === 'removed'))
    expect((await requestRouter(findUrl())).status).toBe(404)
    await waitFor(() => operatorLines.some(line => /^deployment removed deployment=shop-/.test(line)))
    for (const folder of ['builds', 'process']) expect(fs.readdirSync(join(home, folder))).toEqual([])
  })

  test('a deployment that a restored control plane does not know is kept until the operator ends that', async () => {
    git.push(makeApplication('old'))
    const { operatorLines } = startAgent()
    await waitForOutcome(control.want(id, makeSource()))
    const url = findUrl()
    control.forget(id)
    await waitFor(() => operatorLines.some(line => line.startsWith(`deployment kept deployment=${id} `)))
    const client = startPolling(url)
    await waitFor(() => client.count('200 old') > 20)
    await client.stop()
    expect(client.responses()).toEqual(['200 old'])
    control.finishRestore()
    await waitFor(() => fs.readdirSync(join(home, 'process')).length === 0)
    expect((await requestRouter(url)).status).toBe(404)
  })

  test('while the control plane is unavailable applications keep running, and builds are reported later', async () => {
    git.push(makeApplication('old'))
    startAgent()
    await waitForOutcome(control.want(id, makeSource()))
    const client = startPolling(findUrl())
    onTestFinished(client.stop)
    git.push(makeApplication('new'))
    const requestsBefore = git.requests.length
    const revision = control.want(id, makeSource({ build_command: 'sleep 1' }))
    // The build has its credential: without one it would wait for the control plane.
    await waitFor(() => git.requests.length > requestsBefore)
    control.setOffline(true)
    await waitFor(() => client.count('200 new'))
    control.setOffline(false)
    expect(await waitForOutcome(revision)).toMatchObject({ state: 'deployed' })
    expect(client.responses()).toEqual(['200 old', '200 new'])
  })

  describe('a build whose credential the control plane does not provide', () => {
    const build = async (refusals: object, ready: () => boolean = () => true) => {
      Object.assign(control.credentialRefusals, refusals)
      git.push(makeApplication('one'))
      startAgent()
      const revision = control.want(id, makeSource())
      await waitFor(ready)
      return revision
    }
    test('waits while the control plane is unavailable', async () => {
      expect(await waitForOutcome(await build({ left: 12 }))).toMatchObject({ state: 'deployed' })
    })

    test('ends when the revision is interrupted', async () => {
      const revision = await build({ left: 1e9 }, () => control.credentialRefusals.count > 6)
      control.interrupt(id)
      await waitFor(() => control.reports.at(-1)?.state === 'serving')
      await waitFor(() => !fs.existsSync(join(home, 'builds', id, revision)))
    })

    test('is retried while the git host is unavailable', async () => {
      const report = await waitForOutcome(await build({ status: 502, code: 'upstream_error', left: 6 }))
      expect(report).toMatchObject({ state: 'deployed' })
    })

    test('fails at once if the credential is refused', async () => {
      const report = await waitForOutcome(await build({ status: 404, code: 'repository_not_found', left: 1e9 }))
      expect(report).toMatchObject({ state: 'failed', message: 'It is repository_not_found.' })
      expect(control.credentialRefusals.count).toBe(1)
    })
  })

  test('an agent that lost its lease reports nothing, and its applications keep serving', async () => {
    git.push(makeApplication('one'))
    startAgent()
    await waitForOutcome(control.want(id, makeSource()))
    const url = findUrl()
    control.stealLease()
    const count = control.reports.length
    const revision = control.want(id, makeSource())
    const second = startAgent({ folder: join(home, 'second'), agent_id: 'agent-2' })
    await waitFor(() => second.operatorLines.some(line => line.startsWith('standby ')))
    expect((await requestRouter(url)).body).toBe('one')
    expect(control.reports.length).toBe(count)
    control.returnLease()
    expect(await waitForOutcome(revision)).toMatchObject({ state: 'deployed' })
  })

  test('an agent that stops releases its lease, and the standby agent takes over', async () => {
    git.push(makeApplication('one'))
    const first = startAgent()
    await waitForOutcome(control.want(id, makeSource()))
    const second = startAgent({ folder: join(home, 'second'), agent_id: 'agent-2' })
    await waitFor(() => second.operatorLines.some(line => line.startsWith('standby ')))
    await first.agent.close({ stop: false })
    expect(await waitForOutcome(control.want(id, makeSource()))).toMatchObject({ state: 'deployed' })
  })

  test('the last lines of an application that stops with the agent are shipped', async () => {
    const onSignal = "process.once('SIGTERM', () => { console.log('stopping'); process.exit() })"
    git.push({ ...makeApplication('one'), 'main.cjs': `${makeApplication('one')['main.cjs']}\n${onSignal}` })
    const { agent } = startAgent()
    const revision = control.want(id, makeSource())
    await waitForOutcome(revision)
    await agent.close({ stop: true })
    expect(control.logs).toContainEqual({ of: revision, kind: 'deploy', message: 'stopping' })
  })

  test('a worker runs again after its agent ended with all applications', async () => {
    const worker = "console.log('working'); setInterval(() => {}, 1e9)"
    const start = { start_command: 'node main.cjs', processes: { worker: { command: 'node worker.cjs' } } }
    git.push({ ...makeApplication('one'), 'worker.cjs': worker, 'app.json': JSON.stringify(start) })
    const works = () => control.logs.filter(({ message }) => message === 'working').length
    const { agent } = startAgent()
    await waitForOutcome(control.want(id, makeSource()))
    await waitFor(() => works() === 1)
    await agent.close({ stop: true })
    startAgent()
    await waitFor(() => works() === 2)
  })
})
