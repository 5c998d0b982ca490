// The Secret of each deployment with its token for models, which its pods mount.
import type { V1Secret } from '@kubernetes/client-node'
import type { EngineEvents } from '../../engine.ts'
import { signatureOf } from '../../redaction/redaction.ts'
import { MODEL_TOKEN_FILE } from '../model-variables.ts'
import type { Cluster } from './cluster.ts'
import { encodeBase64 } from './store-objects.ts'

export class ModelTokenSecrets {
  readonly #cluster: Cluster
  readonly #events: () => Pick<EngineEvents, 'hide' | 'modelToken'>
  /** By deployment. `add` is called for each running revision once. */
  readonly #secrets = new Map<string, V1Secret>()

  constructor(cluster: Cluster, events: () => Pick<EngineEvents, 'hide' | 'modelToken'>) {
    this.#cluster = cluster
    this.#events = events
  }

  /** Masks the token of an earlier agent. */
  hideEarlier(deployment_id: string, { data = {} }: V1Secret): void {
    const earlier = Buffer.from(data[MODEL_TOKEN_FILE] ?? '', 'base64').toString()
    if (earlier) this.#events().hide(deployment_id, [signatureOf(earlier)])
  }

  async add(deployment_id: string, secret: V1Secret): Promise<void> {
    this.#secrets.set(deployment_id, secret)
    await this.renew(deployment_id)
  }

  async renew(deployment_id: string): Promise<void> {
    const secret = this.#secrets.get(deployment_id)
    const token = this.#events().modelToken(deployment_id)
    if (secret && token !== undefined)
      await this.#cluster.updateSecret(secret, { [MODEL_TOKEN_FILE]: encodeBase64(token) })
  }

  forget(deployment_id: string): void {
    this.#secrets.delete(deployment_id)
  }
}
