// Keeps a Secret per revision with which nodes pull from the installation's own registry, and renews it.
import type { V1Secret } from '@kubernetes/client-node'
import type { RegistryCredential } from '../../../protocol/credentials.schema.ts'
import type { EngineEvents, RevisionRef, RevisionSpec } from '../../engine.ts'
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
  isExpiryLogged: boolean
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

  /** The name of its Secret; null if none of the images is in the installation's registry. */
  async ensure(spec: RevisionSpec, images: string[]): Promise<string | null> {
    const { settings, cluster, now, requestCredential } = this.#options
    const { name, ...metadata } = metadataOf(settings, spec, `${revisionName(spec)}-pull`, {
      component: 'pull',
      ofRevision: true,
    })
    const existing = await cluster.read<V1Secret>('Secret', namespaceOf(settings, spec), name)
    if (existing && cluster.isOwned(existing) && !existing.metadata?.deletionTimestamp) {
      if (this.#rememberSecret(existing).renew_at <= now().getTime()) await this.renew()
      return name
    }
    for (const image of new Set(images)) {
      const credential = await requestCredential(spec, image)
      if (credential === null) continue
      await this.#writeSecret({ apiVersion: 'v1', kind: 'Secret', metadata: { ...metadata, name } }, credential)
      return name
    }
    return null
  }

  /** Renews after half of the lifetime, so that the control plane may be unreachable for the other half. */
  renew(): Promise<void> {
    this.#renewing ??= this.#renewSecrets().finally(() => (this.#renewing = undefined))
    return this.#renewing
  }

  /** Includes the Secrets of an earlier agent. */
  async #loadSecrets(): Promise<void> {
    const { settings, cluster } = this.#options
    const labels = { ...ownerLabels(settings), [COMPONENT_LABEL]: 'pull' }
    for (const namespace of settings.namespaces)
      for (const secret of await cluster.list<V1Secret>('Secret', namespace, { labels })) this.#rememberSecret(secret)
    this.#areLoaded = true
  }

  async #renewSecrets(): Promise<void> {
    const { cluster, now, requestCredential } = this.#options
    // The next renewal retries.
    if (!this.#areLoaded) await this.#loadSecrets().catch(() => {})
    for (const [key, secret] of this.#secrets) {
      if (now().getTime() < secret.renew_at) continue
      const { of, namespace, name } = secret
      try {
        const existing = await cluster.read<V1Secret>('Secret', namespace, name)
        if (existing === null || existing.metadata?.deletionTimestamp || !cluster.isOwned(existing)) {
          this.#secrets.delete(key)
          continue
        }
        // Another agent may have renewed it.
        if (this.#rememberSecret(existing).renew_at > now().getTime()) continue
        const credential = await requestCredential(of)
        if (credential) await this.#writeSecret(existing, credential)
        else this.#secrets.delete(key)
      } catch (error) {
        this.#postponeRenewal(key, secret, error as Error)
      }
    }
  }

  #postponeRenewal(key: string, secret: PullSecret, { message }: Error): void {
    const now = this.#options.now().getTime()
    const isExpired = secret.expires_at <= now
    if (isExpired && !secret.isExpiryLogged)
      this.#options.warn(
        secret.of,
        `Its pull credential has expired and cannot be renewed, so new replicas may not start: ${message}`,
      )
    this.#secrets.set(key, { ...secret, renew_at: now + RETRY_MS, isExpiryLogged: isExpired })
  }

  async #writeSecret({ metadata }: V1Secret, credential: RegistryCredential): Promise<void> {
    const { username, password, expires_at } = credential
    const now = this.#options.now().getTime()
    const renew_at = new Date(now + (Date.parse(expires_at) - now) / 2).toISOString()
    const { name, namespace, labels, annotations } = metadata!
    const auths = { [repositoryOf(credential)]: { username, password, auth: encodeBase64(`${username}:${password}`) } }
    const secret: V1Secret = {
      apiVersion: 'v1',
      kind: 'Secret',
      type: 'kubernetes.io/dockerconfigjson',
      metadata: {
        name: name!,
        namespace: namespace!,
        labels: labels!,
        annotations: { ...annotations, [RENEW_AT]: renew_at, [EXPIRES_AT]: expires_at },
      },
      data: { '.dockerconfigjson': encodeBase64(JSON.stringify({ auths })) },
    }
    await this.#options.cluster.apply(secret)
    this.#rememberSecret(secret)
  }

  /** An unchanged Secret keeps its retry time and its `isExpiryLogged`. */
  #rememberSecret(secret: V1Secret): PullSecret {
    const { name, namespace, annotations = {} } = secret.metadata!
    const key = `${namespace}/${name}`
    const expires_at = Date.parse(annotations[EXPIRES_AT] ?? '') || 0
    const previous = this.#secrets.get(key)
    if (previous?.expires_at === expires_at) return previous
    const pullSecret: PullSecret = {
      namespace: namespace!,
      name: name!,
      expires_at,
      isExpiryLogged: false,
      of: { deployment_id: deploymentIdOf(secret)!, revision_id: labelOf(secret, REVISION_LABEL)! },
      renew_at: Date.parse(annotations[RENEW_AT] ?? '') || 0,
    }
    this.#secrets.set(key, pullSecret)
    return pullSecret
  }
}
