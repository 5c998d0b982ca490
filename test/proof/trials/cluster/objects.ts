// The cluster's objects, as its administrator sees them.
import {
  ApiException,
  CoreV1Api,
  CustomObjectsApi,
  type KubeConfig,
  type KubernetesObject,
  KubernetesObjectApi,
  loadAllYaml,
  PatchStrategy,
  setHeaderOptions,
} from '@kubernetes/client-node'

// biome-ignore lint/suspicious/noExplicitAny: an object of any kind
export type AnyObject = KubernetesObject & { spec?: any; status?: any; data?: any; rules?: any; type?: string }
export type Ref = { apiVersion: string; kind: string; metadata: { name: string; namespace?: string } }
const UNUSED = undefined

export class Objects {
  readonly #api: KubernetesObjectApi
  readonly #core: CoreV1Api
  readonly #custom: CustomObjectsApi

  constructor(config: KubeConfig) {
    this.#api = KubernetesObjectApi.makeApiClient(config)
    this.#core = config.makeApiClient(CoreV1Api)
    this.#custom = config.makeApiClient(CustomObjectsApi)
  }

  apply(object: AnyObject): Promise<AnyObject> {
    return this.#api.patch(object, UNUSED, UNUSED, 'trial', true, PatchStrategy.ServerSideApply)
  }
  async applyYaml(text: string, namespace?: string): Promise<void> {
    for (const object of loadAllYaml(text) as AnyObject[]) {
      if (!object) continue
      if (namespace) object.metadata = { ...object.metadata, namespace }
      await this.apply(object)
    }
  }
  patch(object: AnyObject): Promise<AnyObject> {
    return this.#api.patch(object, UNUSED, UNUSED, 'trial', UNUSED, PatchStrategy.MergePatch)
  }
  /** Null if there is none. */
  async read(ref: Ref): Promise<AnyObject | null> {
    return (await this.#api.read(ref).catch(ignoreAbsence)) as AnyObject | null
  }
  async list(apiVersion: string, kind: string, namespace?: string, labels?: string, fields?: string) {
    const page = await this.#api.list<AnyObject>(
      ...([apiVersion, kind, namespace, UNUSED, UNUSED, UNUSED, fields, labels] as const),
    )
    return page.items.map(item => Object.assign(item, { apiVersion, kind }))
  }
  async delete(ref: Ref): Promise<void> {
    await this.#api.delete(ref, UNUSED, UNUSED, UNUSED, UNUSED, 'Background').catch(ignoreAbsence)
  }
  /** Like the kubelet, which alone may write it. */
  async setPodStatus(namespace: string, name: string, status: unknown): Promise<void> {
    const merge = setHeaderOptions('Content-Type', PatchStrategy.MergePatch)
    await this.#core.patchNamespacedPodStatus({ namespace, name, body: { status } }, merge).catch(ignoreAbsence)
  }
  /** Like the controller of a kind that is defined by a CustomResourceDefinition. */
  async setStatus({ apiVersion, kind, metadata }: Ref, status: unknown): Promise<void> {
    const [group, version] = apiVersion.split('/') as [string, string]
    const place = { namespace: metadata.namespace!, plural: `${kind.toLowerCase()}s`, name: metadata.name }
    const merge = setHeaderOptions('Content-Type', PatchStrategy.MergePatch)
    await this.#custom.patchNamespacedCustomObjectStatus({ group, version, ...place, body: { status } }, merge)
  }
  async setNodeStatus(name: string, status: unknown): Promise<void> {
    await this.#core.patchNodeStatus(
      { name, body: { status } },
      setHeaderOptions('Content-Type', PatchStrategy.MergePatch),
    )
  }
  /** Once its containers have ended. */
  async removePod(namespace: string, name: string): Promise<void> {
    await this.#core.deleteNamespacedPod({ namespace, name, gracePeriodSeconds: 0 }).catch(ignoreAbsence)
  }
  /** A token of a service account, as its pods get it. */
  async createToken(namespace: string, name: string): Promise<string> {
    const body = { spec: { audiences: ['https://kubernetes.default.svc'], expirationSeconds: 3600 } }
    const { status } = await this.#core.createNamespacedServiceAccountToken({ namespace, name, body })
    return status?.token ?? ''
  }
}

function ignoreAbsence(error: unknown): null {
  if (error instanceof ApiException && error.code === 404) return null
  throw error
}
