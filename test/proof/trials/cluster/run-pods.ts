// A node whose pods really run: each container by Podman from the images of this commit, in the pod's own network, with
// its environment, volumes and security, and with its probes. Liveness, limits and image pulls are left out. Commands,
// ports and logs of its pods are reached through the API.
import { type ChildProcess, execFile, spawn } from 'node:child_process'
import { once } from 'node:events'
import * as fs from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { promisify } from 'node:util'
import type { V1Container, V1ContainerStatus, V1Pod, V1Probe } from '@kubernetes/client-node'
import { ContainerLog } from './container-log.ts'
import { Kubelet } from './kubelet.ts'
import type { Objects } from './objects.ts'
import { MissingReference, type PodFacts, prepareVolume, resolveEnvironment } from './pod-files.ts'
import { HOST_ADDRESS, type PodNetwork, type Target } from './pod-network.ts'
import { PodServices } from './pod-services.ts'

/** `$(NAME)` is the value of a variable, and `$$` a dollar sign. An unknown name stays as it is. */
const expandWords = (words: string[], environment: Record<string, string>): string[] =>
  words.map(word =>
    word.replace(/\$\$|\$\(([\w.-]+)\)/g, (text, name) => (text === '$$' ? '$' : (environment[name] ?? text))),
  )

export const RUNNER_NODE = 'runner-1'
const execute = promisify(execFile)
const TICK_MS = 300
/** Longer than a kubelet waits: Podman itself takes seconds on a busy machine. */
const PROBE_MS = 15_000
/** For machines without systemd, and where limits cannot be raised. */
const PODMAN_SETTINGS = `[containers]
default_ulimits = ["nofile=1024:1024", "nproc=1024:1024"]
[engine]
runtime = "runc"
cgroup_manager = "cgroupfs"
events_logger = "file"
`

type Running = {
  pod: V1Pod
  namespace: string
  facts: PodFacts
  containers: Map<string, ContainerState>
  startTime: string
  /** Each pod goes on by itself: one that waits for its image holds up no other. */
  advancing: Promise<void> | null
  stopping: Promise<void> | null
  written: string
}
type ContainerState = {
  child: ChildProcess | null
  status: V1ContainerStatus
  log: ContainerLog
  /** The log of the container before it. */
  previousLog: ContainerLog | undefined
  hasStarted: boolean
  probedAt: number
  /** Probes in a row that have failed. */
  failures: number
}
type Options = {
  cluster: Objects
  network: PodNetwork
  folder: string
  /** The image on this machine that stands for the one of a container. */
  findImage: (image: string) => string | Promise<string>
}

export class PodRunner {
  readonly #options: Options
  readonly #environment: NodeJS.ProcessEnv
  readonly #pods = new Map<string, Running>()
  readonly #services: PodServices
  readonly #kubelet: Kubelet
  #timer: NodeJS.Timeout | undefined
  #isClosed = false
  #tick: Promise<void> = Promise.resolve()

  constructor(options: Options) {
    this.#options = options
    const file = join(options.folder, 'containers.conf')
    fs.writeFileSync(file, PODMAN_SETTINGS)
    this.#environment = { ...process.env, CONTAINERS_CONF: file }
    this.#services = new PodServices(options.network)
    const find = (namespace: string, name: string) =>
      [...this.#pods.values()].find(
        ({ pod: { metadata } }) => metadata!.name === name && metadata!.namespace === namespace,
      )
    this.#kubelet = new Kubelet({
      commandOf: (namespace, pod, container, words, tty) => {
        const name = containerNameOf(find(namespace, pod)!.pod, container)
        return ['env', `CONTAINERS_CONF=${file}`, 'podman', 'exec', tty ? '-it' : '-i', name, ...words]
      },
      targetOf: (namespace, pod, port) => {
        const running = find(namespace, pod)
        return running && { host: running.facts.address, port }
      },
      logOf: (namespace, pod, container, isPrevious) => {
        const state = find(namespace, pod)?.containers.get(container)
        return isPrevious ? state?.previousLog : state?.log
      },
    })
  }

  /** Its node is ready, and kept so by a lease like the kubelet's. */
  async open(): Promise<void> {
    const { cluster } = this.#options
    const labels = {
      'slipway-trial/node': 'runner',
      'kubernetes.io/hostname': RUNNER_NODE,
      'kubernetes.io/os': 'linux',
    }
    await cluster.apply({ apiVersion: 'v1', kind: 'Node', metadata: { name: RUNNER_NODE, labels }, spec: {} })
    const amounts = { cpu: '32', memory: '64Gi', pods: '110', 'ephemeral-storage': '100Gi' }
    const now = new Date().toISOString()
    const ready = { type: 'Ready', status: 'True', reason: 'KubeletReady', message: 'the trial runs its pods' }
    await cluster.setNodeStatus(RUNNER_NODE, {
      capacity: amounts,
      allocatable: amounts,
      addresses: [{ type: 'InternalIP', address: HOST_ADDRESS }],
      daemonEndpoints: { kubeletEndpoint: { Port: await this.#kubelet.open(HOST_ADDRESS) } },
      declaredFeatures: Kubelet.FEATURES,
      conditions: [{ ...ready, lastHeartbeatTime: now, lastTransitionTime: now }],
    })
    await this.#renewLease()
    const renewing = setInterval(() => void this.#renewLease().catch(() => {}), 10_000).unref()
    const loop = () => {
      if (this.#isClosed) return clearInterval(renewing)
      this.#tick = this.#reconcile()
        .catch(error => console.error(`        the node: ${error.message}`))
        .finally(() => {
          this.#timer = setTimeout(loop, TICK_MS)
        })
    }
    loop()
  }

  async close(): Promise<void> {
    this.#isClosed = true
    clearTimeout(this.#timer)
    await this.#tick
    clearTimeout(this.#timer)
    await Promise.all([...this.#pods.values()].map(running => this.#stop(running, 1)))
    this.#kubelet.close()
  }

  findByHost(host: string): Target | undefined {
    return this.#services.findByHost(host)
  }

  /** The containers that run now, of pods in whose labels these are. */
  listContainers(labels: Record<string, string>): { pod: V1Pod; container: string }[] {
    const hasLabels = ({ metadata }: V1Pod) =>
      Object.entries(labels).every(([name, value]) => metadata!.labels?.[name] === value)
    return [...this.#pods.values()].flatMap(({ pod, containers }) =>
      hasLabels(pod)
        ? [...containers].flatMap(([container, { child }]) => (child === null ? [] : [{ pod, container }]))
        : [],
    )
  }

  /** The processes of a container as `podman top` prints them. */
  async listProcesses({ pod, container }: { pod: V1Pod; container: string }): Promise<string> {
    const args = ['top', containerNameOf(pod, container), 'hpid', 'args']
    return (await execute('podman', args, { env: this.#environment })).stdout
  }

  /** Runs a command in a container of the pod with that name. */
  async execute(pod: string, container: string, ...command: string[]): Promise<string> {
    const running = [...this.#pods.values()].find(one => one.pod.metadata!.name === pod)!
    const args = ['exec', containerNameOf(running.pod, container), ...command]
    return (await execute('podman', args, { env: this.#environment })).stdout
  }

  /** The state of its pods and their last lines, to explain a failure. */
  describe(): string {
    const lines = [...this.#pods.values()].flatMap(running =>
      [...running.containers].map(([name, { status, log }]) => {
        const last = log.tail(3).join(' | ')
        return `${running.pod.metadata!.name} ${name}: ${JSON.stringify(status.state)} ${last}`
      }),
    )
    return lines.join('\n')
  }

  #renewLease(): Promise<unknown> {
    return this.#options.cluster.apply({
      apiVersion: 'coordination.k8s.io/v1',
      kind: 'Lease',
      metadata: { name: RUNNER_NODE, namespace: 'kube-node-lease' },
      spec: {
        holderIdentity: RUNNER_NODE,
        leaseDurationSeconds: 40,
        renewTime: new Date().toISOString().replace('Z', '000Z'),
      },
    })
  }

  async #reconcile(): Promise<void> {
    const { cluster, network } = this.#options
    const pods = (await cluster.list('v1', 'Pod', undefined, undefined, `spec.nodeName=${RUNNER_NODE}`)) as V1Pod[]
    await this.#services.read(cluster)
    const known = new Set(pods.map(({ metadata }) => metadata!.uid!))
    for (const pod of pods) {
      const uid = pod.metadata!.uid!
      const running = this.#pods.get(uid)
      const hasEnded = pod.status?.phase === 'Succeeded' || pod.status?.phase === 'Failed'
      if (!running && !hasEnded && !pod.metadata!.deletionTimestamp) {
        const { namespace, address } = network.addPod()
        const folder = join(this.#options.folder, 'pods', uid)
        fs.mkdirSync(folder, { recursive: true })
        const facts = { cluster, pod, address, folder, volumes: join(this.#options.folder, 'volumes') }
        this.#pods.set(uid, {
          pod,
          namespace,
          facts,
          containers: new Map(),
          startTime: new Date().toISOString(),
          advancing: null,
          stopping: null,
          written: '',
        })
      } else if (running) running.pod = pod
      if (pod.metadata!.deletionTimestamp && !running)
        await cluster.removePod(pod.metadata!.namespace!, pod.metadata!.name!)
    }
    for (const [uid, running] of this.#pods) {
      if (!known.has(uid)) {
        this.#pods.delete(uid)
        void this.#stop(running, 1)
      } else if (running.pod.metadata!.deletionTimestamp) void this.#end(running)
      else
        running.advancing ??= this.#advance(running)
          .then(() => this.#writeStatus(running))
          .catch(error => console.error(`        ${running.pod.metadata!.name}: ${error.message}`))
          .finally(() => {
            running.advancing = null
          })
    }
  }

  // ---- the life of a pod

  async #advance(running: Running): Promise<void> {
    const { pod, containers } = running
    if (['Succeeded', 'Failed'].includes(phaseOf(running))) return
    for (const container of pod.spec!.initContainers ?? []) {
      const state = containers.get(container.name)
      if (state?.status.state?.terminated?.exitCode === 0) continue
      if (!state || (state.status.state?.waiting && !state.child)) await this.#run(running, container)
      return
    }
    for (const container of pod.spec!.containers) {
      const state = containers.get(container.name)
      if (!state || (state.status.state?.waiting && !state.child)) await this.#run(running, container)
      else if (state.child) await this.#probe(running, container, state)
    }
  }

  async #run(running: Running, container: V1Container): Promise<void> {
    const { facts, pod, namespace } = running
    const previous = running.containers.get(container.name)
    const base = { name: container.name, image: container.image!, imageID: container.image!, ready: false }
    const restartCount = previous?.status.restartCount ?? 0
    const state: ContainerState = {
      child: null,
      log: new ContainerLog(),
      previousLog: previous?.log,
      hasStarted: false,
      probedAt: 0,
      failures: 0,
      status: { ...base, restartCount, state: { waiting: { reason: 'ContainerCreating' } } },
    }
    running.containers.set(container.name, state)
    let flags: string[]
    try {
      flags = await this.#flagsOf(facts, namespace, container)
    } catch (error) {
      if (!(error instanceof MissingReference)) throw error
      const waiting = { reason: 'CreateContainerConfigError', message: error.message }
      state.status = { ...state.status, state: { waiting } }
      return
    }
    const child = spawn('podman', ['run', ...flags], {
      env: this.#environment,
      stdio: ['ignore', 'pipe', 'pipe'],
    })
    state.child = child
    const startedAt = new Date()
    state.status = { ...state.status, state: { running: { startedAt } } }
    const file = join(facts.folder, `${container.name}.log`)
    const lastWords = () => fs.readFileSync(wordsFile(facts, container), 'utf8')
    const collect = (data: Buffer) => {
      fs.appendFileSync(file, data)
      state.log.write(data)
    }
    child.stdout.on('data', collect)
    child.stderr.on('data', collect)
    child.once('close', code => {
      state.child = null
      state.log.end()
      const exitCode = code ?? 137
      const end = { exitCode, startedAt, finishedAt: new Date() }
      const terminated = {
        ...end,
        reason: exitCode === 0 ? 'Completed' : 'Error',
        message: lastWords() || (exitCode === 0 ? '' : state.log.tail(5).join('\n')),
      }
      const restarts =
        pod.spec!.restartPolicy === 'Always' || (pod.spec!.restartPolicy === 'OnFailure' && exitCode !== 0)
      const isInit = pod.spec!.initContainers?.some(({ name }) => name === container.name)
      if (running.stopping || !restarts || (isInit && exitCode === 0)) {
        state.status = { ...state.status, ready: false, state: { terminated } }
        return
      }
      const waiting = { reason: 'CrashLoopBackOff', message: 'back-off restarting failed container' }
      state.status = {
        ...state.status,
        ready: false,
        restartCount: restartCount + 1,
        state: { waiting },
        lastState: { terminated },
      }
    })
  }

  async #flagsOf(facts: PodFacts, namespace: string, container: V1Container): Promise<string[]> {
    const { pod } = facts
    const environment = await resolveEnvironment(facts, container)
    const volumes = new Map<string, string>()
    for (const volume of pod.spec!.volumes ?? []) volumes.set(volume.name, await prepareVolume(facts, volume))
    const words = wordsFile(facts, container)
    fs.writeFileSync(words, '')
    fs.chmodSync(words, 0o666)
    const image = await this.#options.findImage(container.image!)
    const own = container.securityContext ?? {}
    const user = own.runAsUser ?? pod.spec!.securityContext?.runAsUser
    const group = own.runAsGroup ?? pod.spec!.securityContext?.runAsGroup
    const fsGroup = pod.spec!.securityContext?.fsGroup
    return [
      '--rm',
      '--pull',
      'never',
      '--name',
      containerNameOf(pod, container.name),
      '--network',
      `ns:/run/netns/${namespace}`,
      '--log-driver',
      'none',
      '--read-only-tmpfs=false',
      '--hostname',
      pod.metadata!.name!,
      ...(own.readOnlyRootFilesystem ? ['--read-only'] : []),
      ...(own.allowPrivilegeEscalation === false ? ['--security-opt', 'no-new-privileges'] : []),
      ...(own.capabilities?.drop?.includes('ALL') ? ['--cap-drop', 'all'] : []),
      ...(user !== undefined ? ['--user', group === undefined ? `${user}` : `${user}:${group}`] : []),
      ...(fsGroup !== undefined ? ['--group-add', String(fsGroup)] : []),
      ...this.#services.hostsOf(pod.metadata!.namespace!).flatMap(host => ['--add-host', host]),
      ...Object.entries(environment).flatMap(([name, value]) => ['--env', `${name}=${value}`]),
      '--env',
      `KUBERNETES_SERVICE_HOST=${this.#services.apiAddress()}`,
      '--env',
      'KUBERNETES_SERVICE_PORT=443',
      ...(container.volumeMounts ?? []).flatMap(({ name, mountPath, readOnly }) => [
        '--mount',
        `type=bind,source=${volumes.get(name)},target=${mountPath}${readOnly ? ',readonly' : ''}`,
      ]),
      '--mount',
      `type=bind,source=${words},target=${container.terminationMessagePath}`,
      ...(container.command ? ['--entrypoint', JSON.stringify(expandWords(container.command, environment))] : []),
      image,
      ...expandWords(container.args ?? [], environment),
    ]
  }

  async #probe({ facts, pod }: Running, container: V1Container, state: ContainerState): Promise<void> {
    const succeeds = async (probe: V1Probe | undefined) => {
      if (!probe) return true
      if (probe.exec) {
        const name = containerNameOf(pod, container.name)
        const options = { env: this.#environment, timeout: PROBE_MS }
        const done = execute('podman', ['exec', name, ...probe.exec.command!], options)
        return done.then(() => true).catch(() => false)
      }
      const portName = probe.httpGet?.port ?? probe.tcpSocket!.port
      const port = container.ports?.find(({ name }) => name === portName)?.containerPort ?? portName
      const url = `http://${facts.address}:${port}${probe.httpGet?.path ?? '/'}`
      const answer = fetch(url, { signal: AbortSignal.timeout(2000) })
      return answer.then(({ status }) => !probe.httpGet || status < 400).catch(() => false)
    }
    const probe = state.hasStarted ? container.readinessProbe : (container.startupProbe ?? container.readinessProbe)
    if (Date.now() - state.probedAt < (probe?.periodSeconds ?? 0) * 1000) return
    const isWell = await succeeds(probe)
    state.probedAt = Date.now()
    state.failures = isWell ? 0 : state.failures + 1
    const hasBegun = isWell && !state.hasStarted && container.startupProbe !== undefined
    state.hasStarted ||= isWell
    // Its first probe of readiness comes at once.
    if (hasBegun) state.probedAt = 0
    const isReady = isWell ? !hasBegun : state.status.ready && state.failures < (probe?.failureThreshold ?? 3)
    if (state.child) state.status = { ...state.status, ready: isReady, started: state.hasStarted }
  }

  async #writeStatus(running: Running): Promise<void> {
    const { pod, containers, facts, startTime } = running
    const statusOf = (container: V1Container): V1ContainerStatus =>
      containers.get(container.name)?.status ?? {
        name: container.name,
        image: container.image!,
        imageID: '',
        ready: false,
        restartCount: 0,
        state: { waiting: { reason: 'PodInitializing' } },
      }
    const initContainerStatuses = (pod.spec!.initContainers ?? []).map(statusOf)
    const containerStatuses = pod.spec!.containers.map(statusOf)
    const isInitialized = initContainerStatuses.every(({ state }) => state?.terminated?.exitCode === 0)
    const isReady = containerStatuses.every(({ ready }) => ready)
    const condition = (type: string, isTrue: boolean) => {
      const status = isTrue ? 'True' : 'False'
      const known = pod.status?.conditions?.find(one => one.type === type && one.status === status)
      return { type, status, lastTransitionTime: known?.lastTransitionTime ?? new Date().toISOString() }
    }
    const status = {
      phase: phaseOf(running),
      startTime,
      podIP: facts.address,
      podIPs: [{ ip: facts.address }],
      hostIP: HOST_ADDRESS,
      hostIPs: [{ ip: HOST_ADDRESS }],
      initContainerStatuses,
      containerStatuses,
      conditions: [
        ...(pod.status?.conditions ?? []).filter(({ type }) => type === 'PodScheduled'),
        condition('Initialized', isInitialized),
        condition('ContainersReady', isReady),
        condition('Ready', isReady),
      ],
    }
    const written = JSON.stringify({
      ...status,
      conditions: status.conditions.map(({ type, status }) => [type, status]),
    })
    if (written === running.written) return
    running.written = written
    await this.#options.cluster.setPodStatus(pod.metadata!.namespace!, pod.metadata!.name!, status)
  }

  /** Like the kubelet: the containers first, then the object. */
  async #end(running: Running): Promise<void> {
    if (running.stopping) return
    const { metadata } = running.pod
    await this.#stop(running, metadata!.deletionGracePeriodSeconds ?? 30)
    await this.#options.cluster.removePod(metadata!.namespace!, metadata!.name!)
  }

  /** Called again, it waits for the same end. */
  #stop(running: Running, graceSeconds: number): Promise<void> {
    running.stopping ??= this.#stopContainers(running, graceSeconds)
    return running.stopping
  }
  async #stopContainers(running: Running, graceSeconds: number): Promise<void> {
    const { pod, namespace, containers } = running
    await running.advancing
    const stopContainer = async ([name, state]: [string, ContainerState]) => {
      if (state.child === null) return
      const ended = once(state.child, 'close')
      const args = ['stop', '--time', String(graceSeconds), containerNameOf(pod, name)]
      // Podman may not have made it yet.
      while (state.child !== null) {
        await execute('podman', args, { env: this.#environment }).catch(() => {})
        await Promise.race([ended, delay(TICK_MS)])
      }
    }
    await Promise.all([...containers].map(stopContainer))
    this.#options.network.removePod(namespace)
  }
}

const containerNameOf = ({ metadata }: V1Pod, container: string) =>
  `slw-trial-${metadata!.uid!.slice(0, 8)}-${container}`

const wordsFile = ({ folder }: PodFacts, { name }: V1Container) => join(folder, `${name}.termination`)

function phaseOf({ pod, containers }: Running): string {
  const ends = (list: V1Container[]) => list.map(({ name }) => containers.get(name)?.status.state?.terminated?.exitCode)
  const initEnds = ends(pod.spec!.initContainers ?? [])
  if (initEnds.some(code => code !== undefined && code !== 0)) return 'Failed'
  const codes = ends(pod.spec!.containers)
  if (codes.every(code => code === 0)) return 'Succeeded'
  if (codes.every(code => code !== undefined)) return 'Failed'
  return pod.spec!.containers.some(({ name }) => containers.get(name)?.status.state?.running) ? 'Running' : 'Pending'
}
