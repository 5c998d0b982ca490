// What nodes pull images of the installation's own registry with: a Secret for each revision, renewed for as long as it is there.
import type { V1Secret } from '@kubernetes/client-node'
import type { RegistryCredential } from '../../../protocol/credentials.schema.ts'
import type { EngineEvents, RevisionRef, RevisionSpec } from '../engine.ts'
import { type Cluster, deploymentIdOf } from './cluster.ts'
import {
  COMPONENT_LABEL,
  EXPIRES_AT,
  metadataOf,
  namespaceOf,
  ownerLabels,
  RENEW_AT,
  REVISION_LABEL,
  revisionName,
} from './names.ts'
import { labelOf } from './observed-status.ts'
import type { KubernetesSettings } from './settings.ts'
import { encodeBase64 } from './store-objects.ts'

type PullSecret = {
  namespace: string
  name: string
  of: RevisionRef
  renew_at: number
  expires_at: number
  told: boolean
}
type PullSecretsOptions = {
  settings: KubernetesSettings
  cluster: Cluster
  now: () => Date
  requestCredential: EngineEvents['registryCredential']
  warn: (of: RevisionRef, message: string) => void
}

const RETRY_MS = 5 * 60_000

export const repositoryOf = ({ registry, repository }: RegistryCredential) => `${registry}/${repository}`

export class PullSecrets {
  readonly #options: PullSecretsOptions
  readonly #secrets = new Map<string, PullSecret>()
  #areLoaded = false
  #renewing: Promise<void> | undefined

  constructor(options: PullSecretsOptions) {
    this.#options = options
  }

  /** The name of its Secret; null where its images are elsewhere. */
  async ensure(unit: RevisionSpec, images: string[]): Promise<string | null> {
    const { settings, cluster, now, requestCredential: ask } = this.#options
    const { name, ...metadata } = metadataOf(settings, unit, `${revisionName(unit)}-pull`, {
      component: 'pull',
      ofRevision: true,
    })
    const there = await cluster.read<V1Secret>('Secret', namespaceOf(settings, unit), name)
    if (there && cluster.isOwned(there) && !there.metadata?.deletionTimestamp) {
      if (this.#rememberSecret(there).renew_at <= now().getTime()) await this.renew()
      return name
    }
    for (const image of new Set(images)) {
      const credential = await ask(unit, image)
      if (credential === null) continue
      await this.#writeSecret({ apiVersion: 'v1', kind: 'Secret', metadata: { ...metadata, name } }, credential)
      return name
    }
    return null
  }

  /** Another one where half of the time is over, so that a control plane may be away for the rest. */
  renew(): Promise<void> {
    this.#renewing ??= this.#renewSecrets().finally(() => (this.#renewing = undefined))
    return this.#renewing
  }

  /** Those of an earlier agent as well. */
  async #loadSecrets(): Promise<void> {
    const { settings, cluster } = this.#options
    const labels = { ...ownerLabels(settings), [COMPONENT_LABEL]: 'pull' }
    for (const namespace of settings.namespaces)
      for (const secret of await cluster.list<V1Secret>('Secret', namespace, { labels })) this.#rememberSecret(secret)
    this.#areLoaded = true
  }

  async #renewSecrets(): Promise<void> {
    const { cluster, now, requestCredential: ask } = this.#options
    // A cluster that is away is looked at again.
    if (!this.#areLoaded) await this.#loadSecrets().catch(() => {})
    for (const [key, kept] of this.#secrets) {
      if (now().getTime() < kept.renew_at) continue
      const { of, namespace, name } = kept
      try {
        const there = await cluster.read<V1Secret>('Secret', namespace, name)
        if (there === null || there.metadata?.deletionTimestamp || !cluster.isOwned(there)) {
          this.#secrets.delete(key)
          continue
        }
        // Perhaps another agent has done it.
        if (this.#rememberSecret(there).renew_at > now().getTime()) continue
        const credential = await ask(of)
        if (credential) await this.#writeSecret(there, credential)
        else this.#secrets.delete(key)
      } catch (error) {
        this.#postponeRenewal(key, kept, error as Error)
      }
    }
  }

  #postponeRenewal(key: string, kept: PullSecret, { message }: Error): void {
    const now = this.#options.now().getTime()
    const over = kept.expires_at <= now
    if (over && !kept.told)
      this.#options.warn(
        kept.of,
        `What its image is pulled with has expired and cannot be renewed, so new copies may not start: ${message}`,
      )
    this.#secrets.set(key, { ...kept, renew_at: now + RETRY_MS, told: over })
  }

  async #writeSecret({ metadata }: V1Secret, credential: RegistryCredential): Promise<void> {
    const { username, password, expires_at } = credential
    const now = this.#options.now().getTime()
    const renew_at = new Date(now + (Date.parse(expires_at) - now) / 2).toISOString()
    const { name, namespace, labels, annotations } = metadata!
    const auths = { [repositoryOf(credential)]: { username, password, auth: encodeBase64(`${username}:${password}`) } }
    const secret: V1Secret = {
      ...{ apiVersion: 'v1', kind: 'Secret', type: 'kubernetes.io/dockerconfigjson' },
      metadata: {
        ...{ name: name!, namespace: namespace!, labels: labels! },
        annotations: { ...annotations, [RENEW_AT]: renew_at, [EXPIRES_AT]: expires_at },
      },
      data: { '.dockerconfigjson': encodeBase64(JSON.stringify({ auths })) },
    }
    await this.#options.cluster.apply(secret)
    this.#rememberSecret(secret)
  }

  /** As long as it is the same one, when it is tried again and what was told of it stand. */
  #rememberSecret(secret: V1Secret): PullSecret {
    const { name, namespace, annotations = {} } = secret.metadata!
    const key = `${namespace}/${name}`
    const expires_at = Date.parse(annotations[EXPIRES_AT] ?? '') || 0
    const before = this.#secrets.get(key)
    if (before?.expires_at === expires_at) return before
    const kept = {
      ...{ namespace: namespace!, name: name!, expires_at, told: false },
      of: { deployment_id: deploymentIdOf(secret)!, revision_id: labelOf(secret, REVISION_LABEL)! },
      renew_at: Date.parse(annotations[RENEW_AT] ?? '') || 0,
    }
    this.#secrets.set(key, kept)
    return kept
  }
}
