// The examples of graphs on Kubernetes: a real API server, images by Podman, and pods that really run, with a database,
// workers and the SDKs. The agent reaches the API only.
import * as fs from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { COMPONENT_LABEL, DEPLOYMENT_LABEL, REVISION_LABEL } from '../../../../src/agent/engines/kubernetes/names.ts'
import { startPodman } from '../../../support/podman.ts'
import { CACHE, check, findMissing, note, skipped } from '../../support/trial.ts'
import { until } from '../../support/two-hosts.ts'
import { startKubernetes } from '../cluster/kubernetes.ts'
import { createRestrictedNamespace, createVolumes, STORAGE_CLASS } from '../cluster/nodes.ts'
import { type AnyObject, Objects, type Ref } from '../cluster/objects.ts'
import { createImageFinder, pushDatabaseImage } from '../cluster/pod-images.ts'
import { HOST_ADDRESS, PodNetwork } from '../cluster/pod-network.ts'
import { writeStages } from '../cluster/pod-stages.ts'
import { PodRunner } from '../cluster/run-pods.ts'
import { pushImages } from '../whole-application/images.ts'
import { type Installation, startInstallation } from '../whole-application/installation.ts'
import { checkBySdks } from './clients.ts'
import { pushNodeImage } from './containers.ts'

const EXAMPLES = join(import.meta.dirname, '../../../../examples')
const PROGRAMS = join(CACHE, 'kubernetes')
const NAMESPACE = 'graphs'
const VOLUMES = 12
type Place = Installation & { cluster: Objects; runner: PodRunner }

async function tryExample({ slipway, api, cluster, runner }: Place, example: string): Promise<void> {
  const name = `${example}, Kubernetes`
  const since = performance.now()
  const deploy = ['deploy', join(EXAMPLES, example), '--create', '--name', example, '--yes', '--timeout', '600']
  const { code, lines, errors } = await slipway(deploy)
  note(`${name}: ${((performance.now() - since) / 1000).toFixed(1)} s from the command to its end`)
  const seen = () => `${JSON.stringify(lines.slice(-12))} ${errors} ${runner.describe()}`
  check(`${name}: it is built and serves`, code === 0, seen())
  if (code !== 0) return
  const { deployment_id: id } = lines.at(-1) as { deployment_id: string }
  const path = `/v2/deployments/${id}`
  const { body } = await api('GET', `${path}?reveal=true&reveal_only=GRAPHS_API_KEY`)
  const { application_key: key } = body as unknown as { application_key: string }
  const list = (kind: string) => cluster.list('v1', kind, NAMESPACE, `${DEPLOYMENT_LABEL}=${id}`)
  const service = (await list('Service')).find(one => one.spec.selector?.[REVISION_LABEL])!
  const url = `http://${service.spec.clusterIP}:${service.spec.ports[0].port}`
  await until('the Service answers', async () => (await fetch(`${url}/ok`)).ok, 60_000)
  const count = async () => {
    const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
    return Number(await (await fetch(`${url}/threads/count`, { method: 'POST', headers, body: '{}' })).text())
  }
  check(`${name}: without the key it is closed`, (await fetch(`${url}/info`)).status === 401)
  await checkBySdks(name, url, key)

  const threads = await count()
  const podsOf = async (component: string) =>
    (await list('Pod')).filter(
      ({ metadata }) => metadata!.labels![COMPONENT_LABEL] === component && !metadata!.deletionTimestamp,
    )
  const [pod] = await podsOf('web')
  await cluster.delete(pod as AnyObject & Ref)
  const isReplaced = async () => {
    const [next] = await podsOf('web')
    return (
      next !== undefined && next.metadata!.uid !== pod!.metadata!.uid && isReady(next) && (await fetch(`${url}/ok`)).ok
    )
  }
  const isBack = await until('another pod serves', isReplaced, 120_000).catch(() => false)
  check(`${name}: its threads outlive a pod`, isBack !== false && threads > 0 && (await count()) === threads, seen())

  await api('PATCH', path, { source_config: { resource_spec: { queue_min_scale: 1 } } })
  const isWorking = async () => (await podsOf('queue')).some(isReady) && runner.describe().includes('url=none')
  const works = await until('the worker serves', isWorking, 300_000).catch(() => false)
  check(`${name}: queue_* starts a worker that listens on nothing`, works !== false, seen())
  await checkBySdks(`${name}, with a worker`, url, key)
  const { status } = await api('DELETE', path)
  const deletedAt = performance.now()
  const left = async () => [...(await list('Pod')), ...(await list('Secret'))]
  const isGone = async () => (await left()).length === 0
  const gone = await until('nothing is left', isGone, 300_000).catch(() => false)
  note(`${name}: gone after ${((performance.now() - deletedAt) / 1000).toFixed(1)} s`)
  const described = (await left()).map(({ metadata: { name, deletionTimestamp, finalizers } = {} }) =>
    [name, deletionTimestamp ?? 'not deleted', ...(finalizers ?? [])].join(' '),
  )
  check(`${name}: deleted, it leaves nothing`, status < 300 && gone !== false, `${status} ${described.join(', ')}`)
}

const isReady = ({ status }: AnyObject): boolean =>
  status?.conditions?.some((one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True')

export async function tryKubernetes(): Promise<void> {
  const missing = findMissing('podman', 'runc', 'docker-registry', 'busybox', 'debootstrap', 'skopeo', 'ip')
  const isInstalled = fs.existsSync(join(PROGRAMS, 'bin/kube-apiserver'))
  const obstacle =
    missing ??
    (process.getuid?.() === 0 ? undefined : 'the network of pods needs root') ??
    (isInstalled ? undefined : 'no API server: npm run trial -- cluster --install')
  if (obstacle) return skipped(`Kubernetes: ${obstacle}`)
  await using cleanup = new AsyncDisposableStack()
  const folder = fs.mkdtempSync(join(tmpdir(), 'slipway-graph-cluster-'))
  cleanup.defer(() => fs.rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  const podman = await startPodman()
  cleanup.defer(() => podman.stop())
  const { base } = await pushImages(podman)
  const images = { database: await pushDatabaseImage(podman, base), node: await pushNodeImage(podman, base) }
  const stages = writeStages(join(PROGRAMS, 'stages.yaml'), folder)
  const kubernetes = await startKubernetes(join(PROGRAMS, 'bin'), folder, stages)
  cleanup.defer(() => kubernetes.stop())
  const cluster = new Objects(kubernetes.config)
  await createVolumes(cluster, VOLUMES)
  await createRestrictedNamespace(cluster, NAMESPACE, 'runner')
  const network = new PodNetwork()
  network.open()
  cleanup.defer(() => network.close())
  const runner = new PodRunner({ cluster, network, folder, findImage: createImageFinder(cleanup) })
  cleanup.defer(() => runner.close())
  await runner.open()
  const { registry } = podman
  const installation = await startInstallation(cleanup, 'kubernetes', {
    KUBECONFIG: kubernetes.writeConfig('agent', kubernetes.token),
    K8S_NAMESPACES: NAMESPACE,
    K8S_STORAGE_CLASS: STORAGE_CLASS,
    K8S_DRAIN_SECONDS: '2',
    K8S_POSTGRES_IMAGE: images.database,
    K8S_HTTP_REGISTRIES: registry,
    K8S_BUILD_SOCKET: podman.socket,
    K8S_BUILD_REGISTRY: `${registry}/built`,
    K8S_BUILD_BASE_IMAGES: `python=${base},node=${images.node}`,
  })
  note(`pods reach this machine at ${HOST_ADDRESS}`)
  for (const example of ['graph-javascript', 'graph-python'])
    await tryExample({ ...installation, cluster, runner }, example)
}
