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
import { findMissing, note, runTrial, skipped } from '../support/trial.ts'
import { findHelm, HELM_NAMES } from './chart/helm.ts'
import { IMAGE_TAG, tryChart } from './cluster/chart-trial.ts'
import { tryDatabases } from './cluster/databases-trial.ts'
import { tryDumpScripts } from './cluster/dump-scripts-trial.ts'
import { tryEngine } from './cluster/engine-trial.ts'
import type { Kubernetes } from './cluster/kubernetes.ts'
import { Objects } from './cluster/objects.ts'
import { IMAGE_PROGRAMS } from './cluster/real-pods.ts'
import { Results } from './cluster/results.ts'
import { fillCluster, findMissingForPods, findMissingKubernetes, startCluster } from './cluster/start-cluster.ts'

const ROOT = join(import.meta.dirname, '../../..')
const only = process.argv.find(argument => argument.startsWith('--only='))?.slice('--only='.length)
const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-cluster-'))
const results = new Results()

await runTrial(async () => {
  if (only === undefined || only === 'scripts') await tryDumpScripts(folder, results)
  if (only === 'scripts') return fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
  const missing = findMissingKubernetes()
  if (missing) return skipped(`everything: ${missing}`)
  await using cleanup = new AsyncDisposableStack()
  cleanup.defer(() => {
    if (process.env.SLIPWAY_TRIALS_KEEP) note(`kept ${folder}`)
    else fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
  })
  await tryAll(await startCluster(cleanup, folder))
})

async function tryAll(kubernetes: Kubernetes): Promise<void> {
  const cluster = new Objects(kubernetes.config)
  await results.check('the cluster is up, with its nodes ready', () => fillCluster(cluster))
  const isIn = (part: string) => only === undefined || only === part
  const missing = findMissingForPods()
  if (isIn('databases')) {
    const alsoMissing = missing ?? findMissing(...IMAGE_PROGRAMS, 'psql')
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
