// Terminals into the pods of a deployment, and connections to their ports and stores.
import type { V1Pod } from '@kubernetes/client-node'
import type { NewForward, NewTerminal } from '../../../protocol/tunnels.schema.ts'
import { type ForwardTarget, PermanentError, type RevisionRef, type Terminal } from '../../engine.ts'
import { WEB } from '../process-types.ts'
import { loginOf } from '../store-variables.ts'
import type { Cluster } from './cluster.ts'
import type { DeploymentObjects } from './deployment-objects.ts'
import { COMPONENT_LABEL, ownerLabels, REVISION_LABEL } from './names.ts'
import { connectToPod, startPodTerminal } from './pod-sockets.ts'
import { APP_CONTAINER, APP_PORT } from './pod-template.ts'
import type { KubernetesSettings } from './settings.ts'

type Options = { cluster: Cluster; objects: DeploymentObjects; settings: Pick<KubernetesSettings, 'owner'> }

export class PodAccess {
  readonly #options: Options

  constructor(options: Options) {
    this.#options = options
  }

  async openTerminal(ref: RevisionRef, id: string, request: NewTerminal): Promise<Terminal> {
    const pod = await this.#findCopy(ref, request.copy)
    return startPodTerminal(this.#options.cluster.config, { ...pod, container: APP_CONTAINER }, id, request)
  }

  async openForward(ref: RevisionRef, { store, port, copy }: NewForward): Promise<ForwardTarget> {
    if (store) return this.#forwardToStore(ref.deployment_id, store)
    const pod = await this.#findCopy(ref, copy)
    return { connect: () => connectToPod(this.#options.cluster.config, pod, port ?? APP_PORT) }
  }

  async #forwardToStore(deployment_id: string, store: NonNullable<NewForward['store']>): Promise<ForwardTarget> {
    const { cluster, objects } = this.#options
    const component = store === 'postgres' ? 'database' : 'redis'
    const [pod] = await this.#findPods(deployment_id, { [COMPONENT_LABEL]: component })
    const secret = pod && (await objects.readStoreSecret(pod.namespace, deployment_id, component))
    const uri = secret && Buffer.from(secret.data?.uri ?? '', 'base64').toString()
    if (!pod || !uri) throw new PermanentError(`This deployment has no ${store} that is ready.`)
    return { store: loginOf(uri), connect: () => connectToPod(cluster.config, pod, Number(new URL(uri).port)) }
  }

  async #findCopy({ deployment_id, revision_id }: RevisionRef, number: number | null | undefined) {
    const pods = await this.#findPods(deployment_id, { [COMPONENT_LABEL]: WEB, [REVISION_LABEL]: revision_id })
    const pod = pods[(number ?? 1) - 1]
    if (pod) return pod
    throw new PermanentError(number == null ? 'No copy of this revision runs.' : `Copy ${number} does not run.`)
  }

  /** Running pods, the oldest first. */
  async #findPods(
    deployment_id: string,
    labels: Record<string, string>,
  ): Promise<{ namespace: string; pod: string }[]> {
    const { cluster, objects, settings } = this.#options
    const namespace = await objects.findNamespace(deployment_id)
    if (namespace === null) return []
    const all = { ...ownerLabels(settings, deployment_id), ...labels }
    const pods = await cluster.list<V1Pod>('Pod', namespace, { labels: all })
    return pods
      .filter(({ metadata, status }) => status?.phase === 'Running' && !metadata?.deletionTimestamp)
      .toSorted((a, b) => ageKey(a).localeCompare(ageKey(b)))
      .map(({ metadata }) => ({ namespace, pod: metadata!.name! }))
  }
}

const ageKey = ({ metadata }: V1Pod) => `${new Date(metadata!.creationTimestamp ?? 0).toISOString()} ${metadata!.name}`
