// Keeps the tokens by which applications call models: requests those of all deployments at once, and renews them.
import { MODEL_TOKENS_PAGE_SIZE } from '../../protocol/model-tokens.schema.ts'
import type { Engine } from '../engine.ts'
import type { LogEvent } from '../system/log-event.ts'
import { backoffSeconds, type ControlPlaneClient, describeConnectionError } from './client.ts'
import type { AgentKeys } from './envelope.ts'

type ListenerLease = { agent_id: string; fence: number; listener: string }
type Options = {
  control: Pick<ControlPlaneClient, 'modelTokens'>
  engine: Pick<Engine, 'renewModelToken'>
  keys: AgentKeys
  /** Undefined while this agent must not act. */
  currentLease: () => ListenerLease | undefined
  signal: AbortSignal
  /** Registers a token for masking, before it is used. */
  hide: (deployment_id: string, token: string) => void
  logEvent: LogEvent
  renew_ms?: number | undefined
}

/** A third of their lifetime: two renewals may fail. */
const RENEW_MS = 5 * 60_000
/** Engines write to a file, or send a request to a cluster. */
const WRITES_AT_ONCE = 8

export class ModelTokens {
  readonly #options: Options
  readonly #tokens = new Map<string, string>()
  /** Deployments whose token is requested before the next renewal. */
  readonly #wanted = new Set<string>()
  #url: string | null = null
  #isRenewalDue = true
  #timer: NodeJS.Timeout | undefined
  #isRunning = false
  #failures = 0

  constructor(options: Options) {
    this.#options = options
    options.signal.addEventListener('abort', () => clearTimeout(this.#timer))
  }

  /** The address of the models. Null if applications get no tokens. */
  get url(): string | null {
    return this.#url
  }

  of(deployment_id: string): string | undefined {
    return this.#url === null ? undefined : this.#tokens.get(deployment_id)
  }

  /** After each poll. Undefined: the control plane is of an earlier version. */
  setUrl(url: string | null | undefined): void {
    const isBack = this.#url === null && url != null && this.#timer !== undefined
    this.#url = url ?? null
    if (isBack) this.renewAll()
  }

  renewAll(): void {
    this.#isRenewalDue = true
    this.#start()
  }

  /** Renews the tokens of changed deployments, which may be new, or whose token may have been revoked. */
  renew(deployment_ids: string[]): void {
    for (const id of deployment_ids) this.#wanted.add(id)
    this.#start()
  }

  forget(deployment_id: string): void {
    this.#tokens.delete(deployment_id)
    this.#wanted.delete(deployment_id)
  }

  #start(): void {
    if (this.#isRunning || this.#url === null || this.#options.signal.aborted) return
    this.#isRunning = true
    void this.#requestDue().finally(() => (this.#isRunning = false))
  }

  async #requestDue(): Promise<void> {
    const { renew_ms = RENEW_MS } = this.#options
    try {
      while (this.#isRenewalDue || this.#wanted.size > 0) {
        const lease = this.#options.currentLease()
        if (!lease) throw new Error('this agent does not have the lease of its listener.')
        if (this.#isRenewalDue) {
          await this.#requestAll(lease)
          // Spreads the requests of all agents.
          this.#startAfter(renew_ms * (0.9 + 0.2 * Math.random()))
        } else await this.#requestPage(lease, { deployment_ids: [...this.#wanted].slice(0, MODEL_TOKENS_PAGE_SIZE) })
        this.#failures = 0
      }
    } catch (error) {
      this.#failures++
      if (this.#failures === 2)
        this.#options.logEvent('model tokens not renewed', { error: describeConnectionError(error as Error) })
      this.#isRenewalDue = true
      this.#startAfter(Math.min(renew_ms, 2000 * backoffSeconds(error, this.#failures)))
    }
  }

  #startAfter(ms: number): void {
    clearTimeout(this.#timer)
    if (!this.#options.signal.aborted) this.#timer = setTimeout(() => this.renewAll(), ms).unref()
  }

  async #requestAll(lease: ListenerLease): Promise<void> {
    this.#isRenewalDue = false
    const given = new Set<string>()
    for (let after: string | null = null, isFirst = true; isFirst || after !== null; isFirst = false) {
      const page = await this.#requestPage(lease, { after })
      for (const id of page.ids) given.add(id)
      after = page.next
    }
    for (const id of [...this.#tokens.keys()]) if (!given.has(id)) this.#tokens.delete(id)
  }

  async #requestPage(
    { listener, ...lease }: ListenerLease,
    wish: { deployment_ids?: string[]; after?: string | null },
  ): Promise<{ ids: string[]; next: string | null }> {
    const { control, keys, hide, signal } = this.#options
    const answer = await control.modelTokens({ ...lease, ...wish, public_key: keys.public_key }, signal)
    const tokens = answer.tokens === null ? {} : keys.open<Record<string, string>>(answer.tokens, `${listener}/models`)
    const ids = Object.keys(tokens)
    for (const id of ids) {
      hide(id, tokens[id]!)
      this.#tokens.set(id, tokens[id]!)
    }
    for (const id of wish.deployment_ids ?? ids) this.#wanted.delete(id)
    await this.#write(ids)
    return { ids, next: answer.next }
  }

  async #write(ids: string[]): Promise<void> {
    const { engine, logEvent } = this.#options
    const left = [...ids]
    const writeNext = async () => {
      for (let id = left.pop(); id !== undefined; id = left.pop())
        await engine
          .renewModelToken?.(id)
          .catch((error: Error) => logEvent('model token not written', { deployment: id, error: error.message }))
    }
    await Promise.all(Array.from({ length: WRITES_AT_ONCE }, writeNext))
  }
}
