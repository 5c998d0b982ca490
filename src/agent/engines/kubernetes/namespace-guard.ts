// Refuses revisions in namespaces that admit privileged pods, and warns the operator of such namespaces.
import type { V1ResourceRequirements } from '@kubernetes/client-node'
import { PermanentError, type RevisionSpec } from '../../engine.ts'
import type { LogEvent } from '../../system/log-event.ts'
import type { Cluster } from './cluster.ts'
import { namespaceOf, workloadName } from './names.ts'
import { NamespaceChecks, type NamespaceVerdict } from './namespace-check.ts'
import { resourcesOf, webWorkloadOf } from './pod-template.ts'
import type { KubernetesSettings } from './settings.ts'

/** Resources of a small deployment, for the check before a real one is known. */
const CHECKED_RESOURCES: V1ResourceRequirements = resourcesOf([0.5, 1], [512, 1024])

type Options = { cluster: Cluster; settings: KubernetesSettings; now: () => Date; logEvent: LogEvent }

export class NamespaceGuard {
  readonly #options: Options
  readonly #checks: NamespaceChecks
  /** The last warning about each namespace. */
  readonly #warnings = new Map<string, string>()
  #isChecking = false

  constructor(options: Options) {
    this.#options = options
    const { cluster, now, settings } = options
    this.#checks = new NamespaceChecks({ cluster, now, image: settings.postgres_image })
  }

  /** Warns in the log, before a user gets the refusal. One at a time: an earlier answer could undo a later one. */
  async warn(): Promise<void> {
    if (this.#isChecking) return
    this.#isChecking = true
    const { settings, logEvent } = this.#options
    for (const namespace of settings.namespaces) {
      const verdict = await this.#checks.ask(namespace, CHECKED_RESOURCES).catch(() => null)
      const warning = verdict && describeVerdict(namespace, verdict)
      if (warning && this.#warnings.get(namespace) !== warning)
        logEvent('namespace not restricted', { namespace, reason: warning })
      if (verdict) this.#warnings.set(namespace, warning ?? '')
    }
    this.#isChecking = false
  }

  /** Refuses a revision only while it has no Deployment, so running ones stay in such a namespace. */
  async require(spec: RevisionSpec): Promise<void> {
    const { cluster, settings } = this.#options
    if (settings.accepts_privileged_namespaces) return
    const namespace = namespaceOf(settings, spec)
    const verdict = await this.#checks.check(namespace, webWorkloadOf(spec).resources)
    const reason = describeVerdict(namespace, verdict)
    if (reason === null || (await cluster.read('Deployment', namespace, workloadName(spec, 'web')))) return
    throw new PermanentError(reason)
  }
}

/** Returns null for a namespace that refuses privileged pods. */
function describeVerdict(namespace: string, { admits, reason }: NamespaceVerdict): string | null {
  if (admits === 'restricted') return null
  const remedy =
    `Ask the operator to label it pod-security.kubernetes.io/enforce=restricted, or to set ` +
    `K8S_PRIVILEGED_NAMESPACES=accept.`
  if (admits === 'privileged') return `The namespace ${namespace} admits privileged pods. ${remedy}`
  const doubt = `The agent cannot tell whether the namespace ${namespace} admits privileged pods: ${reason}.`
  return `${doubt} It needs the permission to create pods, for a dry run. ${remedy}`
}
