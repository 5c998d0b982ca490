// The agent's program, `node src/agent/main.ts`: reads its settings, starts the agent, and stops it on a signal.
import { randomBytes } from 'node:crypto'
import { isIP } from 'node:net'
import { hostname } from 'node:os'
import { join, resolve } from 'node:path'
import { parseArgs } from 'node:util'
import { VERSION } from '../kernel/version.ts'
import { isRange } from '../protocol/client-address.ts'
import { AppsDomain } from '../protocol/custom-url.schema.ts'
import { LOOPBACK_HOST } from '../protocol/guarded-address.ts'
import { Agent } from './agent.ts'
import { BucketStore } from './archive/bucket-store.ts'
import { readBucketSettings } from './archive/settings.ts'
import { parseNetworks } from './builds/allowed-address.ts'
import { createControlPlaneClient, RequestRefused } from './control-plane/client.ts'
import type { Engine } from './engine.ts'
import type { PooledOptions } from './engines/local/pooled-engine.ts'
import { startMetricsServer } from './metrics-server.ts'
import { CaddyProxy } from './public-proxy/caddy.ts'
import type { PublicProxy } from './public-proxy/public-proxy.ts'
import { type ProxySettings, readProxySettings } from './public-proxy/settings.ts'
import { chooseCgroup } from './system/cgroups.ts'
import { readJson, writeJson } from './system/files.ts'
import { type FormatEvent, formatEvent, formatEventAsJson, type LogEvent } from './system/log-event.ts'
import { identityOf, isAlive, type ProcessIdentity } from './system/processes.ts'
import { chooseIsolation, type Isolation } from './system/run-as.ts'

const USAGE = `npm run agent -- [--home FOLDER] [--engine process|container|kubernetes] [--port PORT]
                        [--host ADDRESS] [--stop]

Runs the deployments of one listener. Needs SLIPWAY_URL, the address of the control plane, and SLIPWAY_LISTENER_KEY,
a key of the listener.
  --home    folder for applications, builds and the agent's identity; default: SLIPWAY_AGENT_HOME or .slipway/agent
  --engine  how applications run; default: process
  --port    port of the router in front of processes and containers; default: 8788 or the next free port
  --host    address where the router listens besides loopback, such as 10.0.0.5, or 0.0.0.0 or :: for all
  --stop    stop all applications when the agent stops; without it they keep running and the next agent takes over
APPS_SLIPWAY_URL        the control plane as applications reach it, for their traces; default: its public address
AGENT_PROXY             caddy: serves processes and containers on ports 80 and 443, see docs/operate/one-machine.md
APPS_DOMAIN             domain such as apps.example.com: processes and containers are at https://<name>.apps.example.com
TRUSTED_PROXIES         addresses and networks of the reverse proxies whose X-Forwarded-* headers count, comma-separated
AGENT_DATABASE_URL      Postgres for the databases of processes; default: an embedded Postgres of the agent
BACKUPS_S3_…            an S3-compatible bucket for backups and snapshots, see docs/operate/back-up.md; default: --home
AGENT_BUILD_ENV         names of the agent's variables that install and build commands get, comma-separated
AGENT_ALLOWED_NETWORKS  networks such as 10.1.0.0/16 where repositories and receivers of drains may be
AGENT_RUN_AS            users of processes if the agent is root: first-last (a range), user[:group] or root
AGENT_APPS_HOME         folder for the files of processes; default: --home, or another one if that is in a checkout
AGENT_LOG_FORMAT        text or json; default: text
AGENT_METRICS_SECONDS   how long is measured for a point of metrics, up to 60; default: 60
AGENT_METRICS_PORT      serves the agent's own metrics for Prometheus at /metrics of this port; needs METRICS_TOKEN
AGENT_METRICS_HOST      address of that port; default: 127.0.0.1
METRICS_TOKEN           what callers of /metrics send as a bearer token
AGENT_CGROUP            parent of the cgroup of each process, or off; default: the agent's own cgroup
AGENT_CPU_LIMITS        on: cpu_limit is enforced by cgroups, from the next start of a copy on; default: off
AGENT_USER_NAMESPACES   allow: processes of applications may create user namespaces; default: deny
AGENT_MAX_COPIES        the most copies of a deployment on this machine that may be required (min_scale); default: 32
AGENT_DRAIN_BUFFER_MIB  room on disk for lines that drains have not sent yet, in MiB; default: 1024
AGENT_MAX_DISK_GI       the largest disk that a deployment may ask for, in GiB; default: the size of the file system
See docs/operate/processes.md.`

type EngineSettings = Pick<
  PooledOptions,
  'home' | 'archive' | 'port' | 'host' | 'domain' | 'trusted_proxies' | 'public_addresses' | 'proxy' | 'limits'
> & {
  agent_id: string
  isolation: Isolation
  logEvent: LogEvent
}
const ENGINE_FACTORIES: Record<string, (settings: EngineSettings) => Promise<Engine>> = {
  process: async ({ isolation: { users, apps, bin }, logEvent: _, ...settings }) => {
    const { ProcessEngine } = await import('./engines/process.ts')
    const { AGENT_DATABASE_URL, AGENT_CPU_LIMITS: limits_cpu = 'off' } = process.env
    if (!['on', 'off'].includes(limits_cpu))
      throw new Error(`AGENT_CPU_LIMITS ${limits_cpu} is not valid. Set on or off.`)
    return new ProcessEngine({
      ...settings,
      users,
      apps,
      bin,
      database_url: AGENT_DATABASE_URL || undefined,
      limits_cpu: limits_cpu === 'on',
      commandEnv: readBuildEnv(),
      machinePath: process.env.PATH,
    })
  },
  // Its settings are K8S_…, see docs/operate/kubernetes.md.
  kubernetes: async ({ agent_id, archive, logEvent }) => {
    const [{ KubernetesEngine }, { readSettings }] = await Promise.all([
      import('./engines/kubernetes.ts'),
      import('./engines/kubernetes/settings.ts'),
    ])
    const settings = readSettings(process.env)
    return new KubernetesEngine({ settings, agent_id, archive, commandEnv: readBuildEnv(), logEvent })
  },
  container: async ({ agent_id, isolation: _, logEvent: __, ...settings }) => {
    const [{ ContainerEngine }, { readSettings }] = await Promise.all([
      import('./engines/container.ts'),
      import('./engines/container/settings.ts'),
    ])
    const { owner, ...more } = readSettings(process.env)
    return new ContainerEngine({ ...settings, ...more, commandEnv: readBuildEnv(), owner: owner ?? agent_id })
  },
}

function readBuildEnv(): Record<string, string> {
  const names = (process.env.AGENT_BUILD_ENV ?? '').split(',').map(name => name.trim())
  return Object.fromEntries(
    names.flatMap(name => {
      const value = process.env[name]
      return value === undefined ? [] : [[name, value]]
    }),
  )
}

const LOOPBACK = '127.0.0.1'
const PROXY_FACTORIES: Record<ProxySettings['kind'], (settings: ProxySettings, logEvent: LogEvent) => PublicProxy> = {
  caddy: (settings, logEvent) => new CaddyProxy({ settings, logEvent }),
}

/** Under the minute and a half of systemd, and with time for the applications that `--stop` stops. */
const SHUTDOWN_MS = 60_000

/** Child processes do not inherit them. */
const SECRET_VARIABLES = [
  'SLIPWAY_LISTENER_KEY',
  'AGENT_DATABASE_URL',
  'METRICS_TOKEN',
  'BACKUPS_S3_ACCESS_KEY_ID',
  'BACKUPS_S3_SECRET_ACCESS_KEY',
]

const LOG_FORMATS: Record<string, FormatEvent> = { text: formatEvent, json: formatEventAsJson }

function readDrainBytes(): number | undefined {
  const { AGENT_DRAIN_BUFFER_MIB: mib = '' } = process.env
  if (mib !== '' && !/^[1-9]\d{0,6}$/.test(mib))
    throw new Error(`AGENT_DRAIN_BUFFER_MIB ${mib} is not valid. Set a whole number from 1 to 9999999.`)
  return mib === '' ? undefined : Number(mib) * 1024 * 1024
}

/** Undefined if the help was asked for and printed. */
function readOptions() {
  const { values } = parseArgs({
    options: {
      home: { type: 'string' },
      engine: { type: 'string', default: 'process' },
      port: { type: 'string', default: '8788' },
      host: { type: 'string' },
      stop: { type: 'boolean', default: false },
      help: { type: 'boolean', short: 'h' },
    },
  })
  if (values.help) return void console.log(USAGE)
  const { SLIPWAY_URL: url, SLIPWAY_LISTENER_KEY: key, SLIPWAY_AGENT_HOME } = process.env
  if (!url || !key)
    throw new Error(
      'SLIPWAY_URL or SLIPWAY_LISTENER_KEY is not set. Set them to the address of the control plane and to a key ' +
        'made with `POST /v2/listeners/{id}/keys`.',
    )
  if (!/^https?:$/.test(URL.parse(url)?.protocol ?? ''))
    throw new Error(`SLIPWAY_URL ${url} is not an http address. Set one like https://slipway.example.com.`)
  const port = Number(values.port)
  if (!/^\d+$/.test(values.port) || port > 65_535)
    throw new Error(`--port ${values.port} is not a port. Use a number from 0 to 65535.`)
  const { host } = values
  if (host !== undefined && !isIP(host)) throw new Error(`--host ${host} is not an IP address. Use one like 10.0.0.5.`)
  const domain = process.env.APPS_DOMAIN || undefined
  if (domain !== undefined && !AppsDomain.safeParse(domain).success)
    throw new Error(`APPS_DOMAIN ${domain} is not a domain. Set one like apps.example.com.`)
  const control_plane_url = readAppsUrl(url, values.engine, process.env.APPS_SLIPWAY_URL)
  const trusted_proxies = (process.env.TRUSTED_PROXIES ?? '').split(',').flatMap(text => text.trim() || [])
  const invalidProxy = trusted_proxies.find(text => !isRange(text))
  if (invalidProxy !== undefined)
    throw new Error(`${invalidProxy} in TRUSTED_PROXIES is not an address or a network. Set one like 10.0.0.0/8.`)
  const createEngine = ENGINE_FACTORIES[values.engine]
  if (!createEngine)
    throw new Error(
      `--engine ${values.engine} does not exist. Use one of: ${Object.keys(ENGINE_FACTORIES).join(', ')}.`,
    )
  const { AGENT_LOG_FORMAT: logFormat = 'text' } = process.env
  const formatLine = LOG_FORMATS[logFormat]
  if (!formatLine) throw new Error(`AGENT_LOG_FORMAT ${logFormat} does not exist. Set it to \`text\` or \`json\`.`)
  const metrics = readMetricsSettings(process.env)
  const home = resolve(values.home ?? (SLIPWAY_AGENT_HOME || '.slipway/agent'))
  const proxySettings = readProxySettings(process.env)
  const { AGENT_MAX_COPIES: copies = '32' } = process.env
  if (!/^[1-9]\d{0,3}$/.test(copies))
    throw new Error(`AGENT_MAX_COPIES ${copies} is not valid. Set a whole number from 1 to 9999.`)
  const { AGENT_MAX_DISK_GI: disk_gi = '' } = process.env
  if (!/^([1-9]\d{0,4})?$/.test(disk_gi))
    throw new Error(`AGENT_MAX_DISK_GI ${disk_gi} is not valid. Set a whole number from 1 to 99999.`)
  if (disk_gi && values.engine === 'kubernetes')
    throw new Error('AGENT_MAX_DISK_GI is for processes and containers. A quota bounds claims: remove it.')
  const bucket = readBucketSettings(process.env)
  if (proxySettings && values.engine === 'kubernetes')
    throw new Error('AGENT_PROXY is for processes and containers. A cluster has an ingress: remove it.')
  // The proxy connects from this machine.
  if (proxySettings) trusted_proxies.push(LOOPBACK)
  const router = {
    port,
    host,
    domain,
    trusted_proxies,
    public_addresses: proxySettings?.public_addresses,
    limits: { copies: Number(copies), ...(disk_gi && { disk_gi: Number(disk_gi) }) },
  }
  return {
    url,
    key,
    control_plane_url,
    home,
    bucket,
    router,
    proxySettings,
    createEngine,
    formatLine,
    engineName: values.engine,
    stopsApplications: values.stop,
    metrics,
  }
}

/** Undefined: the public address of the control plane. Null: applications have a loopback address of their own. */
function readAppsUrl(url: string, engine: string, appsUrl: string | undefined): string | null | undefined {
  if (!appsUrl) return engine !== 'process' && LOOPBACK_HOST.test(new URL(url).hostname) ? null : undefined
  if (!/^https?:$/.test(URL.parse(appsUrl)?.protocol ?? ''))
    throw new Error(`APPS_SLIPWAY_URL ${appsUrl} is not an http address. Set one like https://slipway.example.com.`)
  return appsUrl.replace(/\/$/, '')
}

function readUserNamespaces({ AGENT_USER_NAMESPACES: chosen = 'deny' }: NodeJS.ProcessEnv): boolean {
  if (chosen !== 'deny' && chosen !== 'allow')
    throw new Error(`AGENT_USER_NAMESPACES ${chosen} does not exist. Set it to \`deny\` or \`allow\`.`)
  return chosen === 'allow'
}

function readMetricsSettings({
  AGENT_METRICS_SECONDS: seconds = '60',
  AGENT_METRICS_PORT: port,
  AGENT_METRICS_HOST: host = '127.0.0.1',
  METRICS_TOKEN: token,
}: NodeJS.ProcessEnv) {
  if (!/^([1-9]|[1-5]\d|60)$/.test(seconds))
    throw new Error(`AGENT_METRICS_SECONDS ${seconds} is not valid. Set a whole number from 1 to 60.`)
  const period_ms = Number(seconds) * 1000
  if (!port) return { period_ms }
  if (!/^\d{1,5}$/.test(port) || Number(port) > 65_535)
    throw new Error(`AGENT_METRICS_PORT ${port} is not a port. Use a number from 0 to 65535.`)
  if (!isIP(host)) throw new Error(`AGENT_METRICS_HOST ${host} is not an IP address. Use one like 10.0.0.5.`)
  if (!token || !/^[!-~]{16,255}$/.test(token))
    throw new Error('METRICS_TOKEN is not set, or not 16 to 255 visible characters. AGENT_METRICS_PORT needs it.')
  return { period_ms, server: { host, port: Number(port), token } }
}

async function main() {
  const options = readOptions()
  if (!options) return
  const {
    url,
    key,
    control_plane_url,
    home,
    bucket,
    router,
    proxySettings,
    createEngine,
    formatLine,
    engineName,
    stopsApplications,
    metrics,
  } = options
  const logEvent: LogEvent = (event, fields) => console.log(formatLine(event, fields))
  const agent_id = claimIdentity(home, process.env.SLIPWAY_AGENT_ID)
  const { AGENT_RUN_AS: run_as, AGENT_APPS_HOME: apps_home, AGENT_CGROUP } = process.env
  const state_home = process.env.XDG_STATE_HOME || process.env.LOCALAPPDATA
  const allowsUserNamespaces = readUserNamespaces(process.env)
  chooseCgroup(AGENT_CGROUP)
  const isolation =
    engineName === 'process'
      ? chooseIsolation({ home, run_as, apps_home, state_home, allowsUserNamespaces })
      : { users: undefined, apps: home, exposed: undefined }
  if (isolation.reason)
    logEvent('applications not isolated', { reason: isolation.reason, help: 'docs/operate/processes.md' })
  if (isolation.exposed)
    logEvent('applications in a checkout', { ...isolation.exposed, help: 'docs/operate/processes.md' })
  if (isolation.userNamespaces)
    logEvent('user namespaces allowed', { reason: isolation.userNamespaces, help: 'docs/operate/processes.md' })
  const proxy = proxySettings && PROXY_FACTORIES[proxySettings.kind](proxySettings, logEvent)
  const archive = bucket && new BucketStore(bucket, home)
  const engine = await createEngine({ home, archive, ...router, proxy, agent_id, isolation, logEvent })
  logEvent('agent started', { engine: engineName, home, apps: isolation.apps, control_plane: url })
  const hidden_values = collectSecrets(process.env)
  for (const name of SECRET_VARIABLES) delete process.env[name]
  const control = createControlPlaneClient({ url: url.replace(/\/$/, ''), key })
  const networks = parseNetworks(process.env.AGENT_ALLOWED_NETWORKS ?? '')
  const agent = new Agent({
    agent_id,
    version: VERSION,
    home,
    ...isolation,
    archive,
    engine,
    control,
    control_plane_url,
    networks,
    hidden_values,
    logToOperator: line => console.log(line),
    formatEvent: formatLine,
    metrics_ms: metrics.period_ms,
    verified_hosts_only: proxy !== undefined,
    drain_bytes: readDrainBytes(),
  })
  if (metrics.server) await startMetricsServer(metrics.server, () => agent.state())

  let isStopping = false
  const stop = async () => {
    if (isStopping) return
    isStopping = true
    setTimeout(() => {
      logEvent('agent did not stop in time', { seconds: SHUTDOWN_MS / 1000 })
      process.exit(1)
    }, SHUTDOWN_MS)
    await agent.close({ stop: stopsApplications })
    process.exit(0)
  }
  for (const signal of ['SIGINT', 'SIGTERM', 'SIGHUP'] as const)
    process.on(signal, () => {
      void stop()
      // The same signal again ends the agent at once. The next agent recovers by observing its engine.
      process.once(signal, () => process.exit(1))
    })
  process.on('disconnect', () => void stop())
  await agent.run().catch(async error => {
    await agent.close({ stop: stopsApplications })
    if (error instanceof RequestRefused)
      throw new Error(
        `The control plane refuses SLIPWAY_LISTENER_KEY (${error.status} ${error.code}): ${error.message}`,
      )
    throw error
  })
}

/** Secrets in the agent's own settings, some of which builds get: they are masked in every line. */
function collectSecrets({
  SLIPWAY_LISTENER_KEY,
  METRICS_TOKEN,
  BACKUPS_S3_SECRET_ACCESS_KEY,
  AGENT_DATABASE_URL,
  AGENT_BUILD_ENV = '',
  ...env
}: NodeJS.ProcessEnv) {
  const buildValues = AGENT_BUILD_ENV.split(',').map(name => env[name.trim()] ?? '')
  const urls = [AGENT_DATABASE_URL ?? '', ...buildValues].filter(value => URL.parse(value)?.password)
  const others = [METRICS_TOKEN, BACKUPS_S3_SECRET_ACCESS_KEY].flatMap(value => value || [])
  return [SLIPWAY_LISTENER_KEY!, ...others, ...urls]
}

/** The agent's id, which survives restarts. Throws if another agent works in the same folder. */
function claimIdentity(home: string, chosenId?: string): string {
  const file = join(home, 'agent.json')
  const stored = readJson<{ agent_id: string; identity: ProcessIdentity }>(file)
  if (stored && stored.identity.pid !== process.pid && isAlive(stored.identity))
    throw new Error(
      `Another agent (process ${stored.identity.pid}) already works in ${home}. ` +
        'Choose another folder with --home, or stop that process.',
    )
  const name =
    hostname()
      .replace(/[^A-Za-z0-9.-]/g, '')
      .slice(0, 40) || 'agent'
  const agent_id = chosenId || stored?.agent_id || `${name}-${randomBytes(6).toString('hex')}`
  writeJson(file, { agent_id, identity: identityOf(process.pid)! })
  return agent_id
}

main().catch(error => {
  console.error(error.message)
  process.exitCode = 1
})
