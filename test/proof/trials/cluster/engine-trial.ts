// The agent's Kubernetes engine on a real API server: the agent and the control plane are whole, pods are played.
import { join } from 'node:path'
import { API_VERSIONS, type Kind } from '../../../../src/agent/engines/kubernetes/cluster.ts'
import { COMPONENT_LABEL, DEPLOYMENT_LABEL, REVISION_LABEL } from '../../../../src/agent/engines/kubernetes/names.ts'
import { startControlPlane, startDatabase } from '../../kit/control-plane.ts'
import { createScenarioContext, type ScenarioContext } from '../../kit/scenario-context.ts'
import { createAgentAccount } from './agent-account.ts'
import { tryJobs } from './jobs-trial.ts'
import type { Kubernetes } from './kubernetes.ts'
import { createRestrictedNamespace, STORAGE_CLASS } from './nodes.ts'
import type { AnyObject, Objects, Ref } from './objects.ts'
import { LOG_LINE, OUTCOME, type Outcome, writeLogLine } from './pod-stages.ts'
import { expect, expectEqual, type Results, waitUntil } from './results.ts'
import { trySnapshots } from './snapshots-trial.ts'

const NAMESPACE = 'apps'
/** With a quota, and with a deployment that does not name it. */
const SMALL_NAMESPACE = 'small'
const IMAGE = `registry.example.com/shop@sha256:${'1'.repeat(64)}`
const NEXT_IMAGE = `registry.example.com/shop@sha256:${'2'.repeat(64)}`
const ROOT = join(import.meta.dirname, '../../../..')

export async function tryEngine(kubernetes: Kubernetes, cluster: Objects, results: Results): Promise<void> {
  for (const name of [NAMESPACE, SMALL_NAMESPACE]) await createRestrictedNamespace(cluster, name, 'kwok')
  const metadata = { name: 'trial', namespace: SMALL_NAMESPACE }
  await cluster.apply({ apiVersion: 'v1', kind: 'ResourceQuota', metadata, spec: { hard: { 'requests.cpu': '500m' } } })
  const { role, config } = await createAgentAccount(kubernetes, cluster, [NAMESPACE, SMALL_NAMESPACE])
  const database = await startDatabase()
  const plane = await startControlPlane(database.url, { SLIPWAY_MODE: 'self_hosted' })
  const sweeping = setInterval(() => void plane.housekeep(), 10_000)
  const contexts: ScenarioContext[] = []
  const startAgent = async (owner: string, settings: Record<string, string> = {}) => {
    const env = {
      KUBECONFIG: config,
      K8S_NAMESPACES: `${NAMESPACE},${SMALL_NAMESPACE}`,
      K8S_OWNER: owner,
      K8S_STORAGE_CLASS: STORAGE_CLASS,
      // No class is there: the trial plays the driver.
      K8S_SNAPSHOT_CLASS: 'trial',
      K8S_ROUTES: 'ingress',
      K8S_DOMAIN: 'apps.example.com',
      K8S_DRAIN_SECONDS: '2',
      AGENT_LOG_FORMAT: 'json',
      ...settings,
    }
    const variables = Object.entries(env).map(([name, value]) => `${name}=${value}`)
    const program = [process.execPath, join(ROOT, 'src/agent/main.ts'), '--engine', 'kubernetes']
    const log = join(kubernetes.folder, `agent-${owner}.log`)
    const command = ['/usr/bin/env', ...variables, '/bin/sh', '-c', `exec "$@" >>${log} 2>&1`, 'agent', ...program]
    const context = await createScenarioContext(plane, command, 'ignore')
    contexts.push(context)
    return { context, agent: await context.start() }
  }
  try {
    const first = await startAgent('first')
    const trial = new EngineTrial(cluster, first.context, kubernetes.folder)
    await trial.useNamespaces(NAMESPACE, SMALL_NAMESPACE)
    const restart = async () => {
      await first.agent.end()
      first.agent = await first.context.start()
    }
    await tryLifeCycle(trial, results, restart)
    await tryJobs(trial, results, restart)
    await trySnapshots(trial, results, restart)
    await tryQueueScaling(trial, results)
    await tryFailures(trial, results)
    await tryPermissions(trial, role, results)
    await first.agent.end()

    const gateway = { K8S_ROUTES: 'gateway', K8S_GATEWAY: 'infra/public/https', K8S_TLS: 'on' }
    const second = await startAgent('second', gateway)
    const routed = new EngineTrial(cluster, second.context, kubernetes.folder)
    await routed.useNamespaces(NAMESPACE)
    await tryGateway(routed, results)
  } finally {
    for (const context of contexts) await context.cleanUp()
    clearInterval(sweeping)
    await plane.stop()
    await database.stop()
  }
}

export class EngineTrial {
  readonly cluster: Objects
  readonly context: ScenarioContext
  readonly folder: string

  constructor(cluster: Objects, context: ScenarioContext, folder: string) {
    this.cluster = cluster
    this.context = context
    this.folder = folder
  }

  async useNamespaces(...k8s_namespaces: string[]): Promise<void> {
    const { body } = await this.context.call('GET', '/v2/listeners')
    const change = { compute_config: { k8s_namespaces } }
    const { status } = await this.context.call('PATCH', `/v2/listeners/${body.resources[0].id}`, change)
    expectEqual(status, 200, 'PATCH of the listener')
  }
  async deploy(name: string, config: Record<string, unknown> = {}, more: Record<string, unknown> = {}) {
    const { body: listeners } = await this.context.call('GET', '/v2/listeners')
    const listener_id = listeners.resources[0].id
    const place = { listener_config: { k8s_namespace: NAMESPACE } }
    const body = {
      name,
      source: 'external_container',
      source_config: { listener_id, ...place, resource_spec: {}, ...config },
      source_revision_config: { image_uri: IMAGE },
      secrets: [],
      ...more,
    }
    const answer = await this.context.call('POST', '/v2/deployments', body)
    if (answer.status !== 201) throw new Error(`The deployment was refused: ${JSON.stringify(answer.body)}`)
    return answer.body.id as string
  }
  /** Its newest revision serves. */
  waitUntilDeployed(id: string) {
    return waitUntil(`${id} serves its newest revision`, async () => {
      const one = await this.context.read(id)
      if (one.active_revision_id === one.latest_revision_id) return one
      const [newest] = await this.context.revisions(id)
      if (newest.status.endsWith('_FAILED')) throw new Error(`${newest.status}: ${newest.status_message}`)
      return null
    })
  }
  waitUntilFailed(id: string): Promise<string> {
    return waitUntil(`${id} fails`, async () => {
      const [newest] = await this.context.revisions(id)
      return newest.status.endsWith('_FAILED') && (newest.status_message as string)
    })
  }
  async deleteDeployment(id: string): Promise<void> {
    const { status } = await this.context.call('DELETE', `/v2/deployments/${id}`)
    expect(status < 300, `DELETE answered ${status}`)
    await waitUntil('nothing of it is left in the cluster', async () => (await this.list(id)).length === 0)
  }
  async listKind(kind: Kind, id: string): Promise<AnyObject[]> {
    return this.cluster.list(API_VERSIONS[kind], kind, undefined, `${DEPLOYMENT_LABEL}=${id}`)
  }
  /** The Deployment of the application itself. */
  async findApplication(id: string): Promise<AnyObject & Ref> {
    const found = (await this.listKind('Deployment', id)).filter(
      ({ metadata }) => metadata!.labels![COMPONENT_LABEL] === 'web' && !metadata!.deletionTimestamp,
    )
    expectEqual(found.length, 1, 'Deployments of the application')
    return found[0] as AnyObject & Ref
  }
  async list(id: string): Promise<AnyObject[]> {
    const kinds = (Object.keys(API_VERSIONS) as Kind[]).filter(kind => kind !== 'Event')
    return (await Promise.all(kinds.map(kind => this.listKind(kind, id)))).flat()
  }
}

async function tryLifeCycle(trial: EngineTrial, results: Results, restart: () => Promise<void>): Promise<void> {
  const { cluster, context } = trial
  let id = ''
  const isUp = await results.check('a deployment with every part becomes ready in a restricted namespace', async () => {
    id = await trial.deploy(
      'shop',
      {
        custom_url: 'https://shop.example.org/pay',
        resource_spec: {
          min_scale: 1,
          max_scale: 3,
          queue_cpu: 0.2,
          redis_memory_mb: 128,
          db_storage_gi: 5,
          db_cpu: 0.5,
          labels: { team: 'shop' },
          annotations: { note: 'trial' },
        },
      },
      { secrets: [{ name: 'TOKEN', value: 'hush' }] },
    )
    await trial.waitUntilDeployed(id)
    const kinds = (await trial.list(id)).map(({ kind }) => kind)
    return `${kinds.length} objects`
  })
  if (!isUp) return results.skip('the life of that deployment', 'it did not become ready')

  await results.check('its objects are what the page says', async () => {
    const [scaler] = await trial.listKind('HorizontalPodAutoscaler', id)
    expectEqual([scaler!.spec.minReplicas, scaler!.spec.maxReplicas], [1, 3], 'bounds of the autoscaler')
    const routes = await trial.listKind('Ingress', id)
    const hosts = routes.map(({ spec }) => spec.rules[0].host).sort()
    expect(hosts[0].endsWith('.apps.example.com') && hosts[1] === 'shop.example.org', `hosts ${hosts}`)
    const [claim] = await trial.listKind('PersistentVolumeClaim', id)
    expectEqual([claim!.status.phase, claim!.spec.resources.requests.storage], ['Bound', '5Gi'], 'claim')
    const sets = await trial.listKind('StatefulSet', id)
    expectEqual(sets.map(({ status }) => status.readyReplicas).join(), '1,1', 'ready pods of database and Redis')
    const deployments = await trial.listKind('Deployment', id)
    expectEqual(deployments.length, 2, 'Deployments of the application and its queue')
    for (const { metadata } of deployments) expectEqual(metadata!.labels!.team, 'shop', 'label')
  })

  await results.check('the log of a pod becomes the log of the deployment', async () => {
    await waitUntil('the line arrives', async () => {
      writeLogLine(trial.folder)
      const { body } = await context.call('POST', `/v1/projects/${id}/deploy_logs`, { limit: 1000 })
      return body.logs.some(({ message }: { message: string }) => message.includes(LOG_LINE))
    })
  })

  await results.check('the next agent applies the same objects, which changes nothing', async () => {
    const read = async () =>
      (await trial.list(id))
        // Their status changes by itself.
        .filter(({ kind }) => kind !== 'Pod' && kind !== 'HorizontalPodAutoscaler')
        .map(({ kind, metadata }) => `${kind} ${metadata!.name} ${metadata!.resourceVersion}`)
        .sort()
    const before = await read()
    await restart()
    await waitUntil('the agent has polled and settled', () => context.isReconciled(id))
    await new Promise(resolve => setTimeout(resolve, 5000))
    expectEqual(await read(), before, 'objects')
    return `${before.length} objects`
  })

  await results.check('a new image switches to the next revision, and the old pods go', async () => {
    const [service] = (await trial.listKind('Service', id)).filter(one => one.spec.selector[REVISION_LABEL])
    const before = service!.spec.selector[REVISION_LABEL]
    await context.patch(id, { source_revision_config: { image_uri: NEXT_IMAGE } })
    const { active_revision_id } = await trial.waitUntilDeployed(id)
    const after = await cluster.read(service as never)
    expectEqual(after!.spec.selector[REVISION_LABEL], active_revision_id, 'revision of the Service')
    expect(before !== active_revision_id, 'the revision is the same')
    await waitUntil('the pods of the old revision are gone', async () =>
      (await trial.listKind('Pod', id)).every(pod => pod.metadata!.labels![REVISION_LABEL] !== before),
    )
  })

  await results.check('the next agent changes back what others changed, and the log names them', async () => {
    const deployment = await trial.findApplication(id)
    const { apiVersion, kind, metadata } = deployment
    const ref = { apiVersion, kind, metadata: { name: metadata.name, namespace: NAMESPACE } }
    const containers = [{ ...deployment.spec.template.spec.containers[0], image: 'example.com/other:1' }]
    await cluster.patch({ ...ref, spec: { template: { spec: { containers } } } })
    await restart()
    await waitUntil('the image is back', async () => {
      const now = await cluster.read(ref)
      return now!.spec.template.spec.containers[0].image === NEXT_IMAGE
    })
    await waitUntil('the log names the other manager', async () => {
      const { body } = await context.call('POST', `/v1/projects/${id}/deploy_logs`, { limit: 1000 })
      return body.logs.some(({ message }: { message: string }) => message.includes('conflict with "trial"'))
    })
  })

  await results.check('a deleted Deployment comes back', async () => {
    const deployment = await trial.findApplication(id)
    await cluster.delete(deployment)
    await waitUntil('it is back and available', async () => {
      const again = await trial.findApplication(id).catch(() => null)
      return again?.metadata.uid !== deployment.metadata.uid && again?.status?.availableReplicas >= 1
    })
  })

  await results.check('a deleted deployment leaves nothing', async () => {
    await trial.deleteDeployment(id)
  })
}

/** Nothing plays the operator of KEDA: the API server checks what its definition says. */
async function tryQueueScaling(trial: EngineTrial, results: Results): Promise<void> {
  const { context } = trial
  await results.check('copies of a queue are a ScaledObject of KEDA, and those of the CPU take its place', async () => {
    const scaling = { min_scale: 0, max_scale: 5, scale_metric: 'queue', scale_path: '/queue' }
    const resource_spec = { queue_cpu: 0.1, process_scaling: { queue: scaling } }
    const id = await trial.deploy('queued', { resource_spec })
    await trial.waitUntilDeployed(id)
    const [scaled] = await waitUntil('the ScaledObject is there', async () => {
      const found = await trial.listKind('ScaledObject', id)
      return found.length > 0 && found
    })
    expectEqual([scaled!.spec.minReplicaCount, scaled!.spec.maxReplicaCount], [0, 5], 'bounds')
    const queue = { ...scaling, min_scale: 1, scale_metric: 'cpu', scale_path: undefined }
    await context.patch(id, { source_config: { resource_spec: { process_scaling: { queue } } } })
    await waitUntil('an autoscaler takes its place', async () => {
      const [left, scalers] = [await trial.listKind('ScaledObject', id), 'HorizontalPodAutoscaler' as const]
      return left.length === 0 && (await trial.listKind(scalers, id)).length === 1
    })
    await trial.deleteDeployment(id)
  })
}

/** At the same time: some need a minute until waiting is hopeless. */
async function tryFailures(trial: EngineTrial, results: Results): Promise<void> {
  const withOutcome = (outcome: Outcome) => ({ resource_spec: { annotations: { [OUTCOME]: outcome } } })
  const sidecars = [{ name: 'root', image: IMAGE, securityContext: { runAsUser: 0, runAsNonRoot: false } }]
  const cases: [string, Record<string, unknown>, RegExp][] = [
    ['an invalid image', withOutcome('invalid-image'), /not a valid image name/],
    ['a crash loop', withOutcome('crash'), /ended with exit code 3[\s\S]*listening on 8000/],
    ['a missing image', withOutcome('missing-image'), /cannot be pulled \(Back-off pulling image: manifest unknown\)/],
    [
      'an exceeded quota',
      { resource_spec: { cpu: 1, cpu_limit: 1 }, listener_config: { k8s_namespace: SMALL_NAMESPACE } },
      /quota of the namespace is exceeded/,
    ],
  ]
  const tryCase = ([name, config, reason]: (typeof cases)[number]) =>
    results.check(`${name} fails the revision with its reason`, async () => {
      const id = await trial.deploy(name.replaceAll(' ', '-'), config)
      const message = await trial.waitUntilFailed(id)
      expect(reason.test(message), `the reason is: ${message}`)
      await trial.deleteDeployment(id)
    })
  const refusal = results.check('a container that runs as root is refused before it is created', async () => {
    const outcome = await trial.deploy('root', { resource_spec: { sidecars } }).catch((error: Error) => error.message)
    expect(/not_allowed_by_listener/.test(outcome), `the answer is: ${outcome}`)
  })
  await Promise.all([refusal, ...cases.map(tryCase)])
}

async function tryPermissions(trial: EngineTrial, role: AnyObject, results: Results): Promise<void> {
  const cases: [string, RegExp][] = [
    ['services', /no permission to (read|list|apply) Service.*"services"/],
    ['deployments', /no permission to (read|list|apply) Deployment.*"deployments"/],
    ['secrets', /no permission to (read|list|apply) Secret.*"secrets"/],
  ]
  for (const [resource, reason] of cases)
    await results.check(`a Role without creating ${resource} is named in the reason`, async () => {
      const rules = (role.rules as { resources: string[]; verbs: string[] }[]).flatMap(rule => {
        if (!rule.resources.includes(resource)) return [rule]
        const others = rule.resources.filter(one => one !== resource)
        const reading = rule.verbs.filter(verb => verb !== 'create' && verb !== 'patch')
        return [
          ...(others.length > 0 ? [{ ...rule, resources: others }] : []),
          { ...rule, resources: [resource], verbs: reading },
        ]
      })
      await trial.cluster.apply({ ...role, rules })
      try {
        const id = await trial.deploy(`without-${resource}`, {}, { secrets: [{ name: 'TOKEN', value: 'hush' }] })
        const message = await trial.waitUntilFailed(id)
        expect(reason.test(message), `the reason is: ${message}`)
        await trial.cluster.apply(role)
        await trial.deleteDeployment(id)
      } finally {
        await trial.cluster.apply(role)
      }
    })
}

async function tryGateway(trial: EngineTrial, results: Results): Promise<void> {
  await results.check('a gateway gets an HTTPRoute for each host, and loses it', async () => {
    const id = await trial.deploy('routed', { custom_url: 'https://routed.example.org' })
    const { url } = await trial.waitUntilDeployed(id)
    const routes = await trial.listKind('HTTPRoute', id)
    expectEqual(routes.flatMap(({ spec }) => spec.hostnames).includes('routed.example.org'), true, 'custom host')
    expectEqual(routes.length, 2, 'routes')
    expectEqual(routes[0]!.spec.parentRefs[0].sectionName, 'https', 'listener of the gateway')
    expectEqual(url, 'https://routed.example.org', 'address')
    await trial.deleteDeployment(id)
  })
}
