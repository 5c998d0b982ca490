// The chart with the real Helm on a real API server. Its pods really run, from the images of this commit, on a real
// Postgres.
import { randomBytes } from 'node:crypto'
import * as fs from 'node:fs'
import { join } from 'node:path'
import pg from 'pg'
import { startPostgres } from '../../../../src/host/embedded-postgres.ts'
import { newApiKey } from '../../../../src/kernel/crypto/crypto.ts'
import { addOlderRoles, findOlderRoleFaults, findRoleFaults, loadBeforeSquash } from '../../../support/before-squash.ts'
import { tryContractLimits } from '../runtimes/contract-limits.ts'
import { Helm, type HelmRun } from './helm.ts'
import type { Kubernetes } from './kubernetes.ts'
import { createRestrictedNamespace } from './nodes.ts'
import type { AnyObject, Objects } from './objects.ts'
import { HOST_ADDRESS, PodNetwork } from './pod-network.ts'
import { expect, expectEqual, type Results, waitUntil } from './results.ts'
import { PodRunner } from './run-pods.ts'

const ROOT = join(import.meta.dirname, '../../../..')
const CHART = join(ROOT, 'deploy/chart')
const RELEASE = 'slipway'
const POSTGRES_PORT = 5432
export const IMAGE_TAG = 'cluster-trial'
const KINDS: [string, string][] = [
  ['v1', 'Service'],
  ['v1', 'ConfigMap'],
  ['v1', 'Secret'],
  ['v1', 'ServiceAccount'],
  ['v1', 'PersistentVolumeClaim'],
  ['apps/v1', 'Deployment'],
  ['apps/v1', 'StatefulSet'],
  ['batch/v1', 'Job'],
  ['autoscaling/v2', 'HorizontalPodAutoscaler'],
  ['policy/v1', 'PodDisruptionBudget'],
  ['networking.k8s.io/v1', 'NetworkPolicy'],
  ['networking.k8s.io/v1', 'Ingress'],
  ['gateway.networking.k8s.io/v1', 'HTTPRoute'],
  ['rbac.authorization.k8s.io/v1', 'Role'],
  ['rbac.authorization.k8s.io/v1', 'RoleBinding'],
]

type HelmProgram = { name: string; program: string }

export async function tryChart(
  kubernetes: Kubernetes,
  cluster: Objects,
  { name, program }: HelmProgram,
  results: Results,
) {
  const namespace = name.toLowerCase().replaceAll(/[ .]/g, '-')
  const folder = join(kubernetes.folder, namespace)
  fs.mkdirSync(folder)
  const network = new PodNetwork()
  network.open()
  const postgres = await startPostgres({ dataDir: join(folder, 'postgres'), durable: false })
  const findImage = (image: string) =>
    `localhost/${image.includes('slipway-agent') ? 'slipway-agent' : 'slipway'}:${IMAGE_TAG}`
  const runner = new PodRunner({ cluster, network, folder, findImage })
  try {
    await network.forward(HOST_ADDRESS, POSTGRES_PORT, () => [{ host: '127.0.0.1', port: postgres.port }])
    const service = (await cluster.read({ apiVersion: 'v1', kind: 'Service', metadata: KUBERNETES_SERVICE }))!
    await network.forward(service.spec.clusterIP, 443, () => [{ host: '127.0.0.1', port: kubernetes.port }])
    await runner.open()
    const helm = new Helm(program, join(folder, 'helm'), kubernetes.writeConfig('admin', kubernetes.token), namespace)
    await new ChartTrial(name, helm, cluster, runner, results, postgres.url).run()
  } finally {
    await runner.close()
    network.close()
    await postgres.stop()
  }
}
const KUBERNETES_SERVICE = { name: 'kubernetes', namespace: 'default' }

type Values = { secrets: object }

class ChartTrial {
  readonly #name: string
  readonly #helm: Helm
  readonly #cluster: Objects
  readonly #runner: PodRunner
  readonly #results: Results
  readonly #postgresUrl: string
  readonly #namespace: string

  constructor(name: string, helm: Helm, cluster: Objects, runner: PodRunner, results: Results, postgresUrl: string) {
    this.#name = name
    this.#helm = helm
    this.#cluster = cluster
    this.#runner = runner
    this.#results = results
    this.#postgresUrl = postgresUrl
    this.#namespace = helm.namespace
  }

  async run(): Promise<void> {
    await createRestrictedNamespace(this.#cluster, this.#namespace, 'runner')
    const first = await this.#createDatabase('first')
    await this.#writeSecret('slipway-database', first)
    await this.#writeSecret('slipway-keys', { SEALING_KEYS: `one:${randomBytes(32).toString('base64url')}` })
    const values = this.#values()

    const isInstalled = await this.#check('install migrates an empty database before the first start', async () => {
      this.#succeed(await this.#helm.apply('install', RELEASE, CHART, values))
      const [deployment, job] = await Promise.all([
        this.#deployment(),
        this.#read('batch/v1', 'Job', 'slipway-migrate'),
      ])
      const ended = job?.status?.completionTime
      expect(ended && new Date(ended) <= new Date(deployment.metadata!.creationTimestamp!), `the Job ended ${ended}`)
      const pods = await this.#apiPods()
      expectEqual(pods.length, 1, 'pods')
    })
    if (!isInstalled) return this.#results.skip(`${this.#name}: the rest`, 'it is not installed')

    await this.#check('helm test passes', async () => {
      this.#succeed(await this.#helm.run('test', RELEASE, '--timeout', '60s'))
    })
    await this.#check('two more upgrades with the same values change no object', async () => {
      const before = await this.#snapshot()
      for (let i = 0; i < 2; i++) this.#succeed(await this.#helm.apply('upgrade', RELEASE, CHART, values))
      expectEqual(await this.#snapshot(), before, 'objects')
      return `${before.length} objects`
    })
    await this.#tryAgent(values)
    const available = { ...values, ...this.#availableValues() }
    await this.#check('an upgrade to two replicas with every object is accepted, and both serve', async () => {
      this.#succeed(await this.#helm.apply('upgrade', RELEASE, CHART, available))
      await waitUntil('two pods are ready', async () => (await this.#apiPods()).filter(isReady).length === 2)
      const kinds = new Set((await this.#objects()).map(({ kind }) => kind))
      for (const kind of ['HorizontalPodAutoscaler', 'PodDisruptionBudget', 'NetworkPolicy', 'Ingress', 'HTTPRoute'])
        expect(kinds.has(kind), `there is no ${kind}`)
    })

    await this.#check('a failing migration fails the release and leaves the pods alone', async () => {
      const before = await this.#podIds()
      const generation = (await this.#deployment()).metadata!.generation
      await this.#writeSecret('slipway-database', { ...first, DATABASE_OWNER_URL: this.#urlOf('nobody', 'first') })
      const broken = { ...available, api: { ...available.api, podAnnotations: { try: '1' } } }
      const { ok, output } = await this.#helm.apply('upgrade', RELEASE, CHART, broken)
      expect(!ok && /pre-upgrade hooks failed/.test(output), `helm said: ${output}`)
      expectEqual((await this.#helm.history(RELEASE)).at(-1)!.status, 'failed', 'status of the release')
      expectEqual(await this.#podIds(), before, 'pods')
      expectEqual((await this.#deployment()).metadata!.generation, generation, 'generation of the Deployment')
    })
    await this.#check('the next good upgrade heals it', async () => {
      await this.#writeSecret('slipway-database', first)
      const healed = { ...available, api: { ...available.api, podAnnotations: { try: '2' } } }
      const stopRequests = this.#sendRequests(await this.#serviceUrl())
      this.#succeed(await this.#helm.apply('upgrade', RELEASE, CHART, healed))
      const requests = await stopRequests()
      expectEqual(requests.failed, [], 'failed requests while the pods were replaced')
      expectEqual((await this.#helm.history(RELEASE)).at(-1)!.status, 'deployed', 'status of the release')
      expectEqual(await this.#readTries(), ['2'], 'annotation of the pods')
      return `${requests.sent} requests meanwhile, none failed`
    })
    await this.#check('the Job of an upgrade really migrates', async () => {
      await this.#writeSecret('slipway-database', await this.#createDatabase('second'))
      const moved = { ...available, api: { ...available.api, podAnnotations: { try: '3' } } }
      this.#succeed(await this.#helm.apply('upgrade', RELEASE, CHART, moved))
      const tables = await this.#query('second', `select count(*)::int as n from pg_tables where schemaname = 'public'`)
      expect(tables[0].n > 20, `it has ${tables[0].n} tables`)
      return `${tables[0].n} tables`
    })
    await this.#check('the hook of an upgrade migrates an older data set, and backfills its roles', async () => {
      const older = await this.#createDatabase('older')
      const url = this.#localUrlOf('older')
      const key = newApiKey()
      await loadBeforeSquash(url, key)
      await addOlderRoles(url)
      await this.#writeSecret('slipway-database', older)
      const moved = { ...available, api: { ...available.api, podAnnotations: { try: '4' } } }
      this.#succeed(await this.#helm.apply('upgrade', RELEASE, CHART, moved))
      expectEqual(await findRoleFaults(url), [], 'faults of the roles')
      const headers = { 'X-Api-Key': key, 'X-Tenant-Id': '20000000-0000-4000-8000-000000000001' }
      const path = `${await this.#serviceUrl()}/orgs/current/roles?limit=100`
      // For a moment the node may send requests to a pod of the database before, which does not know the key.
      const text = await waitUntil('the new pods answer', async () => {
        const answer = await fetch(path, { headers })
        const body = await answer.text()
        if (answer.status !== 401) expectEqual(answer.status, 200, `status of ${body}`)
        return answer.status === 200 && body
      })
      expectEqual(findOlderRoleFaults(JSON.parse(text).resources), [], 'faults of the roles that the pods show')
    })
    await this.#check('helm rollback brings the earlier values back', async () => {
      const good = (await this.#helm.history(RELEASE)).filter(({ status }) => status === 'superseded').at(-1)!
      this.#succeed(await this.#helm.run('rollback', RELEASE, String(good.revision), '--wait', '--timeout', '180s'))
      expectEqual(await this.#readTries(), ['3'], 'annotation of the pods')
    })
    await this.#check('helm uninstall leaves what is the operator’s, and nothing else', async () => {
      this.#succeed(await this.#helm.run('uninstall', RELEASE, '--wait', '--timeout', '120s'))
      const left = (await this.#objects())
        .filter(({ metadata }) => metadata!.name !== 'kube-root-ca.crt' && metadata!.name !== 'default')
        .map(({ kind, metadata }) => `${kind} ${metadata!.name}`)
      // The Job was a hook, which belongs to no release. The cluster removes it after a day.
      const operators = ['PersistentVolumeClaim slipway-uploads', 'Secret slipway-database', 'Secret slipway-keys']
      expectEqual(left.sort(), ['Job slipway-migrate', ...operators, 'Secret slipway-listener'].sort(), 'objects')
    })
    this.#results.skip(`${this.#name}: postgres.enabled`, 'no package of npm, Go or Debian has the official image')
  }

  /** The chart's own agent, in its pod, with its own account and Roles. */
  async #tryAgent(values: object): Promise<void> {
    const apps = `${this.#namespace}-apps`
    let key = ''
    let listener = ''
    const call = async (method: string, path: string, body?: object) => {
      const headers = { 'X-Api-Key': key, 'Content-Type': 'application/json' }
      const init = { method, headers, ...(body && { body: JSON.stringify(body) }) }
      const answer = await fetch((await this.#serviceUrl()) + path, init)
      // biome-ignore lint/suspicious/noExplicitAny: the answers of several routes
      const parsed: any = await answer.json().catch(() => null)
      expect(answer.ok, `${method} ${path} answers ${answer.status}: ${JSON.stringify(parsed)}`)
      return parsed
    }
    const hasKey = await this.#check('bootstrap in the pod prints a key that works through the Service', async () => {
      const [pod] = await this.#apiPods()
      const program = ['/usr/local/bin/node', '/app/src/host/main.ts', 'bootstrap']
      const options = ['--organization', 'Acme']
      const output = await this.#runner.execute(pod!.metadata!.name!, 'slipway', ...program, ...options)
      key = /^API key +(\S+)/m.exec(output)?.[1] ?? ''
      const body = { compute_type: 'k8s', compute_id: 'cluster', compute_config: { k8s_namespaces: [apps] } }
      listener = (await call('POST', '/v2/listeners', body)).id
      const { key: listenerKey } = await call('POST', `/v2/listeners/${listener}/keys`, {})
      await this.#writeSecret('slipway-listener', { SLIPWAY_LISTENER_KEY: listenerKey })
    })
    if (!hasKey) return
    await this.#check('the pods refuse what is beyond the limits of the contract', async () => {
      const outcomes = await tryContractLimits({ url: await this.#serviceUrl(), key })
      for (const { what, isTrue, detail } of outcomes) expect(isTrue, `${what}: ${detail}`)
      return outcomes.map(({ what }) => what).join('; ')
    })
    await createRestrictedNamespace(this.#cluster, apps, 'kwok')
    await this.#check('the agent of the chart runs a deployment with its own Role', async () => {
      const secrets = { SLIPWAY_LISTENER_KEY: { existingSecret: 'slipway-listener' } }
      const withAgent = {
        ...values,
        secrets: { ...(values as Values).secrets, ...secrets },
        agent: { enabled: true, namespaces: [apps], settings: { K8S_STORAGE_CLASS: 'trial' } },
      }
      this.#succeed(await this.#helm.apply('upgrade', RELEASE, CHART, withAgent))
      const { id } = await call('POST', '/v2/deployments', {
        name: 'shop',
        source: 'external_container',
        secrets: [{ name: 'TOKEN', value: 'hush' }],
        source_config: {
          listener_id: listener,
          listener_config: { k8s_namespace: apps },
          resource_spec: { db_storage_gi: 1 },
        },
        source_revision_config: { image_uri: `registry.example.com/shop@sha256:${'1'.repeat(64)}` },
      })
      await waitUntil('it serves', async () => {
        const one = await call('GET', `/v2/deployments/${id}`)
        return one.active_revision_id !== null && one.active_revision_id === one.latest_revision_id
      })
      const pods = await this.#cluster.list('v1', 'Pod', apps)
      expectEqual(pods.length, 2, 'pods of the application and its database')
      await fetch(`${await this.#serviceUrl()}/v2/deployments/${id}`, {
        method: 'DELETE',
        headers: { 'X-Api-Key': key },
      })
      await waitUntil('it is gone', async () => (await this.#cluster.list('v1', 'Pod', apps)).length === 0)
    })
  }

  async #serviceUrl(): Promise<string> {
    const { spec } = (await this.#read('v1', 'Service', RELEASE))!
    return `http://${spec.clusterIP}:${spec.ports[0].port}`
  }
  /** One after the other, each on a connection of its own. */
  #sendRequests(url: string): () => Promise<{ sent: number; failed: string[] }> {
    const result = { sent: 0, failed: [] as string[] }
    let isDone = false
    const sending = (async () => {
      while (!isDone) {
        const request = fetch(`${url}/healthz`, {
          headers: { Connection: 'close' },
          signal: AbortSignal.timeout(10_000),
        })
        const fault = await request.then(({ status }) => (status === 200 ? null : `${status}`)).catch(String)
        result.sent++
        if (fault) result.failed.push(fault)
        await new Promise(resolve => setTimeout(resolve, 10))
      }
    })()
    return async () => {
      isDone = true
      await sending
      return result
    }
  }

  #values() {
    const database = { existingSecret: 'slipway-database' }
    return {
      images: { registry: 'registry.example.com', slipway: { tag: IMAGE_TAG }, agent: { tag: IMAGE_TAG } },
      settings: { PUBLIC_URL: 'https://slipway.example.com' },
      secrets: {
        SEALING_KEYS: { existingSecret: 'slipway-keys' },
        DATABASE_OWNER_URL: database,
        DATABASE_URL: database,
        DATABASE_SYSTEM_URL: database,
      },
      uploads: { volume: { storageClass: 'trial' } },
      migration: { backoffLimit: 0 },
    }
  }
  #availableValues() {
    const bucket = { UPLOADS_S3_ENDPOINT: 'https://s3.example.com', UPLOADS_S3_BUCKET: 'slipway' }
    const values = this.#values()
    return {
      settings: { ...values.settings, ...bucket, UPLOADS_S3_REGION: 'eu-1', TRUSTED_PROXIES: '10.0.0.0/8' },
      secrets: {
        ...values.secrets,
        UPLOADS_S3_ACCESS_KEY_ID: { value: 'key' },
        UPLOADS_S3_SECRET_ACCESS_KEY: { value: 'hush' },
      },
      uploads: { volume: { enabled: false } },
      api: { autoscaling: { enabled: true, minReplicas: 2, maxReplicas: 4 }, podAnnotations: {} },
      ingress: { enabled: true, className: 'nginx' },
      httpRoute: { enabled: true, parentRefs: [{ name: 'public', namespace: 'infra' }] },
    }
  }

  #check(name: string, run: () => Promise<unknown>): Promise<boolean> {
    return this.#results.check(`${this.#name}: ${name}`, run)
  }
  /** Without a word about pods that the namespace would not allow. */
  #succeed({ ok, output }: HelmRun): void {
    if (!ok) throw new Error(`helm failed: ${output}\n${this.#runner.describe()}`)
    expect(!/warning|would violate/i.test(output), `helm warns: ${output}`)
  }

  // ---- the cluster

  #read(apiVersion: string, kind: string, name: string) {
    return this.#cluster.read({ apiVersion, kind, metadata: { name, namespace: this.#namespace } })
  }
  async #deployment(): Promise<AnyObject> {
    return (await this.#read('apps/v1', 'Deployment', RELEASE))!
  }
  async #objects(): Promise<AnyObject[]> {
    return (
      await Promise.all(KINDS.map(([version, kind]) => this.#cluster.list(version, kind, this.#namespace)))
    ).flat()
  }
  /** Without what the hooks of each upgrade create again, and without the releases of Helm. */
  async #snapshot(): Promise<string[]> {
    return (await this.#objects())
      .filter(({ metadata, type }) => !metadata!.annotations?.['helm.sh/hook'] && type !== 'helm.sh/release.v1')
      .map(({ kind, metadata }) => `${kind} ${metadata!.name} ${metadata!.generation ?? metadata!.resourceVersion}`)
      .sort()
  }
  #apiPods(): Promise<AnyObject[]> {
    return this.#cluster.list('v1', 'Pod', this.#namespace, 'app.kubernetes.io/component=api')
  }
  /** The annotation that the trial changes, of the pods that stay. */
  async #readTries(): Promise<(string | undefined)[]> {
    const staying = (await this.#apiPods()).filter(({ metadata }) => !metadata!.deletionTimestamp)
    return [...new Set(staying.map(({ metadata }) => metadata!.annotations?.try))]
  }
  async #podIds(): Promise<string[]> {
    return (await this.#apiPods()).map(({ metadata }) => metadata!.uid!).sort()
  }
  #writeSecret(name: string, stringData: Record<string, string>): Promise<AnyObject> {
    const data = Object.fromEntries(
      Object.entries(stringData).map(([key, value]) => [key, Buffer.from(value).toString('base64')]),
    )
    return this.#cluster.apply({
      apiVersion: 'v1',
      kind: 'Secret',
      metadata: { name, namespace: this.#namespace },
      data,
    })
  }

  // ---- Postgres

  #databaseName = (name: string) => `${this.#namespace}-${name}`.replaceAll('-', '_')
  #urlOf(login: string, name: string): string {
    const url = new URL(this.#postgresUrl)
    Object.assign(url, { host: `${HOST_ADDRESS}:${POSTGRES_PORT}`, pathname: `/${this.#databaseName(name)}` })
    if (login) Object.assign(url, { username: login, password: 'a-password' })
    return url.href
  }
  /** The address for this process, outside of the pods. */
  #localUrlOf(name: string): string {
    const url = new URL(this.#postgresUrl)
    if (name) url.pathname = `/${this.#databaseName(name)}`
    return url.href
  }
  async #query(name: string, sql: string) {
    const client = new pg.Client(this.#localUrlOf(name))
    await client.connect()
    try {
      return (await client.query(sql)).rows
    } finally {
      await client.end()
    }
  }
  /** An empty one, and the three addresses that an operator chooses. */
  async #createDatabase(name: string): Promise<Record<string, string>> {
    await this.#query('', `create database "${this.#databaseName(name)}"`)
    const login = (kind: string) => this.#urlOf(`${this.#databaseName(name)}_${kind}`, name)
    return {
      DATABASE_OWNER_URL: this.#urlOf('', name),
      DATABASE_URL: login('app'),
      DATABASE_SYSTEM_URL: login('system'),
    }
  }
}

const isReady = ({ status, metadata }: AnyObject): boolean =>
  !metadata!.deletionTimestamp &&
  status?.conditions?.some((one: { type: string; status: string }) => one.type === 'Ready' && one.status === 'True')
