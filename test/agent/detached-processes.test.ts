// Detached processes do not outlive the replica, the deployment, the build or the agent that they belong to.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { runCommand } from '../../src/agent/builds/command.ts'
import type { RevisionRef } from '../../src/agent/engine.ts'
import type { ProcessEngine } from '../../src/agent/engines/process.ts'
import { chooseCgroup, newCgroupPath } from '../../src/agent/system/cgroups.ts'
import { endTracked, spawnTracked } from '../../src/agent/system/tracked-process.ts'
import { filterRunning, waitFor } from '../support/commands.ts'
import { makeTempFolder, makeUnit, openEngine, writeApplication } from '../support/process-engine.ts'

const SESSION = `'echo $$ > "$0"; exec sleep 600'`
const DOUBLE_FORK = `'(sleep 600 & echo $! > "$0") &'`
const OPTIONS = `detached: true, stdio: 'ignore'`
/** Each writes the pid of a sleeping process. In all but the first nothing connects that process with its starter. */
const DETACH_METHODS = {
  'a session of its own': `spawn('/bin/sh', ['-c', ${SESSION}, file], { ${OPTIONS} })`,
  'a double fork': `spawn('/bin/sh', ['-c', ${DOUBLE_FORK}, file], { ${OPTIONS} })`,
  'an empty environment': `spawn('/bin/sh', ['-c', ${SESSION}, file], { ${OPTIONS}, env: {} })`,
  'a double fork with an empty environment': `spawn('/bin/sh', ['-c', ${DOUBLE_FORK}, file], { ${OPTIONS}, env: {} })`,
}
type DetachMethod = keyof typeof DETACH_METHODS
const detachMethods = Object.keys(DETACH_METHODS) as DetachMethod[]

const canMakeCgroups = (() => {
  const path = newCgroupPath()
  if (!path) return false
  try {
    fs.mkdirSync(path)
    fs.rmdirSync(path)
    return true
  } catch {
    return false
  }
})()
/** How they are owned, and which ways out are closed by it. */
const OWNERSHIPS = [
  { by: 'cgroup', setting: '', closed: detachMethods, possible: canMakeCgroups },
  {
    by: 'environment and parents',
    setting: 'off',
    closed: detachMethods.slice(0, 3),
    possible: process.platform === 'linux',
  },
]

let home: string
let started: ProcessEngine[]
let ref: RevisionRef

beforeEach(() => {
  home = makeTempFolder()
  started = []
  ref = { deployment_id: randomUUID(), revision_id: randomUUID() }
})
afterEach(async () => {
  for (const engine of started) await engine.close({ stop: true })
  chooseCgroup()
  fs.rmSync(home, { recursive: true, force: true })
})

async function open() {
  const { engine } = await openEngine(home)
  started.push(engine)
  return engine
}

const detachStatement = (method: DetachMethod, i: number) =>
  `{ const file = ${JSON.stringify(join(home, `left-${i}`))}; ${DETACH_METHODS[method]}.unref() }`
const script = (closed: DetachMethod[]) => `
import { spawn } from 'node:child_process'
${closed.map(detachStatement).join('\n')}
`
/** Waits until all of them run. What a failed test leaves is killed. */
async function sleepers(closed: DetachMethod[]): Promise<number[]> {
  const pids = await waitFor(() => {
    const read = closed.map((_, i) => fs.readFileSync(join(home, `left-${i}`), { encoding: 'utf8', flag: 'a+' }))
    return read.every(text => text.endsWith('\n')) ? read.map(Number) : undefined
  })
  onTestFinished(() => {
    for (const pid of filterRunning(pids)) process.kill(pid, 'SIGKILL')
  })
  return pids
}

describe.each(OWNERSHIPS)('owned by $by', ({ setting, closed, possible }) => {
  beforeEach(context => {
    if (!possible) context.skip('this machine lets the agent make no cgroup')
    chooseCgroup(setting)
  })

  async function start(engine: ProcessEngine): Promise<number[]> {
    const code = `${script(closed)}
import { createServer } from 'node:http'
createServer((req, res) => req.url === '/end' ? process.exit(1) : res.end()).listen(process.env.PORT)`
    await engine.start(makeUnit(ref), writeApplication(home, 'leaving', code))
    await waitFor(async () => (await engine.observe(ref.deployment_id)).running[0]?.phase === 'healthy')
    return sleepers(closed)
  }

  test.each<[string, (engine: ProcessEngine) => Promise<void>]>([
    ['its revision is stopped', engine => engine.stop(ref)],
    ['its deployment is deleted', engine => engine.remove(ref.deployment_id)],
    ['the agent ends with all that it runs', engine => engine.close({ stop: true })],
  ])('nothing of it is left when %s', async (_, end) => {
    const engine = await open()
    const pids = await start(engine)
    expect(filterRunning(pids)).toHaveLength(closed.length)
    await end(engine)
    expect(filterRunning(pids)).toEqual([])
  })

  test('it keeps running without an agent, and the next agent can stop all its processes', async () => {
    const first = await open()
    const pids = await start(first)
    await first.close({ stop: false })
    const second = await open()
    expect((await second.observe(ref.deployment_id)).running[0]?.phase).toBe('healthy')
    expect(filterRunning(pids)).toHaveLength(closed.length)
    await second.remove(ref.deployment_id)
    // A child of the test's own process is seen until Node has collected it.
    await waitFor(() => filterRunning(pids).length === 0)
  })

  test('no process of a build command is left', async () => {
    // Without a cgroup, what empties its environment is known by its parent only, and that one ends here at once.
    const leaving = closed.filter(way => setting === '' || !way.includes('empty'))
    fs.writeFileSync(join(home, 'build.mjs'), script(leaving))
    const task = { log: () => {}, signal: new AbortController().signal, runningFolder: join(home, 'running') }
    const env = { PATH: process.env.PATH! }
    const left = sleepers(leaving)
    // It ends when its sleepers run.
    const command = `node build.mjs; while [ $(cat ${home}/left-* | wc -l) -lt ${leaving.length} ]; do sleep 0.02; done`
    await runCommand(['/bin/sh', '-c', command], {
      ...{ cwd: home, env, revision: ref.revision_id, task, label: 'The build' },
    })
    expect(filterRunning(await left)).toEqual([])
  })
})

test.runIf(canMakeCgroups)(
  'a process that a killed agent had not recorded yet is found by its cgroup, which is removed',
  async () => {
    const mark = join(home, 'mark')
    const env = { PATH: process.env.PATH! }
    const { child } = spawnTracked(mark, ['/bin/sh', '-c', 'sleep 600 & wait'], { env, stdio: 'ignore' })
    fs.rmSync(join(mark, 'identity.json'))
    const { cgroup } = JSON.parse(fs.readFileSync(join(mark, 'mark.json'), 'utf8'))
    expect(fs.existsSync(cgroup)).toBe(true)
    await endTracked(mark, 0)
    expect(filterRunning([child.pid!])).toEqual([])
    expect(fs.existsSync(cgroup)).toBe(false)
  },
)

test.runIf(process.platform === 'linux')(
  'a library that an application preloads is not loaded by the shell that confines it',
  async () => {
    const env = { PATH: process.env.PATH!, LD_PRELOAD: '/missing.so', ENV: 'a "quoted" $value' }
    const user = process.getuid!() === 0 ? { uid: 1_900_000_002, gid: 1_900_000_002 } : undefined
    const how = { env, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'] }
    const print = 'echo "$LD_PRELOAD $ENV"; set | grep -c SLIPWAY_HELD_ || :'
    const { child } = spawnTracked(join(home, 'mark'), ['/bin/sh', '-c', print], how, user)
    const [said, complaints] = await Promise.all([text(child.stdout!), text(child.stderr!)])
    expect(said).toBe('/missing.so a "quoted" $value\n0\n')
    // Each program that is started with it complains: the shell of the command, and `grep`.
    expect(complaints.split('\n').filter(line => line.includes('/missing.so'))).toHaveLength(2)
  },
)
