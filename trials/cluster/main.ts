// The distribution on a real Kubernetes API server. `trials/cluster.sh` starts it.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { tryChart } from './chart-trial.ts'
import { tryEngine } from './engine-trial.ts'
import { KWOK_NODES, startKubernetes } from './kubernetes.ts'
import { createKwokNode, createVolumes } from './nodes.ts'
import { Objects } from './objects.ts'
import { writeStages } from './pod-stages.ts'
import { Results, waitUntil } from './results.ts'

const [programs = '', ...only] = process.argv.slice(2)
const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-cluster-'))
const results = new Results()
const stages = writeStages(join(programs, 'stages.yaml'), folder)
const kubernetes = await startKubernetes(join(programs, 'bin'), folder, stages)
const stopOnSignal = () => void kubernetes.stop().then(() => process.exit(1))
for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, stopOnSignal)
try {
  const cluster = new Objects(kubernetes.config)
  await results.check('the cluster is up, with its nodes ready', async () => {
    for (const name of KWOK_NODES) await createKwokNode(cluster, name)
    await createVolumes(cluster, 4)
    for (const name of fs.readdirSync(join(programs, 'gateway-api')))
      await cluster.applyYaml(fs.readFileSync(join(programs, 'gateway-api', name), 'utf8'))
    await waitUntil('the nodes are ready', async () => {
      const nodes = await cluster.list('v1', 'Node')
      return nodes.every(({ status }) =>
        status?.conditions?.some(
          (one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True',
        ),
      )
    })
  })
  if (only.length === 0 || only.includes('engine')) await tryEngine(kubernetes, cluster, results)
  const helms = ['helm-4.2.3', 'helm-3.17.3'].map(name => join(programs, '..', name, 'helm')).filter(fs.existsSync)
  if (only.length === 0 || only.includes('chart')) await tryChart(kubernetes, cluster, helms, results)
} finally {
  await kubernetes.stop()
  if (!process.env.SLIPWAY_TRIALS_KEEP) fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 })
  else console.log(`kept    ${folder}`)
}
process.exitCode = results.finish() ? 0 : 1
