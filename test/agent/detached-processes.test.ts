// Detached processes do not outlive the replica, the deployment, the build or the agent that they belong to.
import { randomUUID } from 'node:crypto'
import * as fs from 'node:fs'
import { basename, join } from 'node:path'
import { text } from 'node:stream/consumers'
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest'
import { runCommand } from '../../src/agent/builds/command.ts'
import type { RevisionRef } from '../../src/agent/engine.ts'
import type { ProcessEngine } from '../../src/agent/engines/process.ts'
import { canLimitCpu, chooseCgroup, newCgroupPath } from '../../src/agent/system/cgroups.ts'
import { endTracked, spawnTracked } from '../../src/agent/system/tracked-process.ts'
import { filterRunning, waitFor } from '../support/commands.ts'
import { makeTempFolder, makeUnit, openEngine, writeApplication } from '../support/process-engine.ts'

const SESSION = `'echo $$ > "$0"; exec sleep 600'`
const DOUBLE_FORK = `'(sleep 600 & echo $! > "$0") &'`
const OPTIONS = `detached: true, stdio: 'ignore'`
/** Each starts a sleeping process and writes its pid. The last keeps neither its parent nor its environment. */
const DETACH_METHODS = {
  'a separate session': `spawn('/bin/sh', ['-c', ${SESSION}, file], { ${OPTIONS} })`,
  'a double fork': `spawn('/bin/sh', ['-c', ${DOUBLE_FORK}, file], { ${OPTIONS} })`,
  'an empty environment': `spawn('/bin/sh', ['-c', ${SESSION}, file], { ${OPTIONS}, env: {} })`,
  'a double fork with an empty environment': `spawn('/bin/sh', ['-c', ${DOUBLE_FORK}, file], { ${OPTIONS}, env: {} })`,
}
type DetachMethod = keyof typeof DETACH_METHODS
const detachMethods = Object.keys(DETACH_METHODS) as DetachMethod[]

/** The hierarchy of cgroup v1 with limits of processes. */
const PIDS = '/sys/fs/cgroup/pids'
const canMakeCgroupsIn = (setting: string) => {
  chooseCgroup(setting)
  const path = newCgroupPath()
  chooseCgroup()
  if (!path) return false
  try {
    fs.mkdirSync(path)
    fs.rmdirSync(path)
    return true
  } catch {
    return false
  }
}
const canMakeCgroups = canMakeCgroupsIn('')
/** The ways to find the processes of the agent, each with the ways to detach that it can follow. */
const TRACKING_MODES = [
  { by: 'cgroup', setting: '', methods: detachMethods, isAvailable: canMakeCgroups },
  { by: 'cgroup v1', setting: PIDS, methods: detachMethods, isAvailable: canMakeCgroupsIn(PIDS) },
  {
    by: 'environment and parents',
    setting: 'off',
    methods: detachMethods.slice(0, 3),
    isAvailable: process.platform === 'linux',
  },
]

let home: string
let engines: ProcessEngine[]
let ref: RevisionRef

beforeEach(() => {
  home = makeTempFolder()
  engines = []
  ref = { deployment_id: randomUUID(), revision_id: randomUUID() }
})
afterEach(async () => {
  for (const engine of engines) await engine.close({ stop: true })
  chooseCgroup()
  fs.rmSync(home, { recursive: true, force: true })
})

async function openTrackedEngine() {
  const { engine } = await openEngine(home)
  engines.push(engine)
  return engine
}

const detachStatement = (method: DetachMethod, i: number) =>
  `{ const file = ${JSON.stringify(join(home, `pid-${i}`))}; ${DETACH_METHODS[method]}.unref() }`
const detachScript = (methods: DetachMethod[]) => `
import { spawn } from 'node:child_process'
${methods.map(detachStatement).join('\n')}
`
/** Waits until all detached processes run. Kills them if the test fails before it ends them. */
async function waitForPids(methods: DetachMethod[]): Promise<number[]> {
  const pids = await waitFor(() => {
    const texts = methods.map((_, i) => fs.readFileSync(join(home, `pid-${i}`), { encoding: 'utf8', flag: 'a+' }))
    return texts.every(text => text.endsWith('\n')) ? texts.map(Number) : undefined
  })
  onTestFinished(() => {
    for (const pid of filterRunning(pids)) process.kill(pid, 'SIGKILL')
  })
  return pids
}

describe.each(TRACKING_MODES)('detached processes, tracked by $by,', ({ setting, methods, isAvailable }) => {
  beforeEach(context => {
    if (!isAvailable) context.skip('this machine does not let the agent create cgroups')
    chooseCgroup(setting)
  })

  async function startApplication(engine: ProcessEngine): Promise<number[]> {
    const code = `${detachScript(methods)}
import { createServer } from 'node:http'
createServer((req, res) => req.url === '/end' ? process.exit(1) : res.end()).listen(process.env.PORT)`
    await engine.start(makeUnit(ref), writeApplication(home, 'detaching', code))
    await waitFor(async () => (await engine.observe(ref.deployment_id)).running[0]?.phase === 'healthy')
    return waitForPids(methods)
  }

  test.each<[string, (engine: ProcessEngine) => Promise<void>]>([
    ['the revision is stopped', engine => engine.stop(ref)],
    ['the deployment is deleted', engine => engine.remove(ref.deployment_id)],
    ['the agent stops together with its applications', engine => engine.close({ stop: true })],
  ])('end when %s', async (_, end) => {
    const engine = await openTrackedEngine()
    const pids = await startApplication(engine)
    expect(filterRunning(pids)).toHaveLength(methods.length)
    await end(engine)
    expect(filterRunning(pids)).toEqual([])
  })

  test('keep running while no agent runs, and the next agent can end them', async () => {
    const first = await openTrackedEngine()
    const pids = await startApplication(first)
    await first.close({ stop: false })
    const second = await openTrackedEngine()
    expect((await second.observe(ref.deployment_id)).running[0]?.phase).toBe('healthy')
    expect(filterRunning(pids)).toHaveLength(methods.length)
    await second.remove(ref.deployment_id)
    // A child of the test's own process is listed until Node has collected it.
    await waitFor(() => filterRunning(pids).length === 0)
  })

  test('end with the build if a build command started them', async () => {
    // Without a cgroup, a process with an empty environment can be found by its parent only, which ends here at once.
    const findable = methods.filter(method => setting !== 'off' || !method.includes('empty'))
    fs.writeFileSync(join(home, 'build.mjs'), detachScript(findable))
    const task = { log: () => {}, signal: new AbortController().signal, runningFolder: join(home, 'running') }
    const env = { PATH: process.env.PATH! }
    const pids = waitForPids(findable)
    // The build ends only when all detached processes run.
    const command = `node build.mjs; while [ $(cat ${home}/pid-* | wc -l) -lt ${findable.length} ]; do sleep 0.02; done`
    await runCommand(['/bin/sh', '-c', command], {
      cwd: home,
      env,
      revision: ref.revision_id,
      task,
      label: 'The build',
    })
    expect(filterRunning(await pids)).toEqual([])
  })
})

test.runIf(canMakeCgroups)(
  'a process that an agent started but did not record before it was killed is ended by its cgroup, which is removed',
  async () => {
    const recordFolder = join(home, 'mark')
    const env = { PATH: process.env.PATH! }
    const { child } = spawnTracked(recordFolder, ['/bin/sh', '-c', 'sleep 600 & wait'], { env, stdio: 'ignore' })
    fs.rmSync(join(recordFolder, 'identity.json'))
    const { cgroup } = JSON.parse(fs.readFileSync(join(recordFolder, 'mark.json'), 'utf8'))
    expect(fs.existsSync(cgroup)).toBe(true)
    await endTracked(recordFolder, 0)
    expect(filterRunning([child.pid!])).toEqual([])
    expect(fs.existsSync(cgroup)).toBe(false)
  },
)

test.runIf(process.platform === 'linux')(
  'a library that an application preloads is not loaded by the agent’s own shell that starts it',
  async () => {
    const env = { PATH: process.env.PATH!, LD_PRELOAD: '/missing.so', ENV: 'a "quoted" $value' }
    const user = process.getuid!() === 0 ? { uid: 1_900_000_002, gid: 1_900_000_002 } : undefined
    const options = { env, cwd: '/', stdio: ['ignore', 'pipe', 'pipe'] as ['ignore', 'pipe', 'pipe'] }
    const print = 'echo "$LD_PRELOAD $ENV"; set | grep -c SLIPWAY_HELD_ || :'
    const { child } = spawnTracked(join(home, 'mark'), ['/bin/sh', '-c', print], options, user)
    const [output, errors] = await Promise.all([text(child.stdout!), text(child.stderr!)])
    expect(output).toBe('/missing.so a "quoted" $value\n0\n')
    // Only the shell of the command and `grep` try to load it.
    expect(errors.split('\n').filter(line => line.includes('/missing.so'))).toHaveLength(2)
  },
)

test.skipIf(!canLimitCpu())('a process with a limit of CPU gets no more, with all that it starts', async () => {
  const env = { PATH: process.env.PATH!, SLIPWAY_REVISION_ID: ref.revision_id }
  const busy = 'for i in 1 2; do (while :; do :; done) & done; wait'
  const tracked = spawnTracked(join(home, 'busy'), ['/bin/sh', '-c', busy], { env, stdio: 'ignore' }, undefined, 0.2)
  const start = performance.now()
  const folders = [tracked.cgroup!, join('/sys/fs/cgroup/cpu', basename(tracked.cgroup!))]
  const throttled = () =>
    folders
      .map(folder => join(folder, 'cpu.stat'))
      .some(file => fs.existsSync(file) && /^nr_throttled [1-9]/m.test(fs.readFileSync(file, 'utf8')))
  await waitFor(() => throttled() && performance.now() - start > 500)
  const cores = tracked.cpuMs()! / (performance.now() - start)
  await tracked.end(0)
  expect(cores).toBeLessThan(0.35)
  expect(folders.filter(folder => fs.existsSync(folder))).toEqual([])
})
