// The agent's engine and the chart, with Helm 3 and 4, on a real Kubernetes API server on this machine.
//
// Nodes are played: by kwok for most pods of the engine, and by this trial for databases and the chart. It runs their
// pods with Podman, those of the chart from the images of this commit. `--install` builds the programs of Kubernetes
// from their Go modules (ten minutes, once). `--only=scripts`, `--only=databases`, `--only=engine` and `--only=chart`
// run one part.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { CACHE, findMissing, isInstalling, note, runTrial, skipped } from '../support/trial.ts'
import { findHelm, HELM_NAMES } from './chart/helm.ts'
import { IMAGE_TAG, tryChart } from './cluster/chart-trial.ts'
import { tryDatabases } from './cluster/databases-trial.ts'
import { tryDumpScripts } from './cluster/dump-scripts-trial.ts'
import { tryEngine } from './cluster/engine-trial.ts'
import { type Kubernetes, KWOK_NODES, startKubernetes } from './cluster/kubernetes.ts'
import { createKwokNode, createVolumes } from './cluster/nodes.ts'
import { type AnyObject, Objects } from './cluster/objects.ts'
import { writeStages } from './cluster/pod-stages.ts'
import { Results, waitUntil } from './cluster/results.ts'

const ROOT = join(import.meta.dirname, '../../..')
const programs = join(CACHE, 'kubernetes')
const PROGRAMS = ['etcd', 'kwok', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler']
/** Folders with the kinds that other projects define. */
const DEFINITIONS = ['gateway-api', 'volume-snapshots', 'keda']
const only = process.argv.find(argument => argument.startsWith('--only='))?.slice('--only='.length)
const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-cluster-'))
const results = new Results()

await runTrial(async () => {
  if (only === undefined || only === 'scripts') await tryDumpScripts(folder, results)
  if (only === 'scripts') return fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
  const missing = findMissingKubernetes()
  if (missing) return skipped(`everything: ${missing}`)
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
    await createVolumes(cluster, 24)
    for (const definitions of DEFINITIONS.map(name => join(programs, name)))
      for (const name of fs.readdirSync(definitions))
        await cluster.applyYaml(fs.readFileSync(join(definitions, name), 'utf8'))
    await waitUntil('the nodes are ready', async () => (await cluster.list('v1', 'Node')).every(isNodeReady))
  })
  const isIn = (part: string) => only === undefined || only === part
  // The network of pods needs root.
  const missing = process.getuid?.() === 0 ? findMissing('podman', 'runc', 'skopeo', 'ip') : 'it needs root'
  if (isIn('databases')) {
    const alsoMissing = missing ?? findMissing('docker-registry', 'busybox', 'debootstrap', 'psql')
    if (alsoMissing) skipped(`databases that run: ${alsoMissing}`)
    else await tryDatabases(kubernetes, cluster, results)
  }
  if (isIn('engine')) await tryEngine(kubernetes, cluster, results)
  if (!isIn('chart')) return
  if (missing) return skipped(`the chart: ${missing}`)
  loadImages()
  for (const name of HELM_NAMES) {
    const helm = findHelm(name)
    if ('missing' in helm) skipped(`${name}: ${helm.missing}`)
    else await tryChart(kubernetes, cluster, { name, program: join(helm.folder, 'helm') }, results)
  }
}

function findMissingKubernetes(): string | undefined {
  const needed = [...PROGRAMS.map(name => join('bin', name)), ...DEFINITIONS]
  const absent = () => needed.filter(name => !fs.existsSync(join(programs, name)))
  if (absent().length === 0) return undefined
  if (!isInstalling) return `${absent().join(', ')} not in ${programs}: --install`
  const missing = findMissing('go')
  if (!missing) execFileSync(join(import.meta.dirname, 'cluster/build.sh'), [programs], { stdio: 'inherit' })
  return missing
}

function isNodeReady({ status }: AnyObject): boolean {
  return status?.conditions?.some(
    (one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True',
  )
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
