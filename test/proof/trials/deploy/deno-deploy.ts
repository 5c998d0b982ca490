// Deno Deploy: the commands and the entry of deno.json, all by Deno, as the builder and the runtime run them.
import { execFileSync } from 'node:child_process'
import { chmodSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { get } from 'node:http'
import { join } from 'node:path'
import { setTimeout } from 'node:timers/promises'
import { findFreePort } from '../../../../src/postgres/free-port.ts'
import { check, findMissing, isInstalling, note, skipped } from '../../support/trial.ts'
import { checkInstance, checkStop, LIMITS, type Platform } from './checks.ts'
import { type Command, startInstance } from './instance.ts'
import { type Installation, ROOT, readPage } from './self-host.ts'

type DenoConfig = { deploy: { install: string; build: string; runtime: { entrypoint: string } } }

const DENO = join(ROOT, 'node_modules/deno/deno')
const KILLED_AFTER_MS = 5000
const MAX_BYTES = 10 ** 9
const CRON_MS = 60_000
const METRICS_TOKEN = 'a-token-of-this-trial'

/** Installs and builds what the CLI uploads. On the builder, `node` and `npm` are Deno too. */
function build(folder: string, { deploy }: DenoConfig): string {
  const [source, programs] = [join(folder, 'deno-deploy'), join(folder, 'deno-programs')]
  for (const path of [source, programs]) mkdirSync(path)
  const run = `exec '${DENO}' run --allow-all --no-config --unstable-detect-cjs --node-modules-dir=manual`
  const write = (name: string, command: string) => {
    writeFileSync(join(programs, name), `#!/bin/sh\n${command} "$@"\n`)
    chmodSync(join(programs, name), 0o755)
  }
  write('deno', `exec '${DENO}'`)
  write('node', run)
  // npm runs this trial with these, too.
  write('npm', `${run} '${process.env.npm_execpath}'`)
  execFileSync('sh', ['-c', `git ls-files -z | xargs -0 cp --parents --target-directory='${source}'`], { cwd: ROOT })
  const env = { ...process.env, PATH: `${programs}:/usr/bin:/bin`, CI: 'true', DENO_DEPLOY: 'true' }
  for (const command of [deploy.install, deploy.build]) {
    const startedAt = Date.now()
    execFileSync('sh', ['-c', command], { cwd: source, env, stdio: ['ignore', 'ignore', 'pipe'] })
    note(`deno-deploy: ${command}: ${((Date.now() - startedAt) / 1000).toFixed(0)} s`)
  }
  const [bytes] = execFileSync('du', ['--summarize', '--bytes', source], { encoding: 'utf8' }).split('\t')
  check('deno-deploy: the build is smaller than a gigabyte', Number(bytes) < MAX_BYTES, bytes)
  return source
}

export async function tryDenoDeploy(folder: string, installation: Installation): Promise<void> {
  const config = JSON.parse(readFileSync(join(ROOT, 'deno.json'), 'utf8')) as DenoConfig
  const { entrypoint } = config.deploy.runtime
  const page = readPage('operate/deno-deploy')
  check('deno-deploy: the page names the entry of deno.json', page.includes(`--entrypoint ${entrypoint} `))
  let source = ROOT
  if (isInstalling) source = build(folder, config)
  else skipped('deno-deploy: the build needs packages of npm: --install')
  const missing = findMissing('bwrap')
  if (missing) return skipped(`deno-deploy: ${missing}`)

  await using cleanup = new AsyncDisposableStack()
  const port = await findFreePort()
  const [delay, timeout] = ['DELAY', 'TIMEOUT'].map(
    name => new RegExp(`SHUTDOWN_${name}_SECONDS (\\d+)`).exec(page)![1]!,
  ) as [string, string]
  const url = `http://127.0.0.1:${port}`
  const command: Command = {
    command: 'bwrap',
    args: [
      '--ro-bind',
      '/',
      '/',
      '--dev',
      '/dev',
      '--proc',
      '/proc',
      '--die-with-parent',
      '--chdir',
      source,
      DENO,
      'run',
      '--allow-all',
      '--unstable-cron',
      entrypoint,
    ],
    cwd: source,
    env: {
      PATH: '/usr/bin:/bin',
      HOME: folder,
      ...installation.settings,
      ...LIMITS,
      PUBLIC_URL: url,
      METRICS_TOKEN,
      SHUTDOWN_DELAY_SECONDS: delay,
      SHUTDOWN_TIMEOUT_SECONDS: timeout,
      DENO_DEPLOY: 'true',
      DENO_SERVE_ADDRESS: `tcp:0.0.0.0:${port}`,
      DENO_TRUST_PROXY_HEADERS: '1',
    },
  }
  const instance = startInstance(cleanup, url, command, (child, name) => {
    // Deno is the child of bubblewrap, which passes no signal on.
    const deno = readFileSync(`/proc/${child.pid}/task/${child.pid}/children`, 'utf8')
    process.kill(Number(deno), name)
  })
  const platform: Platform = {
    name: 'deno-deploy',
    ready: { path: '/readyz', withinMs: 30_000 },
    healthPath: '/healthz',
    listens: 'everywhere',
    clientHeaders: (client, forged) => ({ 'X-Deno-Client-Address': `${client}:4711`, 'X-Forwarded-For': forged }),
    stop: { signal: 'SIGINT', killedAfterMs: KILLED_AFTER_MS, checkMs: 0 },
  }
  check(
    'deno-deploy: the delay and the timeout fit into the time before SIGKILL',
    1000 * (Number(delay) + Number(timeout) + 1) < KILLED_AFTER_MS,
  )
  await checkInstance(platform, instance, installation.key, installation.countUploads)
  check('deno-deploy: Deno.cron runs the scheduled work', await hasSwept(instance.url))
  await checkStop(platform, instance, installation.key)
  await checkSocket(folder, command)
}

/** Deno Deploy may have the server listen on a socket without a port. */
async function checkSocket(folder: string, command: Command): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const socketPath = join(folder, 'deno.sock')
  const env = { ...command.env, DENO_SERVE_ADDRESS: `unix:${socketPath}` }
  const args = ['run', '--allow-all', command.args.at(-1)!]
  const instance = startInstance(cleanup, '', { ...command, command: DENO, args, env })
  const readStatus = () =>
    new Promise<number | undefined>(resolve => {
      get({ socketPath, path: '/readyz' }, answer => resolve(answer.resume().statusCode)).on('error', () =>
        resolve(undefined),
      )
    })
  let status: number | undefined
  for (let i = 0; i < 300 && status !== 200; i++) {
    await setTimeout(100)
    status = await readStatus()
  }
  check('deno-deploy: it serves on a socket of the platform', status === 200, instance.output())
  await instance.signal('SIGINT')
  check('deno-deploy: and ends with status 0', (await instance.ended) === 0, instance.output())
}

/** Within a minute and what the work takes. */
async function hasSwept(url: string): Promise<boolean> {
  const headers = { Authorization: `Bearer ${METRICS_TOKEN}` }
  for (const end = Date.now() + CRON_MS + 15_000; Date.now() < end; await setTimeout(1000)) {
    const text = await (await fetch(`${url}/metrics`, { headers })).text()
    if (/^slipway_sweeps_total\{.*outcome="done"\} [1-9]/m.test(text)) return true
  }
  return false
}
