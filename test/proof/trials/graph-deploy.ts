// Graph applications by the newest command lines, unchanged, to `npm run dev`, and the SDKs at the address that they
// print. They need Python and npm: --install.
import { execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, cpSync, existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { findFreePort } from '../../../src/postgres/free-port.ts'
import { CACHE, check, findMissing, isInstalling, note, runTrial, skipped } from '../support/trial.ts'

const ROOT = join(import.meta.dirname, '../../..')
const FOLDER = join(CACHE, 'graph-deploy')
const PYTHON = join(FOLDER, 'python/bin/python')
const CLI = join(FOLDER, 'npm/node_modules/@langchain/langgraph-cli/dist/cli/cli.mjs')
const PYTHON_PACKAGES = ['langgraph-cli==0.4.40', 'langgraph-sdk==0.4.14']
const NPM_PACKAGES = ['@langchain/langgraph-cli@1.5.1', '@langchain/langgraph-sdk@1.15.0']
const run = promisify(execFile)

type Installation = { url: string; api_key: string }
type Step = { step: string; ok: boolean; detail: string }

async function installClients(): Promise<boolean> {
  if (isInstalling && !findMissing('python3', 'npm')) {
    mkdirSync(join(FOLDER, 'npm'), { recursive: true })
    if (!existsSync(PYTHON)) await run('python3', ['-m', 'venv', join(FOLDER, 'python')])
    await run(PYTHON, ['-m', 'pip', 'install', '--quiet', ...PYTHON_PACKAGES])
    writeFileSync(join(FOLDER, 'npm/package.json'), '{"private": true}')
    await run('npm', ['install', '--no-audit', '--no-fund', ...NPM_PACKAGES], { cwd: join(FOLDER, 'npm') })
  }
  return existsSync(PYTHON) && existsSync(CLI)
}

async function startDev(cleanup: AsyncDisposableStack, home: string): Promise<Installation> {
  const port = String(await findFreePort())
  const dev = spawn(process.execPath, ['-r', './src/host/require-node.cjs', 'src/host/dev.ts', '--port', port], {
    cwd: ROOT,
    env: { ...process.env, SLIPWAY_HOME: home, CONTRACT_WORDS: 'langgraph' },
    stdio: 'ignore',
  })
  cleanup.defer(async () => {
    if (dev.exitCode !== null || !dev.kill('SIGTERM')) return
    await once(dev, 'exit')
  })
  const file = join(home, 'dev.json')
  for (let i = 0; i < 600 && !existsSync(file); i++) await delay(200)
  return JSON.parse(readFileSync(file, 'utf8'))
}

const read = async ({ url, api_key }: Installation, path: string) => {
  const headers = { 'X-Api-Key': api_key, 'X-Contract-Words': 'contract' }
  return (await fetch(`${url}${path}`, { headers })).json()
}

await runTrial(async () => {
  await using cleanup = new AsyncDisposableStack()
  if (!(await installClients())) return skipped('the command lines need Python, npm and their packages: --install')
  const work = mkdtempSync(join(tmpdir(), 'slipway-graphs-'))
  // Applications run as other users.
  chmodSync(work, 0o755)
  cleanup.defer(() => rmSync(work, { recursive: true, force: true, maxRetries: 9 }))
  const installation = await startDev(cleanup, join(work, 'home'))
  const env = {
    PATH: process.env.PATH,
    HOME: work,
    LANGGRAPH_HOST_URL: installation.url,
    LANGSMITH_API_KEY: installation.api_key,
    LANGGRAPH_CLI_NO_ANALYTICS: '1',
  }
  const programs: Record<string, [string, ...string[]]> = {
    'graph-javascript': [process.execPath, CLI, 'deploy', '--host-url', installation.url],
    'graph-python': [join(PYTHON, '../langgraph'), 'deploy'],
  }
  for (const [example, [program, ...first]] of Object.entries(programs)) {
    const folder = join(work, example)
    cpSync(join(ROOT, 'examples', example), folder, { recursive: true })
    writeFileSync(join(folder, '.env'), 'GREETING=hello\nLANGSMITH_PROJECT=other\n')
    const since = performance.now()
    const deploy = (...args: string[]) =>
      run(program, [...first, '--remote', '--no-input', '--name', example, ...args], { cwd: folder, env }).then(
        ({ stdout, stderr }) => ({ ok: true, output: stdout + stderr }),
        ({ stdout, stderr, message }) => ({ ok: false, output: `${stdout ?? ''}${stderr ?? ''}` || message }),
      )
    const { ok, output } = await deploy()
    note(`${example}: ${((performance.now() - since) / 1000).toFixed(1)} s from the command to its end`)
    check(`${example}: the command line deploys it`, ok, output)
    const url = /http:\/\/127\.0\.0\.1:\d+(?=\s|$)/m.exec(output)?.[0]
    check(`${example}: it prints an address without a name`, url !== undefined, output)
    const { resources } = await read(installation, `/v2/deployments?name=${example}`)
    const deployment = await read(installation, `/v2/deployments/${resources[0]?.id}?reveal=true`)
    check(`${example}: it has a key, and its variables`, /^slg_/.test(deployment.application_key ?? ''), output)
    check(`${example}: its variables are secrets`, deployment.secrets?.[0]?.name === 'GREETING')
    if (url === undefined) continue
    const { application_key: key } = deployment
    const sdks: [string, ...string[]][] = [
      [PYTHON, join(import.meta.dirname, 'graph-deploy/sdk.py'), url, key],
      [process.execPath, join(import.meta.dirname, 'graph-deploy/sdk.mjs'), join(FOLDER, 'npm'), url, key],
    ]
    for (const [sdk, ...args] of sdks) {
      const { stdout, stderr } = await run(sdk, args).catch(error => error)
      const steps = `${stdout}`.split('\n').filter(line => line.startsWith('{'))
      check(`${example}: the program of ${sdk === PYTHON ? 'Python' : 'JavaScript'} ends`, steps.length === 4, stderr)
      for (const { step, ok: isRight, detail } of steps.map(line => JSON.parse(line) as Step))
        check(`${example}, ${sdk === PYTHON ? 'Python' : 'JavaScript'}: ${step}`, isRight, detail)
    }
  }
  // Our own command line needs nothing but the folder, and the address stays.
  const own = { ...process.env, SLIPWAY_URL: installation.url, SLIPWAY_API_KEY: installation.api_key }
  const slipway = (...args: string[]) =>
    run(process.execPath, [join(ROOT, 'src/cli/main.ts'), ...args], { cwd: work, env: own }).then(
      ({ stdout }) => stdout,
      ({ stdout, stderr }) => `${stdout}${stderr}`,
    )
  const addressIn = (output: string) => /"local_url": ?"([^"]+)"/.exec(output)?.[1]
  const first = await slipway('deploy', 'graph-python', '--create', '--name', 'own', '--yes')
  check('slipway deploy needs no option', addressIn(first) !== undefined, first)
  const again = await slipway('deploy', 'graph-python', '--name', 'own', '--yes', '--env', 'GREETING=again')
  check('its address stays with the next revision', addressIn(again) === addressIn(first), again)
  // A worker runs graphs beside the copy that listens.
  const { id } = JSON.parse(await slipway('status', 'own'))
  writeFileSync(join(work, 'queue.json'), '{"source_config": {"resource_spec": {"queue_min_scale": 1}}}')
  await slipway('api', 'PATCH', `/v2/deployments/${id}`, '--input', join(work, 'queue.json'))
  const isWorking = async () => (await slipway('logs', 'own', '--tail', '200')).includes('[queue] graphs served')
  for (let i = 0; i < 60 && !(await isWorking()); i++) await delay(1000)
  check('queue_* starts a worker that listens on nothing', await isWorking(), await slipway('logs', 'own'))

  // Faults are named before anything is installed, and the reason reaches the person.
  const broken = join(work, 'broken')
  cpSync(join(ROOT, 'examples/graph-python'), broken, { recursive: true })
  writeFileSync(join(broken, 'agent.py'), 'raise RuntimeError("this graph cannot be loaded")\n')
  const args = ['deploy', '--remote', '--no-input', '--name', 'broken']
  const { stdout, stderr } = await run(join(PYTHON, '../langgraph'), args, { cwd: broken, env }).catch(error => error)
  check('a graph that cannot be loaded ends with its reason', /cannot be loaded/.test(stdout + stderr), stdout + stderr)
})
