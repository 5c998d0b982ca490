// The engine that runs deployments in a Kubernetes cluster. Its only state is the cluster itself.
import type { KubeConfig, KubernetesObject, V1Pod, V1Secret } from '@kubernetes/client-node'
import { type FeatureName, featuresOf } from '../../protocol/engine-features.ts'
import { describeRefusal, type ListenerPolicy } from '../../protocol/listener-policy.ts'
import { diskOfStore } from '../../protocol/snapshots.schema.ts'
import type { WorkTraffic } from '../../protocol/traffic.schema.ts'
import type { NewForward, NewTerminal } from '../../protocol/tunnels.schema.ts'
import type { BucketStore } from '../archive/bucket-store.ts'
import {
  type Artifact,
  type BuildTask,
  type Engine,
  type EngineEvents,
  type EngineObservation,
  type ForwardTarget,
  NO_EVENTS,
  type OneOffRun,
  type RestorePoint,
  type RevisionRef,
  type RevisionSpec,
  type RevisionUsage,
  type RunEnd,
  type SourceTree,
  type Terminal,
  type WriteLog,
} from '../engine.ts'
import type { LogEvent } from '../system/log-event.ts'
import { withBackupProblem } from './backup-problem.ts'
import { Cluster, deploymentIdOf, loadDefaultConfig } from './kubernetes/cluster.ts'
import { ClusterSnapshots } from './kubernetes/cluster-snapshots.ts'
import { DatabaseDumps } from './kubernetes/database-dumps.ts'
import { DeploymentObjects } from './kubernetes/deployment-objects.ts'
import { DeploymentRoutes } from './kubernetes/deployment-routes.ts'
import { diskOf } from './kubernetes/disk-objects.ts'
import { DiskSnapshots, withinDiscovery } from './kubernetes/disk-snapshots.ts'
import { DumpCopies } from './kubernetes/dump-copies.ts'
import { isOfStore } from './kubernetes/dump-objects.ts'
import { Images } from './kubernetes/images.ts'
import { ModelTokenSecrets } from './kubernetes/model-token-secrets.ts'
import { DRAINING_SINCE, namespaceOf, REVISION_LABEL } from './kubernetes/names.ts'
import { NamespaceGuard } from './kubernetes/namespace-guard.ts'
import { Observation } from './kubernetes/observation.ts'
import { labelOf, routedRevisionOf, webServiceOf } from './kubernetes/observed-status.ts'
import { PodAccess } from './kubernetes/pod-access.ts'
import { PodLogs } from './kubernetes/pod-logs.ts'
import { APP_CONTAINER } from './kubernetes/pod-template.ts'
import { readPodUsage } from './kubernetes/pod-usage.ts'
import { Preparation, REMEDIES } from './kubernetes/preparation.ts'
import { PullSecrets } from './kubernetes/pull-secrets.ts'
import { environmentObjects, otherObjects, revisionObjects } from './kubernetes/revision-objects.ts'
import { jobOf, Runs } from './kubernetes/runs.ts'
import { reasonWithoutKeda } from './kubernetes/scaled-objects.ts'
import type { KubernetesSettings } from './kubernetes/settings.ts'
import { storesFor } from './kubernetes/store-objects.ts'
import { TaskJobs } from './kubernetes/task-jobs.ts'

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
  /** The pause between two readings of the snapshots in the cluster. */
  refresh_ms?: number
  /** Undefined: dumps of databases are in claims only. */
  archive?: BucketStore | undefined
  logEvent?: LogEvent
}

export class KubernetesEngine implements Engine {
  readonly name = 'kubernetes'
  policy: ListenerPolicy
  readonly snapshotHolder: ClusterSnapshots
  readonly #settings: KubernetesSettings
  readonly #cluster: Cluster
  readonly #objects: DeploymentObjects
  readonly #images: Images
  readonly #runs: Runs
  /** The artifacts of the revisions that this agent has started. */
  readonly #artifacts = new Map<string, Artifact>()
  /** The last revision that this agent has started, by deployment. */
  readonly #started = new Map<string, string>()
  readonly #observation: Observation
  readonly #access: PodAccess
  readonly #namespaces: NamespaceGuard
  readonly #pullSecrets: PullSecrets
  readonly #logEvent: LogEvent
  readonly #renewMs: number
  readonly #checkMs: number
  readonly #now: () => Date
  readonly #modelTokens: ModelTokenSecrets
  readonly #preparation: Preparation
  readonly #routes: DeploymentRoutes
  readonly #dumps: DatabaseDumps
  readonly #disks: DiskSnapshots
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
    refresh_ms = 60_000,
    logEvent = () => {},
    agent_id,
    commandEnv = {},
    archive,
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
      features: this.#features(['disk_snapshots', 'queue_scaling']),
      tunnels: ['terminal', 'tty', 'forward', 'postgres', 'redis'],
    }
    this.#now = now
    const cluster = this.#cluster
    const objects = this.#objects
    this.#observation = new Observation({ objects, settings, now, changed: id => this.#events.changed(id) })
    this.#modelTokens = new ModelTokenSecrets(cluster, () => this.#events)
    this.#access = new PodAccess({ cluster, objects, settings })
    this.#namespaces = new NamespaceGuard({ cluster, settings, now, logEvent })
    const requestCredential: EngineEvents['registryCredential'] = (of, image) =>
      this.#events.registryCredential(of, image)
    const warn = (of: RevisionRef, message: string) => this.#events.log(of, message, 'WARNING')
    this.#pullSecrets = new PullSecrets({ settings, cluster, now, requestCredential, warn })
    const images = new Images({
      settings,
      cluster,
      pullSecrets: this.#pullSecrets,
      requestCredential,
      agent_id: agent_id ?? settings.owner,
      commandEnv,
    })
    this.#images = images
    const tasks = new TaskJobs({ cluster, pause_ms, now, progress_seconds: settings.progress_seconds })
    const changed = (id: string) => this.#events.changed(id)
    const dumps = new DatabaseDumps({ cluster, settings, objects, tasks, onFailure: this.#warnOfDump, changed })
    const disks = new DiskSnapshots({ cluster, settings, objects, pause_ms })
    this.#dumps = dumps
    this.#disks = disks
    const copies = archive && new DumpCopies({ store: archive, dumps, logEvent })
    this.snapshotHolder = new ClusterSnapshots({ settings, objects, dumps, disks, copies, refresh_ms })
    this.#preparation = new Preparation({
      settings,
      objects,
      images,
      namespaces: this.#namespaces,
      modelTokens: this.#modelTokens,
      dumps,
      disks,
      policy: () => this.policy,
      mayHaveKeda: () => this.#cluster.mayHaveKeda,
      events: () => this.#events,
    })
    this.#routes = new DeploymentRoutes({ settings, objects, preparation: this.#preparation, now })
  }

  /** A line needs a revision: the one that this agent has started last. */
  readonly #warnOfDump = (deployment_id: string, message: string) => {
    const revision_id = this.#started.get(deployment_id)
    const text = `The daily backup of the database failed: ${message}`
    if (revision_id) this.#events.log({ deployment_id, revision_id }, text, 'WARNING')
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
    const checking = setInterval(() => void this.#namespaces.warn(), this.#checkMs).unref()
    this.#stopWatches.push(() => clearInterval(checking))
    void this.#namespaces.warn()
    await this.#discoverFeatures()
  }

  #features(missing: FeatureName[]): FeatureName[] {
    return featuresOf(this.name, [
      ...missing,
      // An Ingress has no weights.
      ...(this.#settings.routes === 'gateway' ? [] : (['traffic', 'rollout'] as const)),
      ...(this.#settings.database_backups ? [] : (['database_snapshots'] as const)),
    ])
  }

  /** Before the agent tells its features. */
  async #discoverFeatures(): Promise<void> {
    let isAnswered = false
    const asked = reasonWithoutKeda(this.#cluster, this.#settings).then(reason => {
      isAnswered = true
      return reason
    })
    const keda = withinDiscovery(asked)
    const [snapshots, queues] = [await this.#disks.reasonIfMissing(), await keda]
    this.#cluster.mayHaveKeda = queues === null || !isAnswered
    if (snapshots !== null) this.#logEvent('no snapshots of disks', { reason: snapshots })
    if (queues !== null) this.#logEvent('no scaling by queues', { reason: queues })
    const missing: FeatureName[] = snapshots === null ? [] : ['disk_snapshots']
    this.policy = {
      ...this.policy,
      features: this.#features(queues === null ? missing : [...missing, 'queue_scaling']),
    }
  }

  deployments(): Promise<string[]> {
    return this.#objects.listDeployments()
  }

  async observe(deployment_id: string): Promise<EngineObservation> {
    const observed = { ...(await this.#observation.observe(deployment_id)), split: this.#routes.splitOf(deployment_id) }
    return withBackupProblem(observed, this.#dumps.problemOf(deployment_id))
  }

  async provide(spec: RevisionSpec): Promise<void> {
    for (const store of storesFor(this.#settings, spec))
      if (store.component === 'database') await this.#preparation.ensureStore(spec, store)
  }

  async prepare(spec: RevisionSpec, tree: SourceTree | null, task: BuildTask): Promise<Artifact> {
    await this.#namespaces.require(spec)
    return this.#images.prepare(spec, tree, task)
  }

  async reuse(spec: RevisionSpec, artifact: Artifact, task: BuildTask): Promise<Artifact | null> {
    return (await this.#images.isInRegistry(spec, artifact, task)) ? artifact : null
  }

  async start(spec: RevisionSpec, artifact: Artifact): Promise<void> {
    this.#artifacts.set(spec.revision_id, artifact)
    this.#started.set(spec.deployment_id, spec.revision_id)
    const prepared = await this.#preparation.prepare(spec, artifact)
    for (const object of revisionObjects(this.#settings, prepared, artifact))
      await this.#preparation.apply(spec, object, unlessImmutable(object))
  }

  async runOnce(
    spec: RevisionSpec,
    artifact: Artifact,
    run: OneOffRun,
    log: WriteLog,
    signal: AbortSignal,
  ): Promise<RunEnd> {
    const makeJob = async () => {
      const prepared = await this.#preparation.prepare(spec, artifact)
      for (const object of environmentObjects(this.#settings, prepared, artifact))
        await this.#preparation.apply(spec, object, unlessImmutable(object))
      return jobOf(this.#settings, prepared, artifact, run)
    }
    return this.#runs.run({ namespace: namespaceOf(this.#settings, spec), spec, run, makeJob, log, signal })
  }

  async forgetRun(deployment_id: string, id: string): Promise<void> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace !== null) await this.#runs.forget(namespace, deployment_id, id)
  }

  renewModelToken(deployment_id: string): Promise<void> {
    return this.#modelTokens.renew(deployment_id)
  }

  async route(spec: RevisionSpec): Promise<void> {
    const artifact = this.#artifacts.get(spec.revision_id)
    await this.#routes.apply(spec, artifact?.isWithoutWeb === true)
    if (artifact) await this.#switchOthers(spec, artifact)
  }

  split(deployment_id: string, split: WorkTraffic | null): Promise<void> {
    return this.#routes.split(deployment_id, split)
  }

  /** The other processes of the revision before end first: two schedulers would do the same work. */
  async #switchOthers(spec: RevisionSpec, artifact: Artifact): Promise<void> {
    const others = otherObjects(this.#settings, spec, artifact)
    await this.#objects.removeOthers(namespaceOf(this.#settings, spec), spec)
    if (others.length === 0) return
    const prepared = await this.#images.withPullSecret(spec, artifact)
    for (const object of otherObjects(this.#settings, prepared, artifact)) await this.#preparation.apply(spec, object)
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
    this.#observation.observeLater(revision_id, this.#settings.drain_seconds * 1000, deployment_id)
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

  async listStores(deployment_id: string): Promise<string[]> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    return namespace === null ? [] : this.snapshotHolder.listStores(namespace, deployment_id)
  }

  takeSnapshot(_: string, store: string, id: string, signal: AbortSignal): Promise<void> {
    return this.snapshotHolder.take(store, id, signal)
  }

  restoreSnapshot(spec: RevisionSpec, store: string, from: RestorePoint, signal: AbortSignal): Promise<void> {
    return this.snapshotHolder.restore(spec, store, from, signal)
  }

  /** Claims that the agent has not made are not its own to remove. */
  async removeStore(deployment_id: string, store: string): Promise<void> {
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return
    const disk = diskOfStore(store)
    if (disk !== null) await this.#disks.forgetRestores(namespace, deployment_id, disk)
    const isOf = (object: KubernetesObject) => (disk !== null ? diskOf(object) === disk : isOfStore(object, store))
    await this.#objects.removeAll(namespace, deployment_id, isOf)
  }

  async remove(deployment_id: string): Promise<void> {
    await this.#images.forget(deployment_id)
    this.#modelTokens.forget(deployment_id)
    this.#routes.forget(deployment_id)
    this.#started.delete(deployment_id)
    const namespace = await this.#objects.findNamespace(deployment_id)
    if (namespace === null) return
    await this.#objects.remove(await this.#objects.listRoutes(namespace, deployment_id))
    await this.#objects.removeAll(namespace, deployment_id, () => true)
    await this.#dumps.removeEmptyClaims(namespace, deployment_id)
    this.#objects.forget(deployment_id)
  }

  openTerminal(ref: RevisionRef, id: string, request: NewTerminal): Promise<Terminal> {
    return this.#access.openTerminal(ref, id, request)
  }

  openForward(ref: RevisionRef, request: NewForward): Promise<ForwardTarget> {
    return this.#access.openForward(ref, request)
  }

  readUsage(): Promise<RevisionUsage[]> {
    return readPodUsage(this.#cluster, this.#settings.namespaces)
  }

  /** The pods keep running. */
  async close(): Promise<void> {
    for (const stop of this.#stopWatches.splice(0)) stop()
    this.#observation.close()
    this.snapshotHolder.close()
    this.#runs.close()
    this.#logs?.close()
  }
}

/** An immutable Secret that exists is already correct. */
const unlessImmutable = (object: KubernetesObject) => ((object as V1Secret).immutable ? () => null : undefined)
