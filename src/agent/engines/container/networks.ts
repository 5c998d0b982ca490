// The network of each deployment, in which its containers find each other.
import { DEPLOYMENT_LABEL, OWNER_LABEL, resourcePrefix } from '../../images/container-labels.ts'
import type { DockerApi } from '../../images/docker-api.ts'

export class Networks {
  readonly #api: DockerApi
  readonly #owner: string
  readonly #exists: (deployment_id: string) => Promise<boolean>
  readonly #pending = new Map<string, Promise<void>>()

  constructor(api: DockerApi, owner: string, exists: (deployment_id: string) => Promise<boolean>) {
    this.#api = api
    this.#owner = owner
    this.#exists = exists
  }

  /** One call at a time, because an engine may allow two networks of one name. */
  ensure(deployment_id: string): Promise<void> {
    const pending =
      this.#pending.get(deployment_id) ?? this.#make(deployment_id).finally(() => this.#pending.delete(deployment_id))
    this.#pending.set(deployment_id, pending)
    return pending
  }

  /** Resolves once none is being made. */
  async settle(deployment_id: string): Promise<void> {
    await this.#pending.get(deployment_id)?.catch(() => {})
  }

  async #make(deployment_id: string): Promise<void> {
    if (await this.#exists(deployment_id)) return
    const Name = resourcePrefix(this.#owner, deployment_id)
    const Labels = { [OWNER_LABEL]: this.#owner, [DEPLOYMENT_LABEL]: deployment_id }
    await this.#api.post('/networks/create', { Name, Driver: 'bridge', CheckDuplicate: true, Labels })
  }
}
