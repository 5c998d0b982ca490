// Applies the routes and Services of a deployment. With a gateway, a revision beside the routed one gets a share by
// weights. Weights know no health: while it is not ready, its weight is 0.
import type { WorkTraffic } from '../../../protocol/traffic.schema.ts'
import type { EngineObservation, RevisionSpec } from '../../engine.ts'
import type { DeploymentObjects } from './deployment-objects.ts'
import { COMPONENT_LABEL, namespaceOf, URL_ANNOTATION } from './names.ts'
import { labelOf, observePhase } from './observed-status.ts'
import type { Preparation } from './preparation.ts'
import { BESIDE, type Beside, besideServiceOf, routesOf, serviceOf } from './routing.ts'
import type { KubernetesSettings } from './settings.ts'

type Options = {
  settings: KubernetesSettings
  objects: DeploymentObjects
  preparation: Pick<Preparation, 'apply'>
  now: () => Date
}
type Applied = { spec: RevisionSpec; isWithoutWeb: boolean; beside: Beside | null }

export class DeploymentRoutes {
  readonly #options: Options
  readonly #splits = new Map<string, WorkTraffic>()
  readonly #applied = new Map<string, Applied>()

  constructor(options: Options) {
    this.#options = options
  }

  /** Called with each change in the cluster, so the weights follow the health of the revision. */
  async split(deployment_id: string, split: WorkTraffic | null): Promise<void> {
    if (split) this.#splits.set(deployment_id, split)
    else this.#splits.delete(deployment_id)
    const applied = this.#applied.get(deployment_id)
    // Until the routed revision is known, `apply` comes first.
    if (!applied || (!split && !applied.beside)) return
    const beside = await this.#besideOf(applied.spec)
    if (JSON.stringify(beside) !== JSON.stringify(applied.beside)) await this.apply(applied.spec, applied.isWithoutWeb)
  }

  splitOf(deployment_id: string): EngineObservation['split'] {
    const [split, beside] = [this.#splits.get(deployment_id), this.#applied.get(deployment_id)?.beside]
    const isApplied = split && beside?.isReady && beside.revision_id === split.revision_id
    return isApplied ? { revision_id: split.revision_id, share: beside.share } : undefined
  }

  async apply(spec: RevisionSpec, isWithoutWeb: boolean): Promise<void> {
    const { settings, objects, preparation } = this.#options
    const namespace = namespaceOf(settings, spec)
    const beside = isWithoutWeb ? null : await this.#besideOf(spec)
    const routes = isWithoutWeb ? [] : routesOf(settings, spec, beside)
    await objects.checkHosts(spec, routes)
    // The Service is last: its selector switches the requests to this revision.
    const service = serviceOf(settings, spec)
    // Without a process that listens, it only says which revision is in effect.
    if (isWithoutWeb) delete service.metadata!.annotations![URL_ANNOTATION]
    const services = [...(beside ? [besideServiceOf(settings, spec, beside)] : []), ...routes, service]
    for (const object of services) await preparation.apply(spec, object)
    const wanted = new Set(routes.map(({ kind, metadata }) => `${kind} ${metadata!.name}`))
    const existing = await objects.listRoutes(namespace, spec.deployment_id)
    await objects.remove(existing.filter(({ kind, metadata }) => !wanted.has(`${kind} ${metadata!.name}`)))
    if (!beside) await this.#removeBeside(namespace, spec.deployment_id)
    this.#applied.set(spec.deployment_id, { spec, isWithoutWeb, beside })
  }

  forget(deployment_id: string): void {
    this.#splits.delete(deployment_id)
    this.#applied.delete(deployment_id)
  }

  async #besideOf(spec: RevisionSpec): Promise<Beside | null> {
    const { settings, objects, now } = this.#options
    const { deployment_id, revision_id } = spec
    const split = this.#splits.get(deployment_id)
    if (settings.routes !== 'gateway' || !split || split.revision_id === revision_id) return null
    const observed = await objects.listObserved(namespaceOf(settings, spec), deployment_id)
    const { phase } = observePhase(split.revision_id, observed, settings.drain_seconds, now())
    const isReady = phase === 'healthy'
    return { revision_id: split.revision_id, share: isReady ? split.share : 0, isReady }
  }

  /** An agent before may have left it. */
  async #removeBeside(namespace: string, deployment_id: string): Promise<void> {
    const { settings, objects } = this.#options
    if (settings.routes !== 'gateway' || this.#applied.get(deployment_id)?.beside === null) return
    const { services } = await objects.listObserved(namespace, deployment_id)
    await objects.remove(services.filter(object => labelOf(object, COMPONENT_LABEL) === BESIDE))
  }
}
