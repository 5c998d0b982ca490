// The engine that runs deployments in a Kubernetes cluster. Its only state is the cluster itself.
import { KubeConfig, type KubernetesObject, type V1Pod, type V1Secret } from '@kubernetes/client-node'
import { featuresOf } from '../../protocol/engine-features.ts'
import { describeRefusal, type ListenerPolicy } from '../../protocol/listener-policy.ts'
import { diskOfStore } from '../../protocol/snapshots.schema.ts'
import type { NewForward, NewTerminal } from '../../protocol/tunnels.schema.ts'
import {
  type Artifact,
  type BuildTask,
  describeDeadline,
  type Engine,
  type EngineEvents,
  type EngineObservation,
  type ForwardTarget,
  NO_EVENTS,
  type OneOffRun,
  PermanentError,
  type RevisionRef,
  type RevisionSpec,
  type RevisionUsage,
  type RunEnd,
  type SourceTree,
  type Terminal,
  type WriteLog,
} from '../engine.ts'
import { signatureOf } from '../redaction/redaction.ts'
import type { LogEvent } from '../system/log-event.ts'
import { Cluster, deploymentIdOf } from './kubernetes/cluster.ts'
import { DeploymentObjects, withLargerStorage } from './kubernetes/deployment-objects.ts'
import { DISK_COMPONENT, diskClaimsOf } from './kubernetes/disk-objects.ts'
import { Images } from './kubernetes/images.ts'
import {
  COMPONENT_LABEL,
  DRAINING_SINCE,
  namespaceOf,
  ownerLabels,
  REVISION_LABEL,
  URL_ANNOTATION,
  workloadName,
} from './kubernetes/names.ts'
import { NamespaceChecks, type NamespaceVerdict } from './kubernetes/namespace-check.ts'
import {
  databaseSetOf,
  findProblem,
  isSetReady,
  labelOf,
  nextStartDeadline,
  type ObservedObjects,
  observeCondition,
  observePhase,
  revisionsOf,
  routedRevisionOf,
  webServiceOf,
} from './kubernetes/observed-status.ts'
import type { Finding } from './kubernetes/pod-failures.ts'
import { PodLogs } from './kubernetes/pod-logs.ts'
import { connectToPod, startPodTerminal } from './kubernetes/pod-sockets.ts'
import { APP_CONTAINER, APP_PORT, resourcesOf, webWorkloadOf } from './kubernetes/pod-template.ts'
import { readPodUsage } from './kubernetes/pod-usage.ts'
import { PullSecrets } from './kubernetes/pull-secrets.ts'
import { environmentObjects, modelTokenSecretOf, otherObjects, revisionObjects } from './kubernetes/revision-objects.ts'
import { routesOf, serviceOf } from './kubernetes/routing.ts'
import { jobOf, Runs } from './kubernetes/runs.ts'
import type { KubernetesSettings } from './kubernetes/settings.ts'
import { encodeBase64, type StoreObjects, storesFor } from './kubernetes/store-objects.ts'
import { MODEL_TOKEN_FILE } from './model-variables.ts'
import { WEB } from './process-types.ts'
import { loginOf } from './store-variables.ts'

const REMEDIES = {
  privileged: 'Remove it, or ask the operator to allow it with K8S_PRIVILEGES.',
  service_account: 'Remove it, or ask the operator to add it to K8S_SERVICE_ACCOUNTS.',
  copies: 'Lower it.',
}
/** Resources of a small deployment, for the check before a real one is known. */
const CHECKED_RESOURCES = resourcesOf([0.5, 1], [512, 1024])

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

const WATCHED_KINDS = ['Pod', 'Deployment', 'StatefulSet'] as const

/** Without `config`, the agent uses its pod's service account or the configuration of kubectl. */
type Options = {
  settings: KubernetesSettings
  config?: KubeConfig
  now?: () => Date
  pause_ms?: number
  /** Distinguishes its builds from those of other agents with the same image builder. */
  agent_id?: string
  /** Variables for install and build commands, such as those of a proxy. */
  commandEnv?: Record<string, string>
  /** The pause between two checks of whether pull secrets need a renewal. */
  renew_ms?: number
  /** The pause between two checks of the namespaces. */
  check_ms?: number
  logEvent?: LogEvent
}

export class KubernetesEngine implements Engine {
  readonly name = 'kubernetes'
  readonly policy: ListenerPolicy
  readonly #settings: KubernetesSettings
  readonly #cluster: Cluster
  readonly #objects: DeploymentObjects
  readonly #images: Images
  readonly #runs: Runs
  /** The artifacts of the revisions that this agent has started. */
  readonly #artifacts = new Map<string, Artifact>()
  readonly #namespaceChecks: NamespaceChecks
  readonly #logEvent: LogEvent
  /** The last warning about each namespace. */
  readonly #warnings = new Map<string, string>()
  readonly #pullSecrets: PullSecrets
  readonly #renewMs: number
  readonly #checkMs: number
  readonly #now: () => Date
  /** The Secrets with tokens, by deployment. `start` adds them, and each running revision is started once. */
  readonly #tokenSecrets = new Map<string, V1Secret>()
  readonly #timers = new Map<string, NodeJS.Timeout>()
  #stopWatches: (() => void)[] = []
  #logs: PodLogs | null = null
  #events: EngineEvents = NO_EVENTS

  constructor({
    settings,
    config = loadDefaultConfig(),
    now = () => new Date(),
    pause_ms = 1000,
    renew_ms = 60_000,
    check_ms = 10 * 60_000,
    logEvent = () => {},
    agent_id,
    commandEnv = {},
  }: Options) {
    this.#settings = settings
    this.#cluster = new Cluster(config, settings.owner)
    this.#objects = new DeploymentObjects(this.#cluster, settings, pause_ms)
    this.#runs = new Runs({ cluster: this.#cluster, logs: () => this.#logs!, pause_ms, now })
    this.#renewMs = renew_ms
    this.#checkMs = check_ms
    this.#logEvent = logEvent
    this.policy = {
      privileged: settings.privileges,
      service_accounts: settings.service_accounts,
      engine: this.name,
      features: featuresOf(this.name),
      tunnels: ['terminal', 'tty', 'forward', 'postgres', 'redis'],
    }
    this.#now = now
    const cluster = this.#cluster
    this.#namespaceChecks = new NamespaceChecks({ cluster, now, image: settings.postgres_image })
    const requestCredential: EngineEvents['registryCredential'] = (of, image) =>
      this.#events.registryCredential(of, image)
    const warn = (of: RevisionRef, message: string) => this.#events.log(of, message, 'WARNING')
    this.#pullSecrets = new PullSecrets({ settings, cluster, now, requestCredential, warn })
    this.#images = new Images({
      settings,
      cluster,
      pullSecrets: this.#pullSecrets,
      requestCredential,
      agent_id: agent_id ?? settings.owner,
      commandEnv,
    })
  }

  refusalReason(spec: RevisionSpec): string | null {
    const imageReason = this.#images.refusalReason(spec)
    if (imageReason !== null) return imageReason
    const namespace = namespaceOf(this.#settings, spec)
    if (!this.#settings.namespaces.includes(namespace))
      return (
        `This agent cannot deploy to the namespace ${namespace}. Set k8s_namespace to one of: ` +
        `${this.#settings.namespaces.join(', ')}.`
      )
    const { sidecars, init_containers } = spec.resources
    if ([...(sidecars ?? []), ...(init_containers ?? [])].some(({ name }) => name === APP_CONTAINER))
      return (
        `The container name \`${APP_CONTAINER}\` is reserved for the application. ` +
        `Rename that container in resource_spec.`
      )
    return describeRefusal(spec.resources, this.policy, REMEDIES)
  }

  async open(events: EngineEvents): Promise<void> {
    this.#events = events
    const logs = new PodLogs(this.#cluster.config, (of, message, level) => events.log(of, message, level))
    this.#logs = logs
    const since = this.#now()
    const changed = (object: KubernetesObject, gone: boolean) => {
      const deployment = deploymentIdOf(object)
      if (deployment === undefined) return
      if (object.kind === 'Pod') logs.handlePod(object as V1Pod, gone, since)
      events.changed(deployment)
    }
    for (const namespace of this.#settings.namespaces)
      for (const kind of WATCHED_KINDS) this.#stopWatches.push(this.#cluster.watch(kind, namespace, changed))
    this.#images.open(() => this.#objects.listDeployments())
    const renewing = setInterval(() => void this.#pullSecrets.renew(), this.#renewMs).unref()
    this.#stopWatches.push(() => clearInterval(renewing))
    void this.#pullSecrets.renew()
    let isChecking = false
    // Not while one runs: its answer could undo that of a later one.
    const check = async () => {
      if (isChecking) return
      isChecking = true
      await this.#warnOfNamespaces()
      isChecking = false
    }
    const checking = setInterval(() => void check(), this.#checkMs).unref()
    this.#stopWatches.push(() => clearInterval(checking))
    void check()
  }

  /** Warns the operator in the log, before a user gets the refusal. */
  async #warnOfNamespaces(): Promise<void> {
    for (const namespace of this.#settings.namespaces) {
      const verdict = await this.#namespaceChecks.ask(namespace, CHECKED_RESOURCES).catch(() => null)
      const warning = verdict && describeVerdict(namespace, verdict)
      if (warning && this.#warnings.get(namespace) !== warning)
        this.#logEvent('namespace not restricted', { namespace, reason: warning })
      if (verdict) this.#warnings.set(namespace, warning ?? '')
    }
  }

  /** Refuses a revision only while it has no Deployment, so running ones stay in such a namespace. */
  async #requireRestrictedNamespace(spec: RevisionSpec): Promise<void> {
    if (this.#settings.accepts_privileged_namespaces) return
    const namespace = namespaceOf(this.#settings, spec)
    const verdict = await this.#namespaceChecks.check(namespace, webWorkloadOf(spec).resources)
    const reason = describeVerdict(namespace, verdict)
    if (reason === null || (await this.#cluster.read('Deployment', namespace, workloadName(spec, 'web')))) return
    throw new PermanentError(reason)
  }

  deployments(): Promise<string[]> {
    return this.#objects.listDeployments()
  }

  async observe(deployment_id: string): Promise<EngineObservation> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return { running: [], routed: null, url: null, hasRemains: false, database: null }
    const objects = await this.#objects.listObserved(namespace, deployment_id)
    const running: EngineObservation['running'] = []
    for (const revision_id of revisionsOf(objects))
      running.push(await this.#observeRevision(namespace, objects, { deployment_id, revision_id }))
    const hasObjects = Object.values(objects).some(ofKind => ofKind.length > 0)
    return {
      running,
      routed: routedRevisionOf(objects),
      url: webServiceOf(objects)?.metadata?.annotations?.[URL_ANNOTATION] ?? null,
      hasRemains: hasObjects || (await this.#objects.listRemains(namespace, deployment_id)).length > 0,
      database: await this.#observeDatabase(namespace, objects, deployment_id),
    }
  }

  async #observeRevision(
    namespace: string,
    objects: ObservedObjects,
    of: RevisionRef,
  ): Promise<EngineObservation['running'][number]> {
    const { deployment_id, revision_id } = of
    const now = this.#now()
    const { phase, drains_at } = observePhase(revision_id, objects, this.#settings.drain_seconds, now)
    if (phase === 'draining' && drains_at !== null)
      this.#observeLater(revision_id, drains_at - now.getTime(), deployment_id)
    const isRouted = routedRevisionOf(objects) === revision_id
    const progress = { now, progress_seconds: this.#settings.progress_seconds }
    const conditionFor = (reason: string | null) => observeCondition(revision_id, objects, phase, reason, progress)
    const isShort = isRouted && conditionFor(null).health.state === 'degraded'
    const withCondition = (reason: string | null) => ({ ...(isRouted && { condition: conditionFor(reason) }) })
    const nextDeadline = isRouted ? nextStartDeadline(revision_id, objects.pods, progress) : null
    if (nextDeadline !== null) this.#observeLater(`${revision_id} starts`, nextDeadline - now.getTime(), deployment_id)
    if (phase !== 'starting' && phase !== 'unhealthy' && !isShort)
      return { revision_id, phase, reason: null, ...withCondition(null) }
    const problem = await this.#findProblem(
      namespace,
      objects,
      object => labelOf(object, REVISION_LABEL) === revision_id,
    )
    const isFailing = phase === 'starting' && this.#isHopeless(problem, revision_id, deployment_id)
    const isPending = problem !== null && phase === 'starting' && !isFailing
    const deadline = isPending ? ` ${describeDeadline(this.#deadlineOf(problem, objects, revision_id))}` : ''
    const finding = problem && { ...problem, reason: problem.reason + deadline }
    const reason = finding && (await this.#objects.describeFinding(namespace, finding))
    return { revision_id, phase: isFailing ? 'failing' : phase, reason, ...withCondition(reason) }
  }

  /** The time when the cluster gives the rollout up, or earlier if waiting cannot help. */
  #deadlineOf({ hopeless_at }: Finding, { deployments }: ObservedObjects, revision_id: string): number {
    const deadlines = deployments
      .filter(object => labelOf(object, REVISION_LABEL) === revision_id)
      .map(({ metadata, spec }) => {
        const created = new Date(metadata?.creationTimestamp ?? this.#now()).getTime()
        return created + (spec?.progressDeadlineSeconds ?? this.#settings.progress_seconds) * 1000
      })
    return Math.min(hopeless_at, ...deadlines)
  }

  async #findProblem(
    namespace: string,
    objects: ObservedObjects,
    filter: (object: KubernetesObject) => boolean,
  ): Promise<Finding | null> {
    const events = await this.#objects.listEvents(namespace, objects.pods.filter(filter))
    return findProblem(objects, filter, events)
  }

  async #observeDatabase(
    namespace: string,
    objects: ObservedObjects,
    deployment_id: string,
  ): Promise<EngineObservation['database']> {
    const set = databaseSetOf(objects)
    if (!set) return null
    if (isSetReady(set)) return { ready: true, reason: null }
    const problem = await this.#findProblem(
      namespace,
      objects,
      object => labelOf(object, COMPONENT_LABEL) === 'database',
    )
    const reason = problem && (await this.#objects.describeFinding(namespace, problem))
    const isHopeless = this.#isHopeless(problem, deployment_id, deployment_id)
    return { ready: false, reason, ...(isHopeless && { hopeless: true }) }
  }

  #isHopeless(problem: Finding | null, timerKey: string, deployment_id: string): boolean {
    if (!problem) return false
    const remainingMs = problem.hopeless_at - this.#now().getTime()
    if (remainingMs > 0 && Number.isFinite(remainingMs)) this.#observeLater(timerKey, remainingMs, deployment_id)
    return remainingMs <= 0
  }

  /** A deadline passes without a change in the cluster, so no watch reports it. */
  #observeLater(timerKey: string, ms: number, deployment_id: string): void {
    clearTimeout(this.#timers.get(timerKey))
    const observe = () => {
      this.#timers.delete(timerKey)
      this.#events.changed(deployment_id)
    }
    this.#timers.set(timerKey, setTimeout(observe, Math.max(0, ms) + 50).unref())
  }

  async provide(spec: RevisionSpec): Promise<void> {
    for (const store of storesFor(this.#settings, spec))
      if (store.component === 'database') await this.#ensureStore(spec, store)
  }

  async prepare(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    await this.#requireRestrictedNamespace(spec)
    return this.#images.prepare(spec, tree, task)
  }

  async reuse(spec: RevisionSpec, artifact: Artifact, task: BuildTask): Promise<Artifact | null> {
    return (await this.#images.isInRegistry(spec, artifact, task)) ? artifact : null
  }

  async start(spec: RevisionSpec, artifact: Artifact): Promise<void> {
    this.#artifacts.set(spec.revision_id, artifact)
    const prepared = await this.#prepareStart(spec, artifact)
    for (const object of revisionObjects(this.#settings, prepared, artifact))
      await this.#apply(spec, object, unlessImmutable(object))
  }

  async runOnce(
    spec: RevisionSpec,
    artifact: Artifact,
    run: OneOffRun,
    log: WriteLog,
    signal: AbortSignal,
  ): Promise<RunEnd> {
    const makeJob = async () => {
      const prepared = await this.#prepareStart(spec, artifact)
      for (const object of environmentObjects(this.#settings, prepared, artifact))
        await this.#apply(spec, object, unlessImmutable(object))
      return jobOf(this.#settings, prepared, artifact, run)
    }
    return this.#runs.run({ namespace: namespaceOf(this.#settings, spec), spec, run, makeJob, log, signal })
  }

  async forgetRun(deployment_id: string, id: string): Promise<void> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace !== null) await this.#runs.forget(namespace, deployment_id, id)
  }

  /** Creates all that a pod of the revision needs besides its own objects. Returns it with the secret for its image. */
  async #prepareStart(spec: RevisionSpec, artifact: Artifact): Promise<RevisionSpec> {
    // An earlier agent may have accepted the revision without this rule. Its running objects stay as they are.
    const refusal = describeRefusal(spec.resources, this.policy, REMEDIES)
    if (refusal !== null) throw new PermanentError(refusal)
    await this.#requireRestrictedNamespace(spec)
    await this.#objects.checkNamedObjects(spec)
    // Comes first, because pods of an earlier agent may already log these passwords.
    for (const store of storesFor(this.#settings, spec)) await this.#hideStoreSecrets(spec, store)
    // An invalid host fails the start, instead of the switch to a healthy revision.
    const routes = routesOf(this.#settings, spec)
    await this.#objects.checkHosts(spec, routes)
    for (const route of routes) await this.#objects.dryRunApply(route)
    for (const store of storesFor(this.#settings, spec)) await this.#ensureStore(spec, store)
    for (const claim of diskClaimsOf(this.#settings, spec))
      await this.#apply(spec, claim, existing => withLargerStorage(claim, existing))
    await this.#startModelToken(spec)
    return this.#images.withPullSecret(spec, artifact)
  }

  async #startModelToken(spec: RevisionSpec): Promise<void> {
    if (spec.models_url === null) return
    const secret = modelTokenSecretOf(this.#settings, spec)
    await this.#apply(spec, secret, ({ data = {} }: V1Secret) => {
      const earlier = Buffer.from(data[MODEL_TOKEN_FILE] ?? '', 'base64').toString()
      if (earlier) this.#events.hide(spec.deployment_id, [signatureOf(earlier)])
      return null
    })
    this.#tokenSecrets.set(spec.deployment_id, secret)
    await this.renewModelToken(spec.deployment_id)
  }

  async renewModelToken(deployment_id: string): Promise<void> {
    const secret = this.#tokenSecrets.get(deployment_id)
    const token = this.#events.modelToken(deployment_id)
    if (secret && token !== undefined)
      await this.#cluster.updateSecret(secret, { [MODEL_TOKEN_FILE]: encodeBase64(token) })
  }

  async #ensureStore(spec: RevisionSpec, store: StoreObjects): Promise<void> {
    for (const conflict of await this.#objects.ensureStore(spec, store)) this.#logConflict(spec, conflict)
    await this.#hideStoreSecrets(spec, store)
  }

  async #hideStoreSecrets(spec: RevisionSpec, store: StoreObjects): Promise<void> {
    this.#events.hide(spec.deployment_id, await this.#objects.readStoreSecrets(spec, store))
  }

  async #apply(
    spec: RevisionSpec,
    object: KubernetesObject,
    adjust?: (existing: KubernetesObject) => KubernetesObject | null,
  ): Promise<void> {
    const conflict = await this.#objects.apply(spec, object, adjust)
    if (conflict !== null) this.#logConflict(spec, conflict)
  }

  #logConflict(spec: RevisionSpec, conflict: string): void {
    const { deployment_id, revision_id } = spec
    const message = `Reverted a change by another field manager to an object of this agent. ${conflict}`
    this.#events.log({ deployment_id, revision_id }, message, 'WARNING')
  }

  async route(spec: RevisionSpec): Promise<void> {
    const artifact = this.#artifacts.get(spec.revision_id)
    const routes = artifact?.isWithoutWeb ? [] : routesOf(this.#settings, spec)
    await this.#objects.checkHosts(spec, routes)
    // The Service is last: its selector switches the requests to this revision.
    const service = serviceOf(this.#settings, spec)
    // Without a process that listens, it only says which revision is in effect.
    if (artifact?.isWithoutWeb) delete service.metadata!.annotations![URL_ANNOTATION]
    for (const object of [...routes, service]) await this.#apply(spec, object)
    const wanted = new Set(routes.map(({ kind, metadata }) => `${kind} ${metadata!.name}`))
    const existing = await this.#objects.listRoutes(namespaceOf(this.#settings, spec), spec.deployment_id)
    await this.#objects.remove(existing.filter(({ kind, metadata }) => !wanted.has(`${kind} ${metadata!.name}`)))
    if (artifact) await this.#switchOthers(spec, artifact)
  }

  /** The other processes of the revision before end first: two schedulers would do the same work. */
  async #switchOthers(spec: RevisionSpec, artifact: Artifact): Promise<void> {
    const others = otherObjects(this.#settings, spec, artifact)
    await this.#objects.removeOthers(namespaceOf(this.#settings, spec), spec)
    if (others.length === 0) return
    const prepared = await this.#images.withPullSecret(spec, artifact)
    for (const object of otherObjects(this.#settings, prepared, artifact)) await this.#apply(spec, object)
  }

  async drain({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return
    const objects = await this.#objects.listObserved(namespace, deployment_id)
    if (routedRevisionOf(objects) === revision_id)
      await this.#objects.remove([
        ...(await this.#objects.listRoutes(namespace, deployment_id)),
        webServiceOf(objects)!,
      ])
    const since = this.#now().toISOString()
    for (const object of objects.deployments)
      if (
        labelOf(object, REVISION_LABEL) === revision_id &&
        object.metadata?.annotations?.[DRAINING_SINCE] === undefined
      )
        await this.#cluster.annotate(object, { [DRAINING_SINCE]: since })
    this.#observeLater(revision_id, this.#settings.drain_seconds * 1000, deployment_id)
  }

  /** Does not wait for terminating pods. The phase is `draining` until they are gone. */
  async stop({ deployment_id, revision_id }: RevisionRef): Promise<void> {
    this.#artifacts.delete(revision_id)
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return
    await this.#objects.removeAll(
      namespace,
      deployment_id,
      object => labelOf(object, REVISION_LABEL) === revision_id,
      false,
    )
  }

  /** Claims that the agent has not made are not its own to remove. */
  async removeStore(deployment_id: string, store: string): Promise<void> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return
    const disk = diskOfStore(store)
    const isOf = (object: KubernetesObject) =>
      disk === null
        ? labelOf(object, COMPONENT_LABEL) === store
        : labelOf(object, COMPONENT_LABEL) === DISK_COMPONENT && object.metadata!.name!.endsWith(`-disk-${disk}`)
    await this.#objects.removeAll(namespace, deployment_id, isOf)
  }

  async remove(deployment_id: string): Promise<void> {
    await this.#images.forget(deployment_id)
    this.#tokenSecrets.delete(deployment_id)
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return
    await this.#objects.remove(await this.#objects.listRoutes(namespace, deployment_id))
    await this.#objects.removeAll(namespace, deployment_id, () => true)
    this.#objects.forget(deployment_id)
  }

  async openTerminal(ref: RevisionRef, id: string, request: NewTerminal): Promise<Terminal> {
    const pod = await this.#findCopy(ref, request.copy)
    return startPodTerminal(this.#cluster.config, { ...pod, container: APP_CONTAINER }, id, request)
  }

  async openForward(ref: RevisionRef, { store, port, copy }: NewForward): Promise<ForwardTarget> {
    if (store) return this.#forwardToStore(ref.deployment_id, store)
    const pod = await this.#findCopy(ref, copy)
    return { connect: () => connectToPod(this.#cluster.config, pod, port ?? APP_PORT) }
  }

  async #forwardToStore(deployment_id: string, store: NonNullable<NewForward['store']>): Promise<ForwardTarget> {
    const component = store === 'postgres' ? 'database' : 'redis'
    const [pod] = await this.#findPods(deployment_id, { [COMPONENT_LABEL]: component })
    const secret = pod && (await this.#objects.readStoreSecret(pod.namespace, deployment_id, component))
    const uri = secret && Buffer.from(secret.data?.uri ?? '', 'base64').toString()
    if (!pod || !uri) throw new PermanentError(`This deployment has no ${store} that is ready.`)
    return { store: loginOf(uri), connect: () => connectToPod(this.#cluster.config, pod, Number(new URL(uri).port)) }
  }

  async #findCopy({ deployment_id, revision_id }: RevisionRef, number: number | null | undefined) {
    const pods = await this.#findPods(deployment_id, { [COMPONENT_LABEL]: WEB, [REVISION_LABEL]: revision_id })
    const pod = pods[(number ?? 1) - 1]
    if (pod) return pod
    throw new PermanentError(number == null ? 'No copy of this revision runs.' : `Copy ${number} does not run.`)
  }

  /** Running pods, the oldest first. */
  async #findPods(
    deployment_id: string,
    labels: Record<string, string>,
  ): Promise<{ namespace: string; pod: string }[]> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return []
    const all = { ...ownerLabels(this.#settings, deployment_id), ...labels }
    const pods = await this.#cluster.list<V1Pod>('Pod', namespace, { labels: all })
    return pods
      .filter(({ metadata, status }) => status?.phase === 'Running' && !metadata?.deletionTimestamp)
      .toSorted((a, b) => ageKey(a).localeCompare(ageKey(b)))
      .map(({ metadata }) => ({ namespace, pod: metadata!.name! }))
  }

  readUsage(): Promise<RevisionUsage[]> {
    return readPodUsage(this.#cluster, this.#settings.namespaces)
  }

  /** The pods keep running. */
  async close(): Promise<void> {
    for (const stop of this.#stopWatches.splice(0)) stop()
    for (const timer of this.#timers.values()) clearTimeout(timer)
    this.#timers.clear()
    this.#runs.close()
    this.#logs?.close()
  }
}

const ageKey = ({ metadata }: V1Pod) => `${new Date(metadata!.creationTimestamp ?? 0).toISOString()} ${metadata!.name}`

/** An immutable Secret that exists is already correct. */
const unlessImmutable = (object: KubernetesObject) => ((object as V1Secret).immutable ? () => null : undefined)

function loadDefaultConfig(): KubeConfig {
  const config = new KubeConfig()
  config.loadFromDefault()
  return config
}
