// A machine with systemd: the unit of deploy/systemd/ with the commands of the page, on a systemd of its own.
import { execFile, spawn } from 'node:child_process'
import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { CONFINED } from '../../../../src/host/operate/systemd-units.ts'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { check, findMissing, note, skipped } from '../../support/trial.ts'
import { checkInstance, checkStop, LIMITS, type Platform } from './checks.ts'
import { type Instance, waitUntilReady } from './instance.ts'
import { type Installation, ROOT, readPage, type Settings } from './self-host.ts'

const run = promisify(execFile)
const UNIT = 'deploy/systemd/slipway.service'
/** The default of systemd. */
const KILLED_AFTER_MS = 90_000
const READY_MS = 60_000

export async function tryMachine(folder: string, installation: Installation): Promise<void> {
  const unit = readFileSync(join(ROOT, UNIT), 'utf8').split('\n')
  const absent = CONFINED.split('\n').filter(line => !unit.includes(line))
  check('vm: the unit is confined as those of `slipway up`', absent.length === 0, absent.join(', '))
  if (process.getuid?.() !== 0) return skipped('vm: the unit needs root')
  const missing = findMissing('systemd', 'unshare')
  if (missing) return skipped(`vm: ${missing}`)

  await using cleanup = new AsyncDisposableStack()
  const inside = await startMachine(cleanup, folder)
  if (!inside) return skipped('vm: systemd does not start here')

  const port = await findFreePort()
  const url = `http://127.0.0.1:${port}`
  const { settings } = installation
  const lasting = Object.entries(settings).filter(([name]) => !name.startsWith('UPLOADS_S3_'))
  const values = { ...Object.fromEntries(lasting), ...LIMITS, PUBLIC_URL: url, PORT: `${port}` }
  await inside(['sh', '-c', 'cat >/root/slipway.env'], toLines(values))
  await inside(['bash', '-ec', `cd /opt/slipway\n${pageCommands('install', 'cp', 'systemctl')}`])
  const verified = await inside(['systemd-analyze', 'verify', '--man=no', 'slipway.service'])
  check('vm: systemd finds no fault in the unit', !verified.includes('slipway.service'), verified)

  const instance: Instance = {
    url,
    signal: () => void inside(['systemctl', 'stop', 'slipway']),
    ended: untilStopped(inside),
    output: () => 'the journal of slipway.service has the reason',
  }
  const platform: Platform = {
    name: 'vm',
    ready: { path: /127\.0\.0\.1:\d+(\/\w+)/.exec(readPage('operate/vm'))![1]!, withinMs: READY_MS },
    healthPath: '/healthz',
    listens: 'on the loopback',
    // Caddy overwrites what the client wrote.
    clientHeaders: client => ({ 'X-Forwarded-For': client }),
    stop: { signal: 'SIGTERM', killedAfterMs: KILLED_AFTER_MS, checkMs: 0 },
  }
  const state = '/var/lib/private/slipway/uploads'
  await checkInstance(platform, instance, installation.key, async () =>
    Number(await inside(['bash', '-c', `find ${state} -type f 2>/dev/null | wc -l`])),
  )
  const [, pid] = /MainPID=(\d+)/.exec(await inside(['systemctl', 'show', 'slipway', '--property=MainPID']))!
  const uid = /^Uid:\s+(\d+)/m.exec(await inside(['cat', `/proc/${pid}/status`]))![1]
  check('vm: the process has a user of its own', Number(uid) >= 61_184 && Number(uid) <= 65_519, uid)
  const find = ['find', '/', '-maxdepth', '4', '-type', 'd', '-writable', '-print', '-prune']
  const asProcess = ['nsenter', '-t', pid!, '-m', '-S', uid!, '-G', uid!, ...find]
  // It may not enter some folders. Debian lets every user write to /run/lock, which is in memory.
  const found = await inside(['sh', '-c', `${asProcess.join(' ')} 2>/dev/null || true`])
  const writable = found
    .trim()
    .split('\n')
    .filter(path => !/^\/(proc\/|dev\/|run\/lock$)/.test(path))
  check(
    'vm: it can write to its state and to temporary files only',
    writable.sort().join(' ') === '/tmp /var/lib/private/slipway /var/tmp',
    writable.join(' '),
  )
  await checkStop(platform, instance, installation.key)
  for (const override of readOverrides()) await checkRuntime(inside, url, platform.ready.path, override)
}

/** The settings of other runtimes on the page, each a drop-in file. */
const readOverrides = (): string[] =>
  [...readPage('operate/vm').matchAll(/```ini\n(.*?)```/gs)].map(([, settings]) => settings!)

async function checkRuntime(inside: Inside, url: string, path: string, override: string): Promise<void> {
  const folder = '/etc/systemd/system/slipway.service.d'
  await inside(['sh', '-c', `mkdir -p ${folder} && cat >${folder}/override.conf`], override)
  await inside(['sh', '-c', 'systemctl daemon-reload && systemctl restart slipway'])
  const name = /\.bin\/(\w+)/.exec(override)![1]
  const running: Instance = { url, signal: () => {}, ended: new Promise(() => {}), output: () => override }
  note(`vm: ready on ${name} after ${await waitUntilReady(running, path, READY_MS)} ms`)
  await inside(['systemctl', 'stop', 'slipway'])
  check(`vm: the unit serves on ${name}, and ends with status 0`, (await untilStopped(inside)) === 0)
}

const toLines = (settings: Settings) =>
  Object.entries(settings)
    .map(([name, value]) => `${name}=${value}\n`)
    .join('')

/** The commands of the page that begin with one of these programs. */
const pageCommands = (...programs: string[]): string =>
  /```bash\n(.*?)```/s
    .exec(readPage('operate/vm'))![1]!
    .split('\n')
    .filter(line => programs.includes(line.split(' ')[0]!))
    .join('\n')

type Inside = (command: string[], input?: string) => Promise<string>

/** Undefined if systemd does not become the first process of a namespace here. */
async function startMachine(cleanup: AsyncDisposableStack, folder: string): Promise<Inside | undefined> {
  const machine = spawn(
    'unshare',
    ['-p', '-m', '-u', '-i', '-f', 'bash', 'test/proof/trials/deploy/machine.sh', join(folder, 'machine'), ROOT],
    { cwd: ROOT, stdio: ['ignore', 'ignore', 'pipe'] },
  )
  let faults = ''
  machine.stderr.setEncoding('utf8').on('data', text => {
    faults += text
  })
  const ended = new Promise(resolve => machine.once('close', resolve))
  let first: string | undefined
  cleanup.defer(async () => {
    // The end of its first process ends a machine.
    if (first && machine.exitCode === null) process.kill(Number(first), 'SIGKILL')
    await ended
  })
  const inside: Inside = async (command, input) => {
    const path = '/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin'
    const args = [
      '-t',
      first!,
      '-p',
      '-m',
      '-u',
      '-i',
      '--wdns=/',
      'env',
      '-i',
      `PATH=${path}`,
      'HOME=/root',
      ...command,
    ]
    const running = run('nsenter', args)
    running.child.stdin!.end(input)
    const { stdout, stderr } = await running
    return stdout + stderr
  }
  for (let i = 0; i < 300 && machine.exitCode === null; i++) {
    first ??= (await run('pgrep', ['-P', `${machine.pid}`]).catch(() => ({ stdout: '' }))).stdout.trim() || undefined
    const state = first && (await inside(['systemctl', 'is-system-running']).catch(error => error.stdout as string))
    if (/^(running|degraded)/.test(state ?? '')) return inside
    await delay(100)
  }
  note(faults.trim())
  return undefined
}

/** The status of the unit's process once it was stopped. */
async function untilStopped(inside: Inside): Promise<number> {
  for (;;) {
    const text = await inside(['systemctl', 'show', 'slipway', '--property=ActiveState,Result,ExecMainStatus'])
    if (/^ActiveState=(inactive|failed)/m.test(text)) return Number(/^ExecMainStatus=(\d+)/m.exec(text)![1])
    await delay(100)
  }
}
