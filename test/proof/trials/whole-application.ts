// A Django application with a database, Redis, a disk and all kinds of processes, killed 50 times at random in use.
import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { startPodman } from '../../support/podman.ts'
import { requestRouter } from '../../support/process-engine.ts'
import { makeRandom } from '../support/random.ts'
import { check, findMissing, hasProgram, note, optionOf, PATIENCE_MS, runTrial, skipped } from '../support/trial.ts'
import { until } from '../support/two-hosts.ts'
import { Objects } from './cluster/objects.ts'
import { openIngress } from './cluster/pod-ingress.ts'
import { IMAGE_PROGRAMS, startRealPods } from './cluster/real-pods.ts'
import { fillCluster, findMissingForPods, findMissingKubernetes, startCluster } from './cluster/start-cluster.ts'
import { newBackup } from './whole-application/backup.ts'
import { pushImages } from './whole-application/images.ts'
import { type Installation, startInstallation } from './whole-application/installation.ts'
import { findContainers, findPods, findProcesses, killOne, type Victims } from './whole-application/kills.ts'
import {
  change,
  createShop,
  isOpen,
  listJobs,
  readWhenCalm,
  type Shop,
  writeRelease,
} from './whole-application/shop.ts'
import { readJson, startUse, type Use } from './whole-application/use.ts'
import { checkFiles, checkJobs, checkRows, checkSchedule, checkTicks } from './whole-application/verify.ts'

const SEED = Number(optionOf('seed') ?? Date.now() % 1_000_000)
/** Containers are slower. */
const KILLS: Record<Engine, number> = { process: 50, container: 15, kubernetes: 15 }
/** Between two kills on average. */
const KILL_PAUSE_MS = 3000
const JOB_PAUSE_MS = 12_000

type Engine = 'process' | 'container' | 'kubernetes'
type Machine = {
  settings: Record<string, string>
  reach?: (url: string) => string
  findVictims(installation: Installation, shop: Shop, random: () => number): Victims
}

/** Work that is done while it is used and killed, each from a number of kills on, and after the one before. */
function changeInUse(changes: [at: number, work: () => Promise<void>][]) {
  let last = Promise.resolve()
  return {
    /** Waits for the work before, so that there are kills in each. */
    async onKill(count: number): Promise<void> {
      for (const [at, work] of changes)
        if (at === count) {
          await last
          last = work()
        }
    },
    end: () => last,
  }
}

type KillOptions = { kills: number; random: () => number; use: Use; onKill: (count: number) => Promise<void> }

async function killAtRandom(victims: Victims, { kills, random, use, onKill }: KillOptions): Promise<void> {
  for (let count = 1; count <= kills; count++) {
    await delay(2 * KILL_PAUSE_MS * random())
    await onKill(count)
    note(`${String(count).padStart(2)} kills ${await killOne(victims, random)}`)
    // A slow machine would else be killed only, and never used.
    await use.waitForAnswer(PATIENCE_MS)
  }
}

/** Runs a job of the platform again and again: one at a time, or they would fill a slow machine. */
function startJobs({ api }: Installation, { id }: Shop) {
  const over = new AbortController()
  const running = (async () => {
    while (!over.signal.aborted) {
      const command = { command: 'python manage.py record', timeout_seconds: 300 }
      const { body } = await api('POST', `/v2/deployments/${id}/jobs`, command)
      const hasEnded = async () => !isOpen((await api('GET', `/v2/deployments/${id}/jobs/${body.id}`)).body)
      await until('the job has ended', hasEnded, PATIENCE_MS)
      await delay(JOB_PAUSE_MS, undefined, { signal: over.signal }).catch(() => {})
    }
  })()
  return async () => {
    over.abort()
    await running
  }
}

/** Both workers do some of many tasks. */
async function checkScale(installation: Installation, shop: Shop, url: string): Promise<void> {
  for (let i = 0; i < 30; i++) await requestRouter(url, `/tasks/scaled-${i}`, { method: 'PUT' })
  const { workers } = await readWhenCalm(installation, shop, url)
  const own = new Set(Object.entries(workers).flatMap(([key, worker]) => (key.startsWith('scaled-') ? [worker] : [])))
  check('there are two workers', own.size === 2, [...own].join())
}

async function tryEngine(cleanup: AsyncDisposableStack, engine: Engine, machine: Machine): Promise<void> {
  note(`engine ${engine}`)
  const random = makeRandom(SEED)
  const kills = Number(optionOf('kills') ?? KILLS[engine])
  const installation = await startInstallation(cleanup, engine, machine.settings, machine.reach)
  const { api, slipway, folder } = installation
  const [first, second] = [writeRelease(folder, 1), writeRelease(folder, 2)]
  const shop = await createShop(installation, 'shop')
  await change(installation, 'it is brought from a folder', ['deploy', first, '--name', 'shop'])
  const { active_revision_id } = (await api('GET', `/v2/deployments/${shop.id}`)).body
  const url = await installation.readUrl(shop.id)
  const readRelease = () => readJson<{ release: string; migrations: string[] }>(url, '/release')
  const fresh = await until('it answers', readRelease, PATIENCE_MS)
  check('its migration has run', `${fresh.release} ${fresh.migrations}` === '1 0001_initial', JSON.stringify(fresh))
  const command = ['* * * * *', '--deadline', '120', '--', 'python', 'manage.py', 'record']
  const schedule = (await slipway(['schedules', 'add', 'shop', 'minutely', ...command])).lines[0]!
  const scheduledFrom = Date.now()

  const use = startUse(url, makeRandom(SEED + 1))
  const endJobs = startJobs(installation, shop)
  const at = (share: number) => Math.max(1, Math.round(share * kills))
  const backup = newBackup(installation, shop, use)
  const changes = changeInUse([
    [at(0.1), () => change(installation, 'it is scaled in use', ['scale', 'shop', 'worker=2'])],
    [at(0.25), () => change(installation, 'it is redeployed in use', ['deploy', second, '--name', 'shop'])],
    [at(0.5), () => change(installation, 'it is rolled back in use', ['rollback', 'shop', active_revision_id])],
    [at(0.6), backup.take],
    [at(0.75), () => change(installation, 'it is deployed once more in use', ['deploy', second, '--name', 'shop'])],
  ])
  for (const end of [changes.end, endJobs, use.end]) cleanup.defer(end)
  const started = performance.now()
  const victims = machine.findVictims(installation, shop, random)
  await killAtRandom(victims, { kills, random, use, onKill: changes.onKill })
  await changes.end()
  await endJobs()
  await use.end()
  note(`${kills} kills in ${Math.round((performance.now() - started) / 1000)} s. ${use.describe()}`)
  const scheduledTo = Date.now()
  await slipway(['schedules', 'set', 'shop', 'minutely', '--disable'])

  const report = await readWhenCalm(installation, shop, url)
  const last = await readRelease()
  check('its second migration has run', `${last.release} ${last.migrations}` === '2 0001_initial,0002_note')
  checkRows('after the kills', report, use.acknowledged())
  if (shop.hasDisk) checkFiles('after the kills', report, use.acknowledged())
  checkTicks(report)
  const jobs = (await listJobs(installation, shop)).filter(({ action }) => action == null)
  checkJobs(jobs, report)
  checkSchedule(
    jobs.filter(({ schedule_id }) => schedule_id === schedule.id),
    scheduledFrom,
    scheduledTo,
  )
  await checkScale(installation, shop, url)
  await backup.restore(second)
}

async function tryProcesses(): Promise<void> {
  const missing = findMissing('python3') ?? (hasProgram('valkey-server') ? undefined : findMissing('redis-server'))
  if (missing) return skipped(`processes: ${missing}`)
  await using cleanup = new AsyncDisposableStack()
  await tryEngine(cleanup, 'process', {
    settings: {},
    findVictims: (installation, { id }, random) => findProcesses(installation, id, random),
  })
}

async function tryContainers(): Promise<void> {
  const missing = findMissing('podman', 'runc', 'docker-registry', 'busybox', 'debootstrap')
  const obstacle = missing ?? (process.getuid?.() === 0 ? undefined : 'debootstrap needs root')
  if (obstacle) return skipped(`containers: ${obstacle}`)
  await using cleanup = new AsyncDisposableStack()
  const podman = await startPodman()
  cleanup.defer(() => podman.stop())
  const { base, database } = await pushImages(podman)
  await tryEngine(cleanup, 'container', {
    settings: {
      CONTAINER_SOCKET: podman.socket,
      CONTAINER_BASE_IMAGES: `python=${base}`,
      CONTAINER_POSTGRES_IMAGE: database,
      CONTAINER_REDIS_IMAGE: base,
    },
    findVictims: (installation, { id }, random) => findContainers(installation, id, podman, random),
  })
}

/**
 * A real API server with its controllers and its scheduler. The trial plays the node: it runs each container of a pod
 * with Podman, in a network of the pod, and its disks are folders. It plays the controllers of volumes, of snapshots
 * and of Ingresses, and kube-proxy, too. Limits of resources and probes of liveness are left out.
 */
async function tryCluster(): Promise<void> {
  const missing = findMissingForPods(...IMAGE_PROGRAMS) ?? findMissingKubernetes()
  if (missing) return skipped(`a cluster: ${missing}`)
  await using cleanup = new AsyncDisposableStack()
  const folder = mkdtempSync(join(tmpdir(), 'slipway-whole-cluster-'))
  cleanup.defer(() => rmSync(folder, { recursive: true, force: true, maxRetries: 9 }))
  const kubernetes = await startCluster(cleanup, folder)
  const cluster = new Objects(kubernetes.config)
  await fillCluster(cluster)
  const { podman, base, runner, settings } = await startRealPods(cleanup, kubernetes, cluster, 'whole')
  const reach = await openIngress(cleanup, host => runner.findByHost(host))
  await tryEngine(cleanup, 'kubernetes', {
    settings: {
      ...settings,
      K8S_ROUTES: 'ingress',
      K8S_DOMAIN: 'apps.example.com',
      K8S_REDIS_IMAGE: base,
      K8S_BUILD_SOCKET: podman.socket,
      K8S_BUILD_BASE_IMAGES: `python=${base}`,
      K8S_BUILD_REGISTRY: `${podman.registry}/built`,
    },
    reach,
    findVictims: (installation, { id }, random) => findPods(installation, id, { runner, cluster }, random),
  })
}

const TRIALS: Record<Engine, () => Promise<void>> = {
  process: tryProcesses,
  container: tryContainers,
  kubernetes: tryCluster,
}

await runTrial(async () => {
  note(`--seed=${SEED} makes the same choices`)
  for (const engine of Object.keys(TRIALS) as Engine[])
    if ([undefined, engine].includes(optionOf('engine') as Engine)) await TRIALS[engine]()
})
