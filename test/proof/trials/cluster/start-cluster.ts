// The cluster of a trial: its programs, its nodes and volumes, and the kinds that other projects define.
import { execFileSync } from 'node:child_process'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { CACHE, findMissing, isInstalling } from '../../support/trial.ts'
import { type Kubernetes, KWOK_NODES, startKubernetes } from './kubernetes.ts'
import { createKwokNode, createVolumes } from './nodes.ts'
import type { AnyObject, Objects } from './objects.ts'
import { writeStages } from './pod-stages.ts'
import { waitUntil } from './results.ts'

const programs = join(CACHE, 'kubernetes')
const PROGRAMS = ['etcd', 'kwok', 'kube-apiserver', 'kube-controller-manager', 'kube-scheduler']
/** Folders with the kinds that other projects define. */
const DEFINITIONS = ['gateway-api', 'volume-snapshots', 'keda']

/** With `--install`, first builds what is missing. */
export function findMissingKubernetes(): string | undefined {
  const needed = [...PROGRAMS.map(name => join('bin', name)), ...DEFINITIONS]
  const absent = () => needed.filter(name => !fs.existsSync(join(programs, name)))
  if (absent().length === 0) return undefined
  if (!isInstalling) return `${absent().join(', ')} not in ${programs}: --install`
  const missing = findMissing('go')
  if (!missing) execFileSync(join(import.meta.dirname, 'build.sh'), [programs], { stdio: 'inherit' })
  return missing
}

/** Returns why pods cannot really run here. Their network needs root. */
export const findMissingForPods = (...more: string[]): string | undefined =>
  process.getuid?.() === 0 ? findMissing('podman', 'runc', 'skopeo', 'ip', ...more) : 'it needs root'

/** It ends with the stack, and on a signal. */
export async function startCluster(cleanup: AsyncDisposableStack, folder: string): Promise<Kubernetes> {
  const stages = writeStages(join(programs, 'stages.yaml'), folder)
  const kubernetes = await startKubernetes(join(programs, 'bin'), folder, stages)
  cleanup.defer(() => kubernetes.stop())
  const stopOnSignal = () => void cleanup.disposeAsync().finally(() => process.exit(1))
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const) process.once(signal, stopOnSignal)
  return kubernetes
}

export async function fillCluster(cluster: Objects): Promise<void> {
  for (const name of KWOK_NODES) await createKwokNode(cluster, name)
  await createVolumes(cluster, 24)
  for (const definitions of DEFINITIONS.map(name => join(programs, name)))
    for (const name of fs.readdirSync(definitions))
      await cluster.applyYaml(fs.readFileSync(join(definitions, name), 'utf8'))
  await waitUntil('the nodes are ready', async () => (await cluster.list('v1', 'Node')).every(isNodeReady))
}

function isNodeReady({ status }: AnyObject): boolean {
  return status?.conditions?.some(
    (one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True',
  )
}
