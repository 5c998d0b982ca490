// Fetches the credentials of repositories and of the registry from the control plane, and keeps them in memory only.
import { setTimeout as delay } from 'node:timers/promises'
import type { RegistryCredential } from '../../protocol/credentials.schema.ts'
import type { SshKeys } from '../../protocol/repository-looks.schema.ts'
import { PermanentError, type RevisionRef, SourceUnavailable, TransientError } from '../engine.ts'
import { type ControlPlaneClient, RequestRefused } from './client.ts'
import type { AgentKeys } from './envelope.ts'

export type HttpCredential = { username: string; password: string }
export type GitCredential = HttpCredential | { ssh: SshKeys }
type ListenerLease = { agent_id: string; fence: number; listener: string }
type Options = {
  control: Pick<ControlPlaneClient, 'credentials'>
  keys: AgentKeys
  currentLease: () => ListenerLease | undefined
  signal: AbortSignal
  retry_ms?: number | undefined
  /** Registers a password for masking, before the credential is used. */
  hide: (deployment_id: string, values: string[]) => void
}
type CachedCredential = { until: number; credential: RegistryCredential }

const RETRY_MS = 2_000
const MAX_TRIES = 5
const REMOTE_ERROR_CODE = /^(githost|upstream)_/
/** A registry credential is valid for an hour; a pull that starts with it may take a while. */
const CACHE_MS = 45 * 60_000
const EXPIRY_MARGIN_MS = 10 * 60_000
const REGISTRY_CACHE_MS = 10 * 60_000

export class Credentials {
  readonly #options: Options
  readonly #cached = new Map<string, CachedCredential>()
  readonly #pending = new Map<string, Promise<RegistryCredential | null>>()
  /** The last request failed after all retries: until one succeeds, each is tried only once. */
  #isUnavailable = false
  #installationRegistry: { registry: string | null; until: number } | undefined

  constructor(options: Options) {
    this.#options = options
  }

  repository(ref: RevisionRef, signal: AbortSignal): Promise<GitCredential | null> {
    return this.#request<GitCredential>(ref, 'repository', 'git', signal)
  }

  /** Null if the image is in another registry. Without an image: the credential of the deployment's own repository. */
  async registry(ref: RevisionRef, image?: string): Promise<RegistryCredential | null> {
    if (this.#isElsewhere(image)) return null
    const credential = await this.#registryCredential(ref)
    return credential && coversImage(credential, image) ? credential : null
  }

  #isElsewhere(image: string | undefined): boolean {
    if (!this.#installationRegistry || this.#installationRegistry.until <= performance.now()) return false
    const { registry } = this.#installationRegistry
    return registry === null || (image !== undefined && !image.startsWith(`${registry}/`))
  }

  async #registryCredential(ref: RevisionRef): Promise<RegistryCredential | null> {
    const now = performance.now()
    for (const [id, { until }] of this.#cached) if (until <= now) this.#cached.delete(id)
    const cached = this.#cached.get(ref.revision_id)
    if (cached) return cached.credential
    const pending =
      this.#pending.get(ref.revision_id) ??
      this.#request<RegistryCredential>(ref, 'registry', 'registry').finally(() =>
        this.#pending.delete(ref.revision_id),
      )
    this.#pending.set(ref.revision_id, pending)
    const credential = await pending
    this.#installationRegistry = { registry: credential?.registry ?? null, until: now + REGISTRY_CACHE_MS }
    if (credential) {
      const lifetime = Date.parse(credential.expires_at) - Date.now() - EXPIRY_MARGIN_MS
      this.#cached.set(ref.revision_id, { credential, until: now + Math.min(CACHE_MS, lifetime) })
    }
    return credential
  }

  /** A refusal is permanent, with the message of the control plane. If that is unavailable, the error is transient. */
  async #request<T extends GitCredential>(
    { deployment_id, revision_id }: RevisionRef,
    resource: 'repository' | 'registry',
    envelope: string,
    callerSignal = this.#options.signal,
  ): Promise<T | null> {
    const { control, keys, currentLease, hide, retry_ms = RETRY_MS } = this.#options
    const signal = AbortSignal.any([this.#options.signal, callerSignal])
    let lastError = new Error('this agent does not have the lease of its listener.')
    const tries = this.#isUnavailable ? 1 : MAX_TRIES
    for (let attempt = 1; attempt <= tries; attempt++) {
      if (attempt > 1) await delay(retry_ms * attempt, undefined, { signal }).catch(() => {})
      if (signal.aborted) throw new TransientError('The request for a credential was cancelled.')
      const listenerLease = currentLease()
      if (!listenerLease) continue
      const { listener, ...lease } = listenerLease
      const wish = { ...lease, deployment_id, revision_id, public_key: keys.public_key, for: resource }
      try {
        const { credential: sealed } = await control.credentials(wish, signal)
        this.#isUnavailable = false
        if (sealed === null) return null
        const credential = keys.open<T>(sealed, `${listener}/${deployment_id}/${revision_id}/${envelope}`)
        hide(deployment_id, secretsIn(credential))
        return credential
      } catch (error) {
        lastError = error as Error
        if (error instanceof PermanentError || !isRetryable(error)) throw new PermanentError(lastError.message)
      }
    }
    // The control plane answers, but the git host does not: requests of other deployments are unaffected.
    if (lastError instanceof RequestRefused && REMOTE_ERROR_CODE.test(lastError.code))
      throw new SourceUnavailable(lastError.message)
    this.#isUnavailable = true
    throw new TransientError(`The agent cannot get a credential from the control plane: ${lastError.message}`)
  }
}

/** The lines of a key are masked one by one. */
const secretsIn = (credential: GitCredential): string[] =>
  'ssh' in credential
    ? credential.ssh.keys.flatMap(({ private_key }) =>
        private_key.split('\n').filter(line => /^[A-Za-z0-9+/=]+$/.test(line)),
      )
    : [credential.password]

const isRetryable = (error: unknown) =>
  !(error instanceof RequestRefused) || error.status >= 429 || error.code === 'fence_stale'

const coversImage = ({ registry, repository }: RegistryCredential, image = `${registry}/${repository}`): boolean => {
  const name = `${registry}/${repository}`
  return image.startsWith(name) && /^([/:@]|$)/.test(image.slice(name.length))
}
