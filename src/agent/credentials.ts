// What the control plane lets a revision be cloned, pulled and pushed with: asked for when it is needed, opened, kept in memory only.
import { setTimeout as delay } from 'node:timers/promises'
import type { RegistryCredential } from '../sync/credentials.schema.ts'
import type { Credential } from './builds/git.ts'
import { type Control, Refused } from './control.ts'
import { Passing, type Ref, Unworkable } from './engines/engine.ts'
import type { Keys } from './envelope.ts'

type Who = { agent_id: string; fence: number }
type Options = {
  control: Pick<Control, 'credentials'>
  keys: Keys
  /** Undefined while there is no lease to ask under. */
  who: () => (Who & { listener: string }) | undefined
  signal: AbortSignal
  retry_ms?: number | undefined
  /** Called with what is secret of one before anybody is given it. */
  hide: (deployment_id: string, values: string[]) => void
}
type Kept = { until: number; credential: RegistryCredential }

const RETRY_MS = 2_000
const TRIES = 5
/** What the control plane tells of somebody whom it asked. */
const HOST = /^(githost|upstream)_/
/** One for the registry is good for an hour; what was begun with it may take a while. */
const KEPT_MS = 45 * 60_000
const MARGIN_MS = 10 * 60_000
/** So long it is believed which registry the installation has. */
const BELIEVED_MS = 10 * 60_000

export class Credentials {
  readonly #options: Options
  readonly #kept = new Map<string, Kept>()
  readonly #asking = new Map<string, Promise<RegistryCredential | null>>()
  /** It was tried in vain for long enough: whoever asks next waits no longer than for an answer. */
  #away = false
  #known: { registry: string | null; until: number } | undefined

  constructor(options: Options) {
    this.#options = options
  }

  repository(of: Ref, signal: AbortSignal): Promise<Credential | null> {
    return this.#ask<Credential>(of, 'repository', 'git', signal)
  }

  /** Null where the image is elsewhere, without asking where that is known; without an image, for whatever is of the deployment. */
  async registry(of: Ref, image?: string): Promise<RegistryCredential | null> {
    const known = this.#known && this.#known.until > performance.now() ? this.#known : undefined
    if (known && (known.registry === null || !(image ?? `${known.registry}/`).startsWith(`${known.registry}/`)))
      return null
    const credential = await this.#fresh(of)
    return credential && covers(credential, image) ? credential : null
  }

  async #fresh(of: Ref): Promise<RegistryCredential | null> {
    const now = performance.now()
    for (const [id, { until }] of this.#kept) if (until <= now) this.#kept.delete(id)
    const kept = this.#kept.get(of.revision_id)
    if (kept) return kept.credential
    const asking =
      this.#asking.get(of.revision_id) ??
      this.#ask<RegistryCredential>(of, 'registry', 'registry').finally(() => this.#asking.delete(of.revision_id))
    this.#asking.set(of.revision_id, asking)
    const credential = await asking
    this.#known = { registry: credential?.registry ?? null, until: now + BELIEVED_MS }
    if (credential) {
      const left = Date.parse(credential.expires_at) - Date.now() - MARGIN_MS
      this.#kept.set(of.revision_id, { credential, until: now + Math.min(KEPT_MS, left) })
    }
    return credential
  }

  /** A refusal is told in the control plane's own sentence, and so is a git host that stays away; a control plane that is away itself passes. */
  async #ask<T extends Credential>(
    { deployment_id, revision_id }: Ref,
    what: 'repository' | 'registry',
    place: string,
    wanted = this.#options.signal,
  ): Promise<T | null> {
    const { control, keys, who, retry_ms = RETRY_MS } = this.#options
    const signal = AbortSignal.any([this.#options.signal, wanted])
    let last: Error = new Error('This agent does not have the lease of its listener.')
    for (let tries = 1, most = this.#away ? 1 : TRIES; tries <= most; tries++) {
      if (tries > 1) await delay(retry_ms * tries, undefined, { signal }).catch(() => {})
      if (signal.aborted) throw new Passing('Nobody waits for it any more.')
      const asks = who()
      if (!asks) continue
      const { listener, ...lease } = asks
      const wish = { ...lease, deployment_id, revision_id, public_key: keys.public_key, for: what }
      try {
        const { credential } = await control.credentials(wish, signal)
        this.#away = false
        if (credential === null) return null
        const given = keys.open<T>(credential, `${listener}/${deployment_id}/${revision_id}/${place}`)
        this.#options.hide(deployment_id, [given.password])
        return given
      } catch (error) {
        const passes = !(error instanceof Refused) || error.status >= 429 || error.code === 'fence_stale'
        last = error as Error
        if (error instanceof Unworkable || !passes) throw new Unworkable(last.message)
      }
    }
    if (last instanceof Refused && HOST.test(last.code)) throw new Unworkable(last.message)
    this.#away = true
    throw new Passing(`The control plane gives no credential: ${last.message}`)
  }
}

const covers = ({ registry, repository }: RegistryCredential, image = `${registry}/${repository}`): boolean => {
  const name = `${registry}/${repository}`
  return image.startsWith(name) && /^([/:@]|$)/.test(image.slice(name.length))
}
