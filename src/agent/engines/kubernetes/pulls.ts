// What nodes pull images of the installation's own registry with: a Secret for each revision, renewed for as long as it is there.
import type { V1Secret } from '@kubernetes/client-node'
import type { RegistryCredential } from '../../../sync/credentials.schema.ts'
import type { Events, Ref, Unit } from '../engine.ts'
import { type Cluster, deploymentOf } from './cluster.ts'
import { COMPONENT, EXPIRES, metaOf, namespaceOf, ownedBy, RENEW, REVISION, revisionName } from './names.ts'
import { label } from './observed.ts'
import type { KubernetesSettings } from './settings.ts'
import { base64 } from './stores.ts'

type Kept = { namespace: string; name: string; of: Ref; renew_at: number; expires_at: number; told: boolean }
type Options = {
  settings: KubernetesSettings
  cluster: Cluster
  now: () => Date
  ask: Events['registry']
  warn: (of: Ref, message: string) => void
}

const AGAIN_MS = 5 * 60_000

export const placeOf = ({ registry, repository }: RegistryCredential) => `${registry}/${repository}`

export class Pulls {
  readonly #options: Options
  readonly #kept = new Map<string, Kept>()
  #found = false
  #renewing: Promise<void> | undefined

  constructor(options: Options) {
    this.#options = options
  }

  /** The name of its Secret; null where its images are elsewhere. */
  async ensure(unit: Unit, images: string[]): Promise<string | null> {
    const { settings, cluster, now, ask } = this.#options
    const { name, ...metadata } = metaOf(settings, unit, `${revisionName(unit)}-pull`, {
      component: 'pull',
      ofRevision: true,
    })
    const there = await cluster.read<V1Secret>('Secret', namespaceOf(settings, unit), name)
    if (there && cluster.isOurs(there) && !there.metadata?.deletionTimestamp) {
      if (this.#keep(there).renew_at <= now().getTime()) await this.renew()
      return name
    }
    for (const image of new Set(images)) {
      const credential = await ask(unit, image)
      if (credential === null) continue
      await this.#write({ apiVersion: 'v1', kind: 'Secret', metadata: { ...metadata, name } }, credential)
      return name
    }
    return null
  }

  /** Another one where half of the time is over, so that a control plane may be away for the rest. */
  renew(): Promise<void> {
    this.#renewing ??= this.#renew().finally(() => (this.#renewing = undefined))
    return this.#renewing
  }

  /** Those of an earlier agent as well. */
  async #find(): Promise<void> {
    const { settings, cluster } = this.#options
    const labels = { ...ownedBy(settings), [COMPONENT]: 'pull' }
    for (const namespace of settings.namespaces)
      for (const secret of await cluster.list<V1Secret>('Secret', namespace, { labels })) this.#keep(secret)
    this.#found = true
  }

  async #renew(): Promise<void> {
    const { cluster, now, ask } = this.#options
    // A cluster that is away is looked at again.
    if (!this.#found) await this.#find().catch(() => {})
    for (const [key, kept] of this.#kept) {
      if (now().getTime() < kept.renew_at) continue
      const { of, namespace, name } = kept
      try {
        const there = await cluster.read<V1Secret>('Secret', namespace, name)
        if (there === null || there.metadata?.deletionTimestamp || !cluster.isOurs(there)) {
          this.#kept.delete(key)
          continue
        }
        // Perhaps another agent has done it.
        if (this.#keep(there).renew_at > now().getTime()) continue
        const credential = await ask(of)
        if (credential) await this.#write(there, credential)
        else this.#kept.delete(key)
      } catch (error) {
        this.#failed(key, kept, error as Error)
      }
    }
  }

  #failed(key: string, kept: Kept, { message }: Error): void {
    const now = this.#options.now().getTime()
    const over = kept.expires_at <= now
    if (over && !kept.told)
      this.#options.warn(
        kept.of,
        `What its image is pulled with has expired and cannot be renewed, so new copies may not start: ${message}`,
      )
    this.#kept.set(key, { ...kept, renew_at: now + AGAIN_MS, told: over })
  }

  async #write({ metadata }: V1Secret, credential: RegistryCredential): Promise<void> {
    const { username, password, expires_at } = credential
    const now = this.#options.now().getTime()
    const renew_at = new Date(now + (Date.parse(expires_at) - now) / 2).toISOString()
    const { name, namespace, labels, annotations } = metadata!
    const auths = { [placeOf(credential)]: { username, password, auth: base64(`${username}:${password}`) } }
    const secret: V1Secret = {
      ...{ apiVersion: 'v1', kind: 'Secret', type: 'kubernetes.io/dockerconfigjson' },
      metadata: {
        ...{ name: name!, namespace: namespace!, labels: labels! },
        annotations: { ...annotations, [RENEW]: renew_at, [EXPIRES]: expires_at },
      },
      data: { '.dockerconfigjson': base64(JSON.stringify({ auths })) },
    }
    await this.#options.cluster.apply(secret)
    this.#keep(secret)
  }

  /** As long as it is the same one, when it is tried again and what was told of it stand. */
  #keep(secret: V1Secret): Kept {
    const { name, namespace, annotations = {} } = secret.metadata!
    const key = `${namespace}/${name}`
    const expires_at = Date.parse(annotations[EXPIRES] ?? '') || 0
    const before = this.#kept.get(key)
    if (before?.expires_at === expires_at) return before
    const kept = {
      ...{ namespace: namespace!, name: name!, expires_at, told: false },
      of: { deployment_id: deploymentOf(secret)!, revision_id: label(secret, REVISION)! },
      renew_at: Date.parse(annotations[RENEW] ?? '') || 0,
    }
    this.#kept.set(key, kept)
    return kept
  }
}
