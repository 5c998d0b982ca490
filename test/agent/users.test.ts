// An agent as root: applications and builds run as users of their own, which can read nothing of the control plane,
// the agent or each other.
import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { type AddressInfo, createServer } from 'node:net'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, test } from 'vitest'
import { ProcessReplica } from '../../src/agent/engines/process/replica.ts'
import { chooseIsolation, parseRunAs } from '../../src/agent/system/run-as.ts'
import { killUserProcesses, userPerDeployment } from '../../src/agent/system/users.ts'
import { startPostgres } from '../../src/host/embedded-postgres.ts'
import { openHome } from '../../src/host/home-folder.ts'
import { type Command, filterRunning, startCommand, stopCommands, waitFor } from '../support/commands.ts'
import { type ControlPlane, startControlPlane } from '../support/fake-control-plane.ts'
import { startGitServer } from '../support/git-server.ts'
import { makeTempFolder, requestRouter } from '../support/process-engine.ts'

const isRoot = process.platform === 'linux' && process.getuid?.() === 0

/** Reads what it is asked to, and says what came of it. */
const SPY = `
import * as fs from 'node:fs'
import { createServer } from 'node:http'
const tried = work => {
  try { return String(work()).slice(0, 200) } catch (error) { return error.code ?? String(error) }
}
createServer((req, res) => {
  const asked = new URL(req.url, 'http://x').searchParams
  if (asked.has('read')) return res.end(tried(() => fs.readFileSync(asked.get('read'))))
  if (asked.has('list')) return res.end(tried(() => fs.readdirSync(asked.get('list'))))
  if (asked.has('write')) return res.end(tried(() => fs.writeFileSync(asked.get('write'), 'x') ?? 'written'))
  if (asked.has('signal')) return res.end(tried(() => process.kill(Number(asked.get('signal')), 0)))
  const status = fs.readFileSync('/proc/self/status', 'utf8')
  res.end(JSON.stringify({ pid: process.pid, cwd: process.cwd(), home: process.env.HOME, status }))
}).listen(process.env.PORT)
`
const FILES = {
  'package.json': JSON.stringify({ scripts: { start: 'node main.mjs' } }),
  'slipway.json': JSON.stringify({
    start_command: 'node main.mjs',
    build_command: 'id -u > built-by && touch "$HOME/kept"',
  }),
  'main.mjs': SPY,
}
const DENIED = /^(EACCES|EPERM)$/

describe.runIf(isRoot)('as root', () => {
  let root: string
  let home: ReturnType<typeof openHome>
  let control: ControlPlane
  let agent: Command
  let stop: () => Promise<unknown>
  const [one, other] = [randomUUID(), randomUUID()]
  const urls = new Map<string, string>()
  const query = async (id: string, what: string, of: string | number) =>
    (await requestRouter(urls.get(id)!, `/?${what}=${encodeURIComponent(of)}`)).body
  const self = async (id: string) => JSON.parse((await requestRouter(urls.get(id)!)).body)

  beforeAll(async () => {
    root = makeTempFolder()
    fs.chmodSync(root, 0o755)
    home = openHome(join(root, '.slipway'))
    home.writeState({ url: 'http://127.0.0.1:1', api_key: 'secret', organization_id: '', tenant_id: '', pid: 1 })
    home.secrets()
    home.write('database-url', 'secret')
    const [plane, git, postgres] = await Promise.all([
      startControlPlane(),
      startGitServer(),
      startPostgres({ dataDir: home.file('postgres'), durable: false }),
    ])
    control = plane
    git.push(FILES)
    agent = startCommand('src/agent/main.ts', ['--home', home.file('agent'), '--port', '20000', '--stop'], {
      ...{ SLIPWAY_URL: control.url, SLIPWAY_LISTENER_KEY: 'key', AGENT_ALLOWED_NETWORKS: '127.0.0.0/8' },
    })
    stop = async () => {
      await stopCommands()
      await Promise.all([postgres.stop(), control.stop(), git.stop()])
      fs.rmSync(root, { recursive: true, force: true })
    }
    for (const id of [one, other]) {
      const revision = control.want(id, {
        ...{ source: 'githost', platform_config_path: null, git: { url: git.url, ref: 'main', commit_sha: null } },
      })
      await agent.until(() => control.reportedStates(revision).includes('deployed'))
      urls.set(id, control.reports.findLast(({ deployment_id, url }) => deployment_id === id && url)!.url!)
    }
  })
  afterAll(() => stop())

  test('each application has a user of its own without groups and capabilities', async () => {
    const [first, second] = [await self(one), await self(other)]
    const fieldOf = (status: string, name: string) => new RegExp(`^${name}:[ \\t]*(.*?)[ \\t]*$`, 'm').exec(status)![1]!
    const uid = fieldOf(first.status, 'Uid').split(/\s+/)[0]!
    expect(Number(uid)).toBeGreaterThanOrEqual(1_900_000_000)
    expect(fieldOf(first.status, 'Uid').split(/\s+/)).toEqual([uid, uid, uid, uid])
    expect(fieldOf(first.status, 'Gid').split(/\s+/)).toEqual([uid, uid, uid, uid])
    expect(fieldOf(first.status, 'Groups').replace(uid, '')).toBe('')
    expect(fieldOf(first.status, 'CapEff')).toMatch(/^0+$/)
    expect(fieldOf(first.status, 'NoNewPrivs')).toBe('1')
    expect(fieldOf(second.status, 'Uid')).not.toBe(fieldOf(first.status, 'Uid'))
    expect((await query(one, 'read', join(first.cwd, 'built-by'))).trim()).toBe(uid)
    expect(await query(one, 'write', join(first.home, 'file'))).toBe('written')
    expect(await query(one, 'write', join(first.cwd, 'file'))).toBe('written')
  })

  test('an application can read no secret of the control plane, the agent, Postgres or another application', async () => {
    const theirs = await self(other)
    const at = (name: string) => home.file(name)
    const router = JSON.parse(fs.readFileSync(at('agent/router.json'), 'utf8')).identity.pid
    const postgres = Number(fs.readFileSync(at('postgres/postmaster.pid'), 'utf8').split('\n')[0])
    const files = [
      ...['dev.json', 'secrets.json', 'database-url', 'postgres/slipway.password', 'postgres/pg_hba.conf'].map(at),
      ...['postgres.log', 'agent/agent.json', 'agent/router.json', `agent/builds/${one}/source/git/HEAD`].map(at),
      ...[`agent/process/${one}/deployment.json`, `agent/process/${other}/deployment.json`].map(at),
      ...[`agent/users/${other}.json`].map(at),
      join(theirs.cwd, 'main.mjs'),
      ...[agent.pid, router, postgres, process.pid, theirs.pid].map(pid => `/proc/${pid}/environ`),
    ]
    const answers = await Promise.all(files.map(async file => [file, await query(one, 'read', file)]))
    // Each of them is there, so that a wrong name is no success.
    for (const file of files) expect(fs.existsSync(file), file).toBe(true)
    expect(answers.filter(([, answer]) => !DENIED.test(answer!))).toEqual([])
    const folders = [root, home.path, at('agent'), at('agent/builds'), `${at('agent/builds')}/${other}`, theirs.home]
    const listed = await Promise.all(folders.slice(1).map(async path => [path, await query(one, 'list', path)]))
    expect(listed.filter(([, answer]) => !DENIED.test(answer!))).toEqual([])
    for (const pid of [agent.pid, router, postgres, theirs.pid]) expect(await query(one, 'signal', pid)).toBe('EPERM')
  })

  test('a deleted deployment leaves no process, no folder and no user', async () => {
    const { pid } = await self(other)
    control.wantAbsent(other)
    await agent.until(() => !fs.existsSync(home.file(`agent/builds/${other}`)))
    expect(filterRunning([pid])).toEqual([])
    for (const kept of [`agent/process/${other}`, `agent/users/${other}.json`])
      await waitFor(() => !fs.existsSync(home.file(kept)))
  })
})

test.runIf(isRoot)('an application is not healthy if another user listens on its port', async () => {
  const home = makeTempFolder()
  const server = createServer()
  await once(server.listen(0, '127.0.0.1'), 'listening')
  const { port } = server.address() as AddressInfo
  const listening = `node -e "require('node:http').createServer().listen(process.env.PORT)"`
  const launch = (command: string, env: object) => {
    const how = { command, cwd: '/', user: { uid: 1_900_000_001, gid: 1_900_000_001 } }
    return ProcessReplica.launch(home, { ...how, port, env: { PATH: process.env.PATH!, ...env } })
  }
  const waiting = launch('sleep 600', {})
  expect(await waiting.probe(null, 1000)).toMatchObject({ ok: false, reason: expect.stringContaining(String(port)) })
  await waiting.end(0)
  server.close()
  const own = launch(listening, { PORT: String(port) })
  await waitFor(async () => (await own.probe(null, 1000)).ok)
  await own.end(0)
  fs.rmSync(home, { recursive: true, force: true })
})

test('a deployment never gets the user of another deployment, an account or a running process', () => {
  const home = makeTempFolder()
  const range = { first: 1_950_000_000, last: 1_950_000_002 }
  const users = userPerDeployment(home, range)
  const ids = [randomUUID(), randomUUID(), randomUUID()]
  const given = ids.map(id => users.of(id).uid)
  expect(new Set(given).size).toBe(3)
  expect(ids.map(id => userPerDeployment(home, range).of(id).uid)).toEqual(given)
  expect(() => users.of(randomUUID())).toThrow(/in use/)
  users.forget(ids[1]!)
  expect(users.of(randomUUID()).uid).toBe(given[1])
  expect(() => userPerDeployment(makeTempFolder(), { first: 0, last: 0 }).of(ids[0]!)).toThrow(/in use/)
  fs.rmSync(home, { recursive: true, force: true })
})

test.each<[string, unknown]>([
  ['1000', { uid: 1000, gid: 1000 }],
  ['1000:1001', { uid: 1000, gid: 1001 }],
  ['root', { uid: 0, gid: 0 }],
  ['200000-265535', { first: 200_000, last: 265_535 }],
  ['5-4', undefined],
  ['nobody-at-all', undefined],
  ['a:b:c', undefined],
])('AGENT_RUN_AS %s', (text, expected) => {
  if (expected) expect(parseRunAs(text)).toEqual(expected)
  else expect(() => parseRunAs(text)).toThrow(/AGENT_RUN_AS/)
})

test.runIf(isRoot)('the folders of applications are elsewhere if users cannot reach the home', () => {
  const closed = makeTempFolder()
  const home = join(closed, 'agent')
  const { users, apps } = chooseIsolation({ home })
  expect(users?.isPerDeployment).toBe(true)
  expect(apps).toMatch(/^\/var\/lib\/slipway\//)
  fs.rmdirSync(apps)
  const open = makeTempFolder()
  expect(chooseIsolation({ home: open }).apps).toBe(open)
  expect(chooseIsolation({ home: open, run_as: 'root' })).toMatchObject({
    users: undefined,
    reason: expect.any(String),
  })
  for (const made of [closed, open]) fs.rmSync(made, { recursive: true, force: true })
})

test.runIf(isRoot)('commands that the agent runs as such a user do not get its environment', () => {
  const [home, traced] = [makeTempFolder(), makeTempFolder()]
  fs.chmodSync(traced, 0o777)
  const user = { uid: 1_900_000_003, gid: 1_900_000_003 }
  // Where a program inherits these, its loader writes a file.
  const traces = { LD_DEBUG: 'statistics', LD_DEBUG_OUTPUT: join(traced, 'inherited') }
  Object.assign(process.env, traces)
  try {
    chooseIsolation({ home, run_as: `${user.uid}:${user.gid}` })
    killUserProcesses(user)
  } finally {
    for (const name of Object.keys(traces)) delete process.env[name]
  }
  expect(fs.readdirSync(traced)).toEqual([])
  for (const made of [home, traced]) fs.rmSync(made, { recursive: true, force: true })
})
