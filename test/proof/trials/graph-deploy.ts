// Graph applications by the newest command lines, unchanged, to `npm run dev`, and the SDKs at the address that they
// print, and the same examples in containers and on Kubernetes, by our own. They need Python and npm: --install.
// `--part=process`, `sleep`, `container` or `kubernetes` runs one of them; `sleep` takes 15 minutes.
import { execFile } from 'node:child_process'
import { cpSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import { check, note, optionOf, runTrial, skipped } from '../support/trial.ts'
import { checkBySdks, hasWorker, installClients, PYTHON } from './graph-deploy/clients.ts'
import { tryContainers } from './graph-deploy/containers.ts'
import { deployCommands, makeWorkFolder, read, startDev } from './graph-deploy/dev.ts'
import { tryKubernetes } from './graph-deploy/kubernetes.ts'
import { checkRoutes } from './graph-deploy/routes.ts'
import { trySleep } from './graph-deploy/sleep.ts'
import { makeSlipway } from './graph-deploy/slipway.ts'

const ROOT = join(import.meta.dirname, '../../..')
const run = promisify(execFile)

async function tryProcesses(): Promise<void> {
  await using cleanup = new AsyncDisposableStack()
  const work = makeWorkFolder(cleanup)
  const installation = await startDev(cleanup, join(work, 'home'))
  const { env, javascript, python } = deployCommands(installation, work)
  const programs = { 'graph-javascript': javascript, 'graph-python': python }
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
    const { min_scale: scale, idle_seconds: idle } = deployment.source_config?.resource_spec ?? {}
    // The command line of JavaScript sends the type `dev`.
    if (program !== process.execPath)
      check(
        `${example}: it sleeps, as its type says`,
        scale === 0 && idle > 0,
        JSON.stringify(deployment.source_config),
      )
    const links = output.match(/http:\S+\/o\/\S+\/host\/deployments\/[\w-]+/g) ?? []
    const pages = await Promise.all(links.map((link: string) => fetch(link)))
    const isThere = pages.every(page => page.ok && new URL(page.url).pathname.startsWith('/ui/'))
    check(`${example}: its ${links.length} links lead to the dashboard`, links.length > 0 && isThere, output)
    if (url === undefined) continue
    const { application_key: key } = deployment
    await checkBySdks(example, url, key)
  }
  // Our own command line needs nothing but the folder, and the address stays.
  const slipway = makeSlipway(installation, work)
  const addressIn = (output: string) => /"local_url": ?"([^"]+)"/.exec(output)?.[1]
  const first = await slipway('deploy', 'graph-python', '--create', '--name', 'own', '--yes')
  check('slipway deploy needs no option', addressIn(first) !== undefined, first)
  const again = await slipway('deploy', 'graph-python', '--name', 'own', '--yes', '--env', 'GREETING=again')
  check('its address stays with the next revision', addressIn(again) === addressIn(first), again)
  // A worker runs graphs beside the copy that listens.
  const { id } = JSON.parse(await slipway('status', 'own'))
  writeFileSync(join(work, 'queue.json'), '{"source_config": {"resource_spec": {"queue_min_scale": 1}}}')
  await slipway('api', 'PATCH', `/v2/deployments/${id}`, '--input', join(work, 'queue.json'))
  const isWorking = async () => hasWorker(await slipway('logs', 'own', '--tail', '200'))
  for (let i = 0; i < 60 && !(await isWorking()); i++) await delay(1000)
  check('queue_* starts a worker that listens on nothing', await isWorking(), await slipway('logs', 'own'))

  await checkRoutes(work, slipway)

  // Faults are named before anything is installed, and the reason reaches the person.
  const broken = join(work, 'broken')
  cpSync(join(ROOT, 'examples/graph-python'), broken, { recursive: true })
  writeFileSync(join(broken, 'agent.py'), 'raise RuntimeError("this graph cannot be loaded")\n')
  const args = ['deploy', '--remote', '--no-input', '--name', 'broken']
  const { stdout, stderr } = await run(join(PYTHON, '../langgraph'), args, { cwd: broken, env }).catch(error => error)
  check('a graph that cannot be loaded ends with its reason', /cannot be loaded/.test(stdout + stderr), stdout + stderr)

  // A revision that is interrupted ends the wait of the command line.
  const slow = [...python.slice(1), '--remote', '--no-input', '--name', 'slow', '--install-command', 'sleep 300']
  const waiting = run(python[0], slow, { cwd: join(work, 'graph-python'), env }).catch(error => error)
  const findBuilding = async () => {
    const { resources } = await read(installation, '/v2/deployments?name=slow')
    const path = `/v2/deployments/${resources?.[0]?.id}/revisions`
    const { resources: revisions } = resources?.[0] ? await read(installation, `${path}?status=BUILDING`) : {}
    return revisions?.[0] ? `${path}/${revisions[0].id}` : undefined
  }
  let building = await findBuilding()
  for (let i = 0; i < 120 && !building; i++) {
    await delay(500)
    building = await findBuilding()
  }
  const interrupted = performance.now()
  await slipway('api', 'POST', `${building}/interruption`)
  const ended = await waiting
  const seconds = (performance.now() - interrupted) / 1000
  const said = `${ended.stdout}${ended.stderr}`
  check('an interrupted revision ends the command line', Boolean(ended.code) && seconds < 30, `${seconds} s ${said}`)
  check('it prints that it was interrupted', /interrupted/i.test(said), said)
}

const PARTS = { process: tryProcesses, sleep: trySleep, container: tryContainers, kubernetes: tryKubernetes }

await runTrial(async () => {
  if (!(await installClients())) return skipped('the command lines need Python, npm and their packages: --install')
  for (const [part, trial] of Object.entries(PARTS)) if ([undefined, part].includes(optionOf('part'))) await trial()
})
