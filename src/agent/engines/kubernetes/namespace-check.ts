// Finds out whether a namespace would admit a privileged pod, by asking the API server without creating one.
import type { V1Pod, V1ResourceRequirements } from '@kubernetes/client-node'
import type { Cluster, CreationVerdict } from './cluster.ts'
import { RESTRICTED_SECURITY } from './pod-template.ts'

const KEPT_MS = 10 * 60_000

type Options = { cluster: Pick<Cluster, 'dryRunCreate'>; image: string; now: () => Date }
/** The `reason` says why the answer is `unknown`. */
export type NamespaceVerdict = { admits: 'privileged' | 'restricted' | 'unknown'; reason: string | null }

export class NamespaceChecks {
  readonly #options: Options
  /** The time until which each namespace counts as restricted. Others are asked again each time. */
  readonly #closedUntil = new Map<string, number>()

  constructor(options: Options) {
    this.#options = options
  }

  /** The `resources` are those of the application, which the limits of the namespace admit. */
  async check(namespace: string, resources: V1ResourceRequirements): Promise<NamespaceVerdict> {
    const now = this.#options.now().getTime()
    if ((this.#closedUntil.get(namespace) ?? 0) > now) return { admits: 'restricted', reason: null }
    const verdict = await this.ask(namespace, resources)
    if (verdict.admits === 'restricted') this.#closedUntil.set(namespace, now + KEPT_MS)
    else this.#closedUntil.delete(namespace)
    return verdict
  }

  async ask(namespace: string, resources: V1ResourceRequirements): Promise<NamespaceVerdict> {
    const privileged = await this.#tryPod(namespace, resources, true)
    if (privileged.outcome === 'admitted') return { admits: 'privileged', reason: null }
    if (privileged.outcome === 'forbidden') return { admits: 'unknown', reason: privileged.message }
    // The refusal counts only if it is for the privileges: the same pod without them is admitted.
    const restricted = await this.#tryPod(namespace, resources, false)
    return restricted.outcome === 'admitted'
      ? { admits: 'restricted', reason: null }
      : { admits: 'unknown', reason: restricted.message }
  }

  #tryPod(namespace: string, resources: V1ResourceRequirements, privileged: boolean): Promise<CreationVerdict> {
    const pod: V1Pod = {
      apiVersion: 'v1',
      kind: 'Pod',
      metadata: { name: 'slipway-check', namespace },
      spec: {
        automountServiceAccountToken: false,
        containers: [
          {
            name: 'check',
            image: this.#options.image,
            resources,
            securityContext: privileged ? { privileged: true } : { ...RESTRICTED_SECURITY, runAsUser: 65_532 },
          },
        ],
      },
    }
    return this.#options.cluster.dryRunCreate(pod)
  }
}
