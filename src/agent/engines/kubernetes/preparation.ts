// Applies what the pods of a revision need besides its own objects: stores, disks, tokens, and checks before.
import type { KubernetesObject } from '@kubernetes/client-node'
import type { ListenerPolicy } from '../../../protocol/listener-policy.ts'
import { describeRefusal } from '../../../protocol/listener-policy.ts'
import { type Artifact, type EngineEvents, PermanentError, type RevisionSpec } from '../../engine.ts'
import type { DatabaseDumps } from './database-dumps.ts'
import { type DeploymentObjects, withLargerStorage } from './deployment-objects.ts'
import { diskClaimsOf } from './disk-objects.ts'
import type { DiskSnapshots } from './disk-snapshots.ts'
import type { Images } from './images.ts'
import type { ModelTokenSecrets } from './model-token-secrets.ts'
import type { NamespaceGuard } from './namespace-guard.ts'
import { modelTokenSecretOf } from './revision-objects.ts'
import { routesOf } from './routing.ts'
import { describeUnaskedQueue } from './scaled-objects.ts'
import type { KubernetesSettings } from './settings.ts'
import { type StoreObjects, storesFor } from './store-objects.ts'

export const REMEDIES = {
  privileged: 'Remove it, or ask the operator to allow it with K8S_PRIVILEGES.',
  service_account: 'Remove it, or ask the operator to add it to K8S_SERVICE_ACCOUNTS.',
  copies: 'Lower it.',
}

/** The control plane refuses that of the deployment, and cannot know that of the source. */
const NO_H2C =
  '`protocol` `h2c` needs the process or container engine: no router of an agent is before the pods. Leave it out of ' +
  'slipway.json.'

type Options = {
  settings: KubernetesSettings
  objects: DeploymentObjects
  images: Images
  namespaces: NamespaceGuard
  modelTokens: ModelTokenSecrets
  dumps: DatabaseDumps
  disks: DiskSnapshots
  policy: () => ListenerPolicy
  mayHaveKeda: () => boolean
  events: () => Pick<EngineEvents, 'hide' | 'log'>
}

export class Preparation {
  readonly #options: Options
  /** The last warning about the dumps of each deployment. */
  readonly #warnings = new Map<string, string>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Returns the revision with the secret for its image. */
  async prepare(spec: RevisionSpec, artifact: Artifact): Promise<RevisionSpec> {
    const { settings, objects, images, namespaces, policy, mayHaveKeda, disks } = this.#options
    // An earlier agent may have accepted the revision without this rule. Its running objects stay as they are.
    const refusal = describeRefusal(spec.resources, policy(), REMEDIES)
    if (refusal !== null) throw new PermanentError(refusal)
    if ((spec.resources.protocol ?? artifact.protocol) === 'h2c') throw new PermanentError(NO_H2C)
    const unasked = describeUnaskedQueue(spec, artifact, mayHaveKeda())
    if (unasked !== null) throw new PermanentError(unasked)
    await namespaces.require(spec)
    await objects.checkNamedObjects(spec)
    // Comes first, because pods of an earlier agent may already log these passwords.
    for (const store of storesFor(settings, spec)) await this.#hideStoreSecrets(spec, store)
    // An invalid host fails the start, instead of the switch to a healthy revision.
    const routes = routesOf(settings, spec)
    await objects.checkHosts(spec, routes)
    for (const route of routes) await objects.dryRunApply(route)
    for (const store of storesFor(settings, spec)) await this.ensureStore(spec, store)
    for (const claim of diskClaimsOf(settings, spec)) {
      const wanted = await disks.withRestoredData(claim)
      await this.apply(spec, wanted, existing => withLargerStorage(claim, existing))
    }
    await this.#startModelToken(spec)
    return images.withPullSecret(spec, artifact)
  }

  async #startModelToken(spec: RevisionSpec): Promise<void> {
    const { settings, modelTokens } = this.#options
    if (spec.models_url === null) return
    const secret = modelTokenSecretOf(settings, spec)
    await this.apply(spec, secret, existing => {
      modelTokens.hideEarlier(spec.deployment_id, existing)
      return null
    })
    await modelTokens.add(spec.deployment_id, secret)
  }

  async ensureStore(spec: RevisionSpec, store: StoreObjects): Promise<void> {
    for (const conflict of await this.#options.objects.ensureStore(spec, store)) this.#logConflict(spec, conflict)
    await this.#hideStoreSecrets(spec, store)
    if (store.component === 'database' && this.#options.settings.database_backups) await this.#ensureDumps(spec)
  }

  /** A database serves also where its dumps cannot be made, for example by a Role of an earlier release. */
  async #ensureDumps(spec: RevisionSpec): Promise<void> {
    const { deployment_id, revision_id } = spec
    try {
      await this.#options.dumps.ensure(spec, (object, adjust) => this.apply(spec, object, adjust))
      this.#warnings.delete(deployment_id)
    } catch (error) {
      if (!(error instanceof PermanentError)) throw error
      const message = `The database has no backups: ${error.message}`
      if (this.#warnings.get(deployment_id) !== message)
        this.#options.events().log({ deployment_id, revision_id }, message, 'WARNING')
      this.#warnings.set(deployment_id, message)
    }
  }

  async #hideStoreSecrets(spec: RevisionSpec, store: StoreObjects): Promise<void> {
    const { objects, events } = this.#options
    events().hide(spec.deployment_id, await objects.readStoreSecrets(spec, store))
  }

  async apply(
    spec: RevisionSpec,
    object: KubernetesObject,
    adjust?: (existing: KubernetesObject) => KubernetesObject | null,
  ): Promise<void> {
    const conflict = await this.#options.objects.apply(spec, object, adjust)
    if (conflict !== null) this.#logConflict(spec, conflict)
  }

  #logConflict({ deployment_id, revision_id }: RevisionSpec, conflict: string): void {
    const message = `Reverted a change by another field manager to an object of this agent. ${conflict}`
    this.#options.events().log({ deployment_id, revision_id }, message, 'WARNING')
  }
}
