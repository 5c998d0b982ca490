// The agent as root: each deployment's builds and processes run as a separate user, which can read no files of the
// control plane, the agent or other deployments.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from 'vitest'
import { ProcessReplica } from '../../src/agent/engines/process/replica.ts'
import { chooseIsolation, parseRunAs } from '../../src/agent/system/run-as.ts'
import { allowUserNamespaces } from '../../src/agent/system/user-namespaces.ts'
import { killUserProcesses, userPerDeployment } from '../../src/agent/system/users.ts'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { openHome } from '../../src/host/home-folder.ts'
import { type Command, filterRunning, startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { startGitServer } from '../support/git-server.ts'
import { makeTempFolder, requestRouter } from '../support/process-engine.ts'

// The files that follow start programs without the launcher, whose folder is gone.
afterAll(allowUserNamespaces)

const isRoot = process.platform === 'linux' && process.getuid?.() === 0

/** An application that reads, lists, writes or signals as a request says, and answers the outcome or the error code. */
const SPY = `
import * as fs from 'node:fs'
import { createServer } from 'node:http'
const outcomeOf = work => {
  try { return String(work()).slice(0, 200) } catch (error) { return error.code ?? String(error) }
}
createServer((req, res) => {
  const query = new URL(req.url, 'http://x').searchParams
  if (query.has('read')) return res.end(outcomeOf(() => fs.readFileSync(query.get('read'))))
  if (query.has('list')) return res.end(outcomeOf(() => fs.readdirSync(query.get('list'))))
  if (query.has('write')) return res.end(outcomeOf(() => fs.writeFileSync(query.get('write'), 'x') ?? 'written'))
  if (query.has('signal')) return res.end(outcomeOf(() => process.kill(Number(query.get('signal')), 0)))
  const status = fs.readFileSync('/proc/self/status', 'utf8')
  res.end(JSON.stringify({ pid: process.pid, cwd: process.cwd(), home: process.env.HOME, status }))
}).listen(process.env.PORT)
`
const FILES = {
  'package.json': JSON.stringify({ scripts: { start: 'node main.mjs' } }),
  'slipway.json': JSON.stringify({
    start_command: 'node main.mjs',
    build_command: 'id -u > built-by && touch "$HOME/file"',
  }),
  'main.mjs': SPY,
}
const DENIED = /^(EACCES|EPERM)$/

describe.runIf(isRoot)('with an agent that runs as root', () => {
  let root: string
  let home: ReturnType<typeof openHome>
  let control: ControlPlane
  let agent: Command
  let stop: () => Promise<unknown>
  const [shop, neighbor] = [randomUUID(), randomUUID()]
  const urls = new Map<string, string>()
  const tryFrom = async (id: string, action: 'read' | 'list' | 'write' | 'signal', subject: string | number) =>
    (await requestRouter(urls.get(id)!, `/?${action}=${encodeURIComponent(subject)}`)).body
  const describeProcess = async (id: string) => JSON.parse((await requestRouter(urls.get(id)!)).body)

  beforeAll(async () => {
    root = makeTempFolder()
    fs.chmodSync(root, 0o755)
    home = openHome(join(root, '.slipway'))
    home.writeState({ url: 'http://127.0.0.1:1', api_key: 'secret', organization_id: '', tenant_id: '', pid: 1 })
    home.secrets()
    home.write('database-url', 'secret')
    const [controlPlane, git, postgres] = await Promise.all([
      startControlPlane(),
      startGitServer(),
      startPostgres({ dataDir: home.file('postgres'), durable: false }),
    ])
    control = controlPlane
    git.push(FILES)
    agent = startCommand('src/agent/main.ts', ['--home', home.file('agent'), '--port', '20000', '--stop'], {
      SLIPWAY_URL: control.url,
      SLIPWAY_LISTENER_KEY: 'key',
      AGENT_ALLOWED_NETWORKS: '127.0.0.0/8',
    })
    stop = async () => {
      await stopCommands()
      await Promise.all([postgres.stop(), control.stop(), git.stop()])
      fs.rmSync(root, { recursive: true, force: true })
    }
    for (const id of [shop, neighbor]) {
      const revision = control.want(id, {
        source: 'githost',
        platform_config_path: null,
        git: { url: git.url, ref: 'main', commit_sha: null },
      })
      await agent.until(() => control.reportedStates(revision).includes('deployed'))
      urls.set(id, control.reports.findLast(({ deployment_id, url }) => deployment_id === id && url)!.url!)
    }
  })
  afterAll(() => stop())

  test('each application has a separate user without groups and capabilities', async () => {
    const [first, second] = [await describeProcess(shop), await describeProcess(neighbor)]
    const fieldOf = (status: string, name: string) => new RegExp(`^${name}:[ \\t]*(.*?)[ \\t]*$`, 'm').exec(status)![1]!
    const uid = fieldOf(first.status, 'Uid').split(/\s+/)[0]!
    expect(Number(uid)).toBeGreaterThanOrEqual(1_900_000_000)
    expect(fieldOf(first.status, 'Uid').split(/\s+/)).toEqual([uid, uid, uid, uid])
    expect(fieldOf(first.status, 'Gid').split(/\s+/)).toEqual([uid, uid, uid, uid])
    expect(fieldOf(first.status, 'Groups').replace(uid, '')).toBe('')
    expect(fieldOf(first.status, 'CapEff')).toMatch(/^0+$/)
    expect(fieldOf(first.status, 'NoNewPrivs')).toBe('1')
    // The filter that refuses user namespaces.
    if (process.arch === 'x64') expect(fieldOf(first.status, 'Seccomp')).toBe('2')
    expect(fieldOf(second.status, 'Uid')).not.toBe(fieldOf(first.status, 'Uid'))
    expect((await tryFrom(shop, 'read', join(first.cwd, 'built-by'))).trim()).toBe(uid)
    expect(await tryFrom(shop, 'write', join(first.home, 'file'))).toBe('written')
    expect(await tryFrom(shop, 'write', join(first.cwd, 'file'))).toBe('written')
  })

  test('an application cannot read secrets of the control plane, the agent, Postgres or others', async () => {
    const neighborProcess = await describeProcess(neighbor)
    const pathOf = (name: string) => home.file(name)
    const router = JSON.parse(fs.readFileSync(pathOf('agent/router.json'), 'utf8')).identity.pid
    const postgres = Number(fs.readFileSync(pathOf('postgres/postmaster.pid'), 'utf8').split('\n')[0])
    const files = [
      ...['dev.json', 'secrets.json', 'database-url', 'postgres/slipway.password', 'postgres/pg_hba.conf'].map(pathOf),
      ...['postgres.log', 'agent/agent.json', 'agent/router.json', `agent/builds/${shop}/source/git/HEAD`].map(pathOf),
      ...[`agent/process/${shop}/deployment.json`, `agent/process/${neighbor}/deployment.json`].map(pathOf),
      ...[`agent/users/${neighbor}.json`].map(pathOf),
      join(neighborProcess.cwd, 'main.mjs'),
      ...[agent.pid, router, postgres, process.pid, neighborProcess.pid].map(pid => `/proc/${pid}/environ`),
    ]
    const readOutcomes = await Promise.all(files.map(async file => [file, await tryFrom(shop, 'read', file)]))
    // A file that does not exist would not be readable either.
    for (const file of files) expect(fs.existsSync(file), file).toBe(true)
    expect(readOutcomes.filter(([, outcome]) => !DENIED.test(outcome!))).toEqual([])
    const folders = [
      home.path,
      ...['agent', 'agent/builds', `agent/builds/${neighbor}`].map(pathOf),
      neighborProcess.home,
    ]
    const listOutcomes = await Promise.all(folders.map(async path => [path, await tryFrom(shop, 'list', path)]))
    expect(listOutcomes.filter(([, outcome]) => !DENIED.test(outcome!))).toEqual([])
    for (const pid of [agent.pid, router, postgres, neighborProcess.pid])
      expect(await tryFrom(shop, 'signal', pid)).toBe('EPERM')
  })

  test('a deleted deployment leaves no process, no folder and no user', async () => {
    const { pid } = await describeProcess(neighbor)
    control.wantAbsent(neighbor)
    await agent.until(() => !fs.existsSync(home.file(`agent/builds/${neighbor}`)))
    expect(filterRunning([pid])).toEqual([])
    for (const path of [`agent/process/${neighbor}`, `agent/users/${neighbor}.json`])
      await waitFor(() => !fs.existsSync(home.file(path)))
  })
})

test.runIf(isRoot)('an application is not healthy while a process of another user listens on its port', async () => {
  const home = makeTempFolder()
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const listenCommand = `node -e "require('node:http').createServer().listen(process.env.PORT)"`
  const launch = (command: string, env: object) => {
    const options = { command, cwd: '/', user: { uid: 1_900_000_001, gid: 1_900_000_001 } }
    return ProcessReplica.launch(home, { ...options, port, env: { PATH: process.env.PATH!, ...env } })
  }
  const silentReplica = launch('sleep 600', {})
  expect(await silentReplica.probe(null, 1000)).toMatchObject({
    ok: false,
    reason: expect.stringContaining(String(port)),
  })
  await silentReplica.end(0)
  server.close()
  const listeningReplica = launch(listenCommand, { PORT: String(port) })
  await waitFor(async () => (await listeningReplica.probe(null, 1000)).ok)
  await listeningReplica.end(0)
  fs.rmSync(home, { recursive: true, force: true })
})

test('a deployment never gets the user id of another deployment, an account or a running process', () => {
  const home = makeTempFolder()
  const range = { first: 1_950_000_000, last: 1_950_000_002 }
  const users = userPerDeployment(home, range)
  const ids = [randomUUID(), randomUUID(), randomUUID()]
  const uids = ids.map(id => users.of(id).uid)
  expect(new Set(uids).size).toBe(3)
  expect(ids.map(id => userPerDeployment(home, range).of(id).uid)).toEqual(uids)
  expect(() => users.of(randomUUID())).toThrow(/in use/)
  users.forget(ids[1]!)
  expect(users.of(randomUUID()).uid).toBe(uids[1])
  expect(() => userPerDeployment(makeTempFolder(), { first: 0, last: 0 }).of(ids[0]!)).toThrow(/in use/)
  fs.rmSync(home, { recursive: true, force: true })
})

test.each<[string, unknown]>([
  ['1000', { uid: 1000, gid: 1000 }],
  ['1000:1001', { uid: 1000, gid: 1001 }],
  ['root', { uid: 0, gid: 0 }],
  ['200000-265535', { first: 200_000, last: 265_535 }],
  ['5-4', undefined],
  ['no-such-user', undefined],
  ['a:b:c', undefined],
])('AGENT_RUN_AS=%s means %o, or is refused', (text, expected) => {
  if (expected) expect(parseRunAs(text)).toEqual(expected)
  else expect(() => parseRunAs(text)).toThrow(/AGENT_RUN_AS/)
})

test.runIf(isRoot)('applications get folders below /var/lib if their users cannot enter the agent’s home', () => {
  const closedFolder = makeTempFolder()
  const home = join(closedFolder, 'agent')
  const { users, apps } = chooseIsolation({ home })
  expect(users?.isPerDeployment).toBe(true)
  expect(apps).toMatch(/^\/var\/lib\/slipway\//)
  fs.rmSync(apps, { recursive: true })
  const reachableHome = makeTempFolder()
  expect(chooseIsolation({ home: reachableHome }).apps).toBe(reachableHome)
  expect(chooseIsolation({ home: reachableHome, run_as: 'root' })).toMatchObject({
    users: undefined,
    reason: expect.any(String),
  })
  for (const folder of [closedFolder, reachableHome]) fs.rmSync(folder, { recursive: true, force: true })
})

test('applications are not in the checkout that the agent’s home is in, unless they already are', () => {
  const [checkout, state] = [makeTempFolder(), makeTempFolder()]
  fs.chmodSync(checkout, 0o755)
  fs.mkdirSync(join(checkout, 'node_modules'))
  const home = join(checkout, '.slipway/agent')
  fs.mkdirSync(home, { recursive: true })
  vi.stubEnv('XDG_STATE_HOME', state)
  onTestFinished(() => void vi.unstubAllEnvs())
  const { apps, exposed } = chooseIsolation({ home })
  expect([apps.startsWith(isRoot ? '/var/lib/slipway/' : `${state}/slipway/`), exposed]).toEqual([true, undefined])
  expect(chooseIsolation({ home, apps_home: join(checkout, 'apps') })).toMatchObject({ exposed: { checkout } })
  fs.mkdirSync(join(home, 'process', randomUUID()), { recursive: true })
  expect(chooseIsolation({ home })).toMatchObject({ apps: home, exposed: { checkout, elsewhere: apps } })
  for (const folder of [checkout, state, apps]) fs.rmSync(folder, { recursive: true, force: true })
})

test.runIf(isRoot)(
  'commands that the agent runs as an application’s user do not inherit the agent’s environment',
  () => {
    const [home, traceFolder] = [makeTempFolder(), makeTempFolder()]
    fs.chmodSync(traceFolder, 0o777)
    const user = { uid: 1_900_000_003, gid: 1_900_000_003 }
    // The loader of a program that inherits these variables writes a file.
    const traceVariables = { LD_DEBUG: 'statistics', LD_DEBUG_OUTPUT: join(traceFolder, 'inherited') }
    Object.assign(process.env, traceVariables)
    try {
      chooseIsolation({ home, run_as: `${user.uid}:${user.gid}` })
      killUserProcesses(user)
    } finally {
      for (const name of Object.keys(traceVariables)) delete process.env[name]
    }
    expect(fs.readdirSync(traceFolder)).toEqual([])
    for (const folder of [home, traceFolder]) fs.rmSync(folder, { recursive: true, force: true })
  },
)
