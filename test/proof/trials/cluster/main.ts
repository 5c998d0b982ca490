// The engine and the chart on a real Kubernetes API server. `test/proof/trials/cluster.sh` starts it.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CACHE, hasProgram, isInstalling, note, runTrial } from '../../support/trial.ts'
import { findHelm, HELM_NAMES } from '../chart/helm.ts'
import { IMAGE_TAG, tryChart } from './chart-trial.ts'
import { tryEngine } from './engine-trial.ts'
import { type Kubernetes, KWOK_NODES, startKubernetes } from './kubernetes.ts'
import { createKwokNode, createVolumes } from './nodes.ts'
import { type AnyObject, Objects } from './objects.ts'
import { writeStages } from './pod-stages.ts'
import { Results, waitUntil } from './results.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const programs = join(CACHE, 'kubernetes')
const only = process.argv.find(argument => argument.startsWith('--only='))?.slice('--only='.length)
const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-cluster-'))
const results = new Results()

await runTrial(async () => {
  const kubernetes = await startKubernetes(
    join(programs, 'bin'),
    folder,
    writeStages(join(programs, 'stages.yaml'), folder),
  )
  const stopOnSignal = () => void kubernetes.stop().then(() => process.exit(1))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, stopOnSignal)
  try {
    await tryAll(kubernetes)
  } finally {
    await kubernetes.stop()
    if (process.env.SLIPWAY_TRIALS_KEEP) note(`kept ${folder}`)
    else fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
  }
})

async function tryAll(kubernetes: Kubernetes): Promise<void> {
  const cluster = new Objects(kubernetes.config)
  await results.check('the cluster is up, with its nodes ready', async () => {
    for (const name of KWOK_NODES) await createKwokNode(cluster, name)
    await createVolumes(cluster, 8)
    const definitions = join(programs, 'gateway-api')
    for (const name of fs.readdirSync(definitions))
      await cluster.applyYaml(fs.readFileSync(join(definitions, name), 'utf8'))
    await waitUntil('the nodes are ready', async () => (await cluster.list('v1', 'Node')).every(isNodeReady))
  })
  if (only !== 'chart') await tryEngine(kubernetes, cluster, results)
  if (only === 'engine') return
  const missing = await findMissing()
  if (missing) return results.skip('the chart', missing)
  loadImages()
  for (const name of HELM_NAMES) {
    const helm = findHelm(name, CACHE, isInstalling)
    if (helm) await tryChart(kubernetes, cluster, { name, program: join(helm, 'helm') }, results)
    else results.skip(name, 'it is not in the cache. Run the trial with --install once')
  }
}

function isNodeReady({ status }: AnyObject): boolean {
  return status?.conditions?.some(
    (one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True',
  )
}

/** What running the pods of the chart needs. */
async function findMissing(): Promise<string | null> {
  if (process.getuid?.() !== 0) return 'the network of its pods needs root'
  for (const name of ['podman', 'skopeo'])
    if (!(await hasProgram(name))) return `${name} is not installed. Run the trial with --install once`
  return null
}

/** The images of this commit, for Podman. */
function loadImages(): void {
  const output = join(folder, 'image')
  const options = ['--platform', process.arch === 'arm64' ? 'arm64' : 'amd64', '--output', output, '--allow-changes']
  execFileSync(process.execPath, [join(ROOT, 'deploy/images/build.ts'), ...options], { stdio: 'ignore' })
  for (const name of ['slipway', 'slipway-agent'])
    execFileSync(
      'skopeo',
      ['copy', '--quiet', `oci:${output}:${name}`, `containers-storage:localhost/${name}:${IMAGE_TAG}`],
      {
        stdio: 'ignore',
      },
    )
}
