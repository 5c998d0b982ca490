// The whole agent against a fake control plane: real git, real processes, failures, and a client that keeps polling.
import { createHash, randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { Agent } from '../../src/agent/agent.ts'
import { createControlPlaneClient } from '../../src/agent/control-plane/client.ts'
import type { Limits } from '../../src/agent/engines/local/limits.ts'
import { ProcessEngine } from '../../src/agent/engines/process.ts'
import { gzip, makeTar } from '../support/archives.ts'
import { waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { type GitServer, startGitServer } from '../support/git-server.ts'
import {
  closeAgents,
  FAST_LIMITS,
  LOOPBACK_NETWORKS,
  makeTempFolder,
  pollRouter,
  requestRouter,
  runAgent,
} from '../support/process-engine.ts'

let home: string
let control: ControlPlane
let git: GitServer
let id: string

beforeEach(async () => {
  home = makeTempFolder()
  id = randomUUID()
  ;[control, git] = await Promise.all([
    startControlPlane(),
    startGitServer({ username: 'x-access-token', password: 'hush-clone' }),
  ])
})
afterEach(async () => {
  await closeAgents()
  await Promise.all([control.stop(), git.stop()])
  fs.rmSync(home, { recursive: true, force: true })
})

function start({
  at = home,
  agent_id = 'agent-1',
  ...limits
}: Partial<Limits> & { at?: string; agent_id?: string } = {}) {
  const engine = new ProcessEngine({ home: at, port: 0, limits: { ...FAST_LIMITS, ...limits } })
  const said: string[] = []
  const agent = new Agent({
    ...{ agent_id, version: 'test', home: at, engine, networks: LOOPBACK_NETWORKS, wait: 5, retry: 50 },
    control: createControlPlaneClient({ url: control.url, key: 'key' }),
    logToOperator: line => void said.push(line),
  })
  runAgent(agent)
  return { agent, said }
}

const serving = (text: string) => ({
  'package.json': '{}',
  'app.json': JSON.stringify({ start_command: 'node main.mjs' }),
  'main.mjs': `import { createServer } from 'node:http'
console.log('serving ${text}')
createServer((req, res) => res.end('${text}' + (process.env.TOKEN ?? ''))).listen(process.env.PORT)`,
})
const source = (more = {}) => ({
  source: 'githost' as const,
  platform_config_path: 'app.json',
  git: { url: git.url, ref: 'main', commit_sha: null },
  ...more,
})
const ended = (revision: string) =>
  waitFor(() => control.reports.find(one => one.revision_id === revision && /deployed|failed/.test(one.state)))
const urlOf = () => control.reports.findLast(({ url }) => url)!.url!

/** Asks without end, until it is told to stop; every answer counts. */
function polling(url: string) {
  const seen = new Map<string, number>()
  let on = true
  onTestFinished(() => {
    on = false
  })
  const loop = pollRouter(
    url,
    () => on,
    answer => seen.set(answer, (seen.get(answer) ?? 0) + 1),
  )
  return {
    seen,
    until: (answer: string) => waitFor(() => seen.has(answer)),
    async stop() {
      on = false
      await loop
      return [...seen.keys()].sort()
    },
  }
}

test('a change during a rollout is applied after the rollout', async () => {
  git.push(serving('one'), 'First')
  start()
  let generation = 0
  control.faults.onReport = report => {
    if (generation) return
    generation = report.generation
    control.faults.hidesChanges = true
    control.updateWork(id, { custom_url: 'https://shop.example.com/below' })
  }
  const one = control.want(id, source())
  expect(await ended(one)).toMatchObject({ state: 'deployed', generation })
  control.faults.hidesChanges = false
  expect(
    await waitFor(
      async () => (await requestRouter(urlOf(), '/below', { headers: { host: 'shop.example.com' } })).status === 200,
    ),
  ).toBe(true)
})

test('a rejected report does not delay the reports of other deployments', async () => {
  git.push(serving('one'), 'First')
  start()
  const unread = randomUUID()
  control.faults.unreadableDeployment = unread
  control.want(unread, source())
  expect(await ended(control.want(id, source()))).toMatchObject({ state: 'deployed' })
  control.faults.unreadableDeployment = ''
  expect(control.reports.filter(one => one.deployment_id === unread)).toEqual([])
  expect(await ended(control.want(unread, source()))).toMatchObject({ state: 'deployed' })
})

test('a repository is deployed, updated and rolled back without one failed request', async () => {
  const first = git.push(serving('one'), 'First')
  start()
  const one = control.want(id, source(), { secrets: { TOKEN: '!' } })
  expect(await ended(one)).toMatchObject({ state: 'deployed', healthy: true })
  expect(control.reports.find(({ commit }) => commit)!.commit).toMatchObject({
    sha: first,
    message: 'First',
    author: 'Ada',
  })
  const client = polling(urlOf())
  await client.until('200 one!')
  git.push(serving('two'))
  expect(await ended(control.want(id, source()))).toMatchObject({ state: 'deployed' })
  await client.until('200 two')
  const asked = git.requests.length
  const back = control.want(id, source({ git: { ...source().git, commit_sha: first } }), { secrets: { TOKEN: '!' } })
  expect(await ended(back)).toMatchObject({ state: 'deployed' })
  await waitFor(async () => (await requestRouter(urlOf())).body === 'one!')
  expect(await client.stop()).toEqual(['200 one!', '200 two'])
  // It was still there.
  expect(git.requests).toHaveLength(asked)
  await waitFor(() =>
    control.logs.some(({ of, kind, message }) => of === back && kind === 'deploy' && message === 'serving one'),
  )
  expect(control.logs.some(({ of, kind, message }) => of === one && kind === 'build' && message.includes(first))).toBe(
    true,
  )
  // What was left behind is gone, or kept for another rollback.
  const made = () => fs.readdirSync(join(home, 'builds', id)).filter(name => name !== 'cache' && name !== 'source')
  const kept = (name: string) => fs.existsSync(join(home, 'builds', id, name, 'kept.json'))
  await waitFor(
    () =>
      made()
        .filter(name => !kept(name))
        .join() === back,
  )
})

test('each template can be deployed and answers', async () => {
  start()
  const answers: string[] = []
  for (const [template_id, path] of [
    ['web-service', '/notes'],
    ['static-site', '/'],
    ['mcp-server', '/healthz'],
  ] as const) {
    const deployment = randomUUID()
    const report = await ended(control.want(deployment, { source: 'internal_template', template_id }))
    expect(report).toMatchObject({ state: 'deployed' })
    answers.push((await requestRouter(report.url!, path)).body.trim())
  }
  expect(answers).toEqual(['[]', expect.stringContaining('It is served'), '{"ok":true}'])
})

test('an archive whose download link has expired is fetched with a new link', async () => {
  const file = await gzip(makeTar('hello'))
  const asked: string[] = []
  const server = createServer((req, res) => {
    asked.push(req.url!)
    if (req.url !== '/old') return void res.end(file)
    // The next time that everything is told, it is by another link.
    control.workByDeployment.get(id)!.work.revision!.archive!.url = url('/new')
    res.writeHead(403, { 'Content-Type': 'application/problem+json' }).end('{"code":"download_link_expired"}')
  }).listen(0, '127.0.0.1')
  onTestFinished(() => void server.close())
  await once(server, 'listening')
  const url = (path: string) => `http://127.0.0.1:${(server.address() as AddressInfo).port}${path}`
  const sha256 = createHash('sha256').update(file).digest('hex')
  start()
  const archive = { url: url('/old'), sha256, size: file.byteLength }
  const revision = control.want(id, { source: 'internal_source', archive })
  await ended(revision)
  expect(asked).toEqual(expect.arrayContaining(['/old', '/new']))
  await waitFor(() => control.logs.some(({ message }) => /download link of the archive has expired/.test(message)))
})

describe('a failed revision has a reason, and the old revision keeps serving', () => {
  const broken = async (files: Record<string, string>, more = {}, limits = {}) => {
    git.push(serving('old'))
    start(limits)
    await ended(control.want(id, source()))
    const client = polling(urlOf())
    git.push(files)
    const revision = control.want(id, source(more))
    const report = await ended(revision)
    const asked = client.seen.get('200 old') ?? 0
    await waitFor(() => client.seen.get('200 old')! > asked + 5)
    expect(await client.stop()).toEqual(['200 old'])
    await waitFor(() => !fs.existsSync(join(home, 'process', id, 'revisions', revision)))
    return report
  }
  const running = (code: string, more = {}) => ({ ...serving('new'), 'main.mjs': code, ...more })

  test.each<[string, () => Promise<unknown>, RegExp]>([
    [
      'a broken build',
      () => broken({}, { build_command: 'cat nothing.txt' }),
      /build command `cat nothing.txt` ended with code 1.*No such file/s,
    ],
    ['a port never opened', () => broken(running('setInterval(() => {}, 9e9)'), {}, { ready_ms: 5000 }), /PORT/],
    [
      'a crash loop',
      () => broken(running('console.log("no table"); process.exit(2)')),
      /^Crash loop.*code 2.*no table/s,
    ],
    [
      'a failing health check',
      () =>
        broken(
          {
            ...serving('new'),
            'app.json': '{"start_command": "node main.mjs", "health_path": "/healthz"}',
            'main.mjs': `
        import { createServer } from 'node:http'
        createServer((req, res) => res.writeHead(503).end()).listen(process.env.PORT)`,
          },
          {},
          { ready_ms: 5000 },
        ),
      /GET \/healthz answers 503/,
    ],
    [
      'a missing image',
      () => broken({}, { source: 'internal_container', image_uri: 'registry.example.com/x:1', git: null }),
      /container images/,
    ],
    [
      'a full disk',
      () =>
        broken(
          running(
            'import { writeFileSync } from "node:fs"; ' +
              'writeFileSync(process.env.TMPDIR + "/x", Buffer.alloc(8e6, 1)); setInterval(() => {}, 9e9)',
          ),
          {},
          { disk_mb: 4 },
        ),
      /disk limit of 4 MB/,
    ],
    [
      'a ref that does not exist',
      () => broken({}, { git: { url: git.url, ref: 'gone', commit_sha: null } }),
      /no branch, tag or full commit id `gone`/,
    ],
    [
      'an application that prints its folder',
      () => broken(running('console.log(process.cwd(), process.env.HOME); import("./gone.mjs")')),
      /^Crash loop.*\n\/app \/home\/app\n.*'\/app\/gone.mjs' imported from \/app\/main.mjs/s,
    ],
    [
      'a build that prints its folder',
      () => broken({}, { build_command: 'cat $PWD/nothing.txt' }),
      /cat: '?\/app\/nothing.txt/,
    ],
    [
      'an unknown template',
      () => broken({}, { source: 'internal_template', template_id: 'x', git: null }),
      /choose one of/,
    ],
  ])('%s', async (_, happens, reason) => {
    expect(await happens()).toMatchObject({ state: 'failed', message: expect.stringMatching(reason) })
    for (const { message } of control.logs) expect(message).not.toContain(home)
  })
})

test('the use of an application is reported once and not with each request', async () => {
  git.push(serving('old'))
  start({ usage_poll_ms: 25, usage_report_ms: 500 })
  await ended(control.want(id, source()))
  const told = () => control.reports.filter(one => one.state === 'serving').map(one => one.last_request_at)
  const counted = await waitFor(() => told().at(-1))
  await waitFor(() => Date.now() > Date.parse(counted) + 600)
  const [reports, asking] = [control.reports.length, Date.now()]
  while (Date.now() < asking + 300) await requestRouter(urlOf())
  const used = await waitFor(() => told().find(at => at! > counted))
  expect(Date.parse(used!)).toBeGreaterThanOrEqual(asking)
  expect(control.reports.length - reports).toBeLessThanOrEqual(2)
})

test('an interrupted build ends with all its processes, and the old revision keeps serving', async () => {
  git.push(serving('old'))
  start()
  await ended(control.want(id, source()))
  const revision = control.want(id, source({ build_command: 'echo begun && sleep 60' }))
  await waitFor(() => control.logs.some(({ of, message }) => of === revision && message === 'begun'))
  await waitFor(() => control.reportedStates(revision).includes('building'))
  control.interrupt(id)
  await waitFor(() => control.reports.at(-1)?.state === 'serving')
  await waitFor(() => !fs.existsSync(join(home, 'builds', id, revision)))
  await waitFor(() => control.logs.some(({ of, message }) => of === revision && message.includes('interrupted')))
  expect((await requestRouter(urlOf())).body).toBe('old')
})

test('a deleted deployment is removed and reported as removed', async () => {
  git.push(serving('old'))
  const { said } = start()
  await ended(control.want(id, source()))
  control.wantAbsent(id)
  await waitFor(() => control.reports.some(({ state }) => state === 'removed'))
  expect((await requestRouter(urlOf())).status).toBe(404)
  await waitFor(() => said.some(line => /^deployment removed deployment=shop-/.test(line)))
  for (const place of ['builds', 'process']) expect(fs.readdirSync(join(home, place))).toEqual([])
})

test('while the control plane is unavailable applications keep running, and builds are reported later', async () => {
  git.push(serving('old'))
  start()
  await ended(control.want(id, source()))
  const client = polling(urlOf())
  git.push(serving('new'))
  const asked = git.requests.length
  const revision = control.want(id, source({ build_command: 'sleep 2' }))
  // The build has its credential: without one it would wait for the control plane.
  await waitFor(() => git.requests.length > asked)
  control.setOffline(true)
  await client.until('200 new')
  control.setOffline(false)
  expect(await ended(revision)).toMatchObject({ state: 'deployed' })
  expect(await client.stop()).toEqual(['200 new', '200 old'])
})

describe('a build whose credential the control plane does not provide', () => {
  const asked = async (refusing: object, ready: () => boolean = () => true) => {
    Object.assign(control.credentialRefusals, refusing)
    git.push(serving('one'))
    start()
    const revision = control.want(id, source())
    await waitFor(ready)
    return revision
  }
  test('waits while the control plane is unavailable', async () => {
    expect(await ended(await asked({ left: 20 }))).toMatchObject({ state: 'deployed' })
  })

  test('ends when the revision is interrupted', async () => {
    const revision = await asked({ left: 1e9 }, () => control.credentialRefusals.count > 6)
    control.interrupt(id)
    await waitFor(() => control.reports.at(-1)?.state === 'serving')
    await waitFor(() => !fs.existsSync(join(home, 'builds', id, revision)))
  })

  test.each([
    ['fails after some retries if the git host is unavailable', { status: 502, code: 'upstream_error', left: 1e9 }, 5],
    ['fails at once if the credential is refused', { status: 404, code: 'repository_not_found', left: 1e9 }, 1],
  ])('%s', async (_, refusing, told) => {
    const report = await ended(await asked(refusing))
    expect(report).toMatchObject({ state: 'failed', message: `It is ${refusing.code}.` })
    expect(control.credentialRefusals.count).toBe(told)
  })
})

test('an agent that lost its lease reports nothing, and its applications keep serving', async () => {
  git.push(serving('one'))
  start()
  await ended(control.want(id, source()))
  const url = urlOf()
  control.stealLease()
  const count = control.reports.length
  const revision = control.want(id, source())
  const second = start({ at: join(home, 'second'), agent_id: 'agent-2' })
  await waitFor(() => second.said.some(line => line.startsWith('standby ')))
  expect((await requestRouter(url)).body).toBe('one')
  expect(control.reports.length).toBe(count)
  control.returnLease()
  expect(await ended(revision)).toMatchObject({ state: 'deployed' })
})

test('an agent that stops releases its lease, and the standby agent takes over', async () => {
  git.push(serving('one'))
  const first = start()
  await ended(control.want(id, source()))
  const second = start({ at: join(home, 'second'), agent_id: 'agent-2' })
  await waitFor(() => second.said.some(line => line.startsWith('standby ')))
  await first.agent.close({ stop: false })
  expect(await ended(control.want(id, source()))).toMatchObject({ state: 'deployed' })
})

test('the last lines of an application that stops with the agent are shipped', async () => {
  const going = "process.once('SIGTERM', () => { console.log('going'); process.exit() })"
  git.push({ ...serving('one'), 'main.mjs': `${serving('one')['main.mjs']}\n${going}` })
  const { agent } = start()
  const revision = control.want(id, source())
  await ended(revision)
  await agent.close({ stop: true })
  expect(control.logs).toContainEqual({ of: revision, kind: 'deploy', message: 'going' })
})
