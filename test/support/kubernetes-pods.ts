// Does the work of nodes and controllers of a cluster, when a test says so.
import type { Engine, RevisionSpec } from '../../src/agent/engine.ts'
import { JOB_NAME_LABEL } from '../../src/agent/engines/kubernetes/names.ts'
import { type Observed, plan, type Wanted } from '../../src/agent/reconcile/plan.ts'
import type { KubernetesApi } from './kubernetes-api.ts'
import { makeArtifact } from './kubernetes-fixtures.ts'
import type { Change, Stored } from './kubernetes-store.ts'

type Status = Record<string, unknown>

export function putPod(api: KubernetesApi, workload: Stored, status: Status, i = 0): Stored {
  const { labels: own, annotations } = workload.spec.template.metadata
  const labels = { ...own, ...(workload.kind === 'Job' && { [JOB_NAME_LABEL]: workload.metadata.name }) }
  const name = `${workload.metadata.name}-${i}`
  const metadata = { name, namespace: workload.metadata.namespace, labels, ...(annotations && { annotations }) }
  api.put({ apiVersion: 'v1', kind: 'Pod', metadata, spec: workload.spec.template.spec }, 'kubelet')
  api.status('Pod', name, status, workload.metadata.namespace)
  return api.get('Pod', name, workload.metadata.namespace)
}

export const makeRunningStatus = (name: string, ready = true): Status => ({
  phase: 'Running',
  startTime: new Date().toISOString(),
  containerStatuses: [
    {
      name,
      image: 'i',
      imageID: 'i',
      ready,
      restartCount: 0,
      state: { running: { startedAt: new Date().toISOString() } },
    },
  ],
})

/** All replicas run and are ready. */
export function bringUp(api: KubernetesApi, { kind, metadata: { name, namespace } }: Stored): void {
  if (!api.has(kind, name, namespace)) return
  const workload = api.get(kind, name, namespace)
  const replicas = workload.spec.replicas ?? 1
  for (let i = 0; i < replicas; i++)
    putPod(api, workload, makeRunningStatus(workload.spec.template.spec.containers[0].name), i)
  const all = {
    replicas,
    readyReplicas: replicas,
    availableReplicas: replicas,
    updatedReplicas: replicas,
  }
  api.status(kind, name, { observedGeneration: workload.metadata.generation, ...all }, namespace)
}

/** The deployment has one pod with that status, or none, and is not available. */
export function setUnavailable(
  api: KubernetesApi,
  name: string,
  pod: Status | null,
  deployment: Status = {},
): Stored | null {
  const workload = api.get('Deployment', name)
  const counts = { replicas: pod ? 1 : 0, availableReplicas: 0, updatedReplicas: pod ? 1 : 0 }
  api.status('Deployment', name, { observedGeneration: workload.metadata.generation, ...counts, ...deployment })
  return pod && putPod(api, workload, pod)
}

/** Every workload becomes ready once it is applied, until the returned function is called. */
export function bringUpAutomatically(api: KubernetesApi): () => void {
  const onChange = ({ type, object }: Change) => {
    if (type === 'DELETED' || (object.kind !== 'Deployment' && object.kind !== 'StatefulSet')) return
    if (object.status?.observedGeneration !== object.metadata.generation) queueMicrotask(() => bringUp(api, object))
  }
  api.listeners.add(onChange)
  return () => void api.listeners.delete(onChange)
}

/** A pod of a Job has ended, and the Job with it. */
export function endJob(
  api: KubernetesApi,
  name: string,
  { message = '', exitCode = 0, namespace = 'apps' } = {},
): void {
  const job = api.get('Job', name, namespace)
  const [{ name: container }] = job.spec.template.spec.containers
  const terminated = { exitCode, message, reason: exitCode ? 'Error' : 'Completed', finishedAt: new Date() }
  const containerStatuses = [{ name: container, image: 'i', imageID: 'i', ready: false, state: { terminated } }]
  putPod(api, job, { phase: exitCode ? 'Failed' : 'Succeeded', containerStatuses })
  const condition = { type: exitCode ? 'Failed' : 'Complete', status: 'True', message: 'It ended.' }
  api.status('Job', name, { startTime: new Date().toISOString(), conditions: [condition] }, namespace)
}

/** Follows the plan, as an agent would, until nothing is left to do. Calls `afterAction` after every action. */
export async function reconcileUntilStable(
  engine: Engine,
  wanted: Partial<Wanted>,
  units: RevisionSpec[],
  afterAction: () => void = () => {},
  artifact = makeArtifact(),
): Promise<{ actions: string[]; observed: Observed }> {
  const actions: string[] = []
  const id = units[0]!.deployment_id
  const built = new Set<string>()
  const failed = new Set<string>()
  for (let round = 0; round < 60; round++) {
    const observation = await engine.observe(id)
    const revisions: Observed['revisions'] = {}
    for (const { revision_id } of observation.running) built.add(revision_id)
    for (const revision of built) revisions[revision] = failed.has(revision) ? 'failed' : 'built'
    for (const { revision_id, phase } of observation.running) revisions[revision_id] = phase
    const database = observation.database === null ? 'none' : observation.database.ready ? 'ready' : 'coming'
    const observed: Observed = { revisions, routed: observation.routed, database, hasRemains: observation.hasRemains }
    const steps = plan(
      { present: true, target: null, serving: null, database: units[0]!.needs_database, ...wanted },
      observed,
    )
    if (steps.length === 0 && !Object.values(revisions).includes('draining') && database !== 'coming')
      return { actions, observed }
    for (const step of steps) {
      const unit = 'revision' in step ? units.find(({ revision_id }) => revision_id === step.revision) : units[0]
      const ref = { deployment_id: id, revision_id: 'revision' in step ? step.revision : '' }
      actions.push('revision' in step ? `${step.do} ${unit?.number ?? '?'}` : step.do)
      if (step.do === 'build') built.add(ref.revision_id)
      if (step.do === 'forget') built.delete(ref.revision_id)
      if (step.do === 'start') await engine.start(unit!, artifact)
      if (step.do === 'switch') await engine.route(unit!)
      if (step.do === 'drain') await engine.drain(ref)
      if (step.do === 'stop' || step.do === 'give_up') await engine.stop(ref)
      if (step.do === 'give_up') failed.add(ref.revision_id)
      if (step.do === 'provide') await engine.provide(unit!)
      if (step.do === 'remove') await engine.remove(id)
      afterAction()
    }
  }
  throw new Error(`Still not stable after 60 rounds: ${actions}`)
}
