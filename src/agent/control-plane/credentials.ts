// What the control plane lets a revision be cloned, pulled and pushed with: asked for when it is needed, opened, kept in memory only.
import { setTimeout as delay } from 'node:timers/promises'
import type { RegistryCredential } from '../../protocol/credentials.schema.ts'
import type { GitCredential } from '../builds/git-checkout.ts'
import { PermanentError, type RevisionRef, TransientError } from '../engines/engine.ts'
import { type ControlPlaneClient, RequestRefused } from './client.ts'
import type { AgentKeys } from './envelope.ts'

type LeaseHolder = { agent_id: string; fence: number }
type Options = {
  control: Pick<ControlPlaneClient, 'credentials'>
  keys: AgentKeys
  /** Undefined while there is no lease to ask under. */
  currentLease: () => (LeaseHolder & { listener: string }) | undefined
  signal: AbortSignal
  retry_ms?: number | undefined
  /** Called with what is secret of one before anybody is given it. */
  hide: (deployment_id: string, values: string[]) => void
}
type CachedCredential = { until: number; credential: RegistryCredential }

const RETRY_MS = 2_000
const MAX_TRIES = 5
/** What the control plane tells of somebody whom it asked. */
const REMOTE_ERROR_CODE = /^(githost|upstream)_/
/** One for the registry is good for an hour; what was begun with it may take a while. */
const CACHE_MS = 45 * 60_000
const EXPIRY_MARGIN_MS = 10 * 60_000
/** So long it is believed which registry the installation has. */
const REGISTRY_CACHE_MS = 10 * 60_000

export class Credentials {
  readonly #options: Options
  readonly #cached = new Map<string, CachedCredential>()
  readonly #pending = new Map<string, Promise<RegistryCredential | null>>()
  /** It was tried in vain for long enough: whoever asks next waits no longer than for an answer. */
  #isUnavailable = false
  #installationRegistry: { registry: string | null; until: number } | undefined

  constructor(options: Options) {
    this.#options = options
  }

  repository(of: RevisionRef, signal: AbortSignal): Promise<GitCredential | null> {
    return this.#request<GitCredential>(of, 'repository', 'git', signal)
  }

  /** Null where the image is elsewhere, without asking where that is known; without an image, for whatever is of the deployment. */
  async registry(of: RevisionRef, image?: string): Promise<RegistryCredential | null> {
    const known =
      this.#installationRegistry && this.#installationRegistry.until > performance.now()
        ? this.#installationRegistry
        : undefined
    if (known && (known.registry === null || !(image ?? `${known.registry}/`).startsWith(`${known.registry}/`)))
      return null
    const credential = await this.#registryCredential(of)
    return credential && coversImage(credential, image) ? credential : null
  }

  async #registryCredential(of: RevisionRef): Promise<RegistryCredential | null> {
    const now = performance.now()
    for (const [id, { until }] of this.#cached) if (until <= now) this.#cached.delete(id)
    const kept = this.#cached.get(of.revision_id)
    if (kept) return kept.credential
    const asking =
      this.#pending.get(of.revision_id) ??
      this.#request<RegistryCredential>(of, 'registry', 'registry').finally(() => this.#pending.delete(of.revision_id))
    this.#pending.set(of.revision_id, asking)
    const credential = await asking
    this.#installationRegistry = { registry: credential?.registry ?? null, until: now + REGISTRY_CACHE_MS }
    if (credential) {
      const left = Date.parse(credential.expires_at) - Date.now() - EXPIRY_MARGIN_MS
      this.#cached.set(of.revision_id, { credential, until: now + Math.min(CACHE_MS, left) })
    }
    return credential
  }

  /** A refusal is told in the control plane's own sentence, and so is a git host that stays away; a control plane that is away itself passes. */
  async #request<T extends GitCredential>(
    { deployment_id, revision_id }: RevisionRef,
    what: 'repository' | 'registry',
    place: string,
    wanted = this.#options.signal,
  ): Promise<T | null> {
    const { control, keys, currentLease: who, retry_ms = RETRY_MS } = this.#options
    const signal = AbortSignal.any([this.#options.signal, wanted])
    let last: Error = new Error('This agent does not have the lease of its listener.')
    for (let tries = 1, most = this.#isUnavailable ? 1 : MAX_TRIES; tries <= most; tries++) {
      if (tries > 1) await delay(retry_ms * tries, undefined, { signal }).catch(() => {})
      if (signal.aborted) throw new TransientError('Nobody waits for it any more.')
      const asks = who()
      if (!asks) continue
      const { listener, ...lease } = asks
      const wish = { ...lease, deployment_id, revision_id, public_key: keys.public_key, for: what }
      try {
        const { credential } = await control.credentials(wish, signal)
        this.#isUnavailable = false
        if (credential === null) return null
        const given = keys.open<T>(credential, `${listener}/${deployment_id}/${revision_id}/${place}`)
        this.#options.hide(deployment_id, [given.password])
        return given
      } catch (error) {
        const passes = !(error instanceof RequestRefused) || error.status >= 429 || error.code === 'fence_stale'
        last = error as Error
        if (error instanceof PermanentError || !passes) throw new PermanentError(last.message)
      }
    }
    if (last instanceof RequestRefused && REMOTE_ERROR_CODE.test(last.code)) throw new PermanentError(last.message)
    this.#isUnavailable = true
    throw new TransientError(`The control plane gives no credential: ${last.message}`)
  }
}

const coversImage = ({ registry, repository }: RegistryCredential, image = `${registry}/${repository}`): boolean => {
  const name = `${registry}/${repository}`
  return image.startsWith(name) && /^([/:@]|$)/.test(image.slice(name.length))
}
