// Runs the agent of `npm run dev` as a child process, restarts it when it exits, and stops it with dev.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { type Home, PROJECT_ROOT } from './home-folder.ts'
import { type LogEntry, parseLogLine } from './log-lines.ts'

type LocalAgentOptions = {
  home: Home
  url: string
  listener_key: string
  onLine: (line: string) => void
  /** Called with warnings and errors. */
  onProblem: (text: string) => void
}

const AGENT_MAIN = join(PROJECT_ROOT, 'src/agent/main.ts')
/** Settings of the agent that dev passes on. */
const PASSED_SETTINGS = [
  'AGENT_RUN_AS',
  'AGENT_APPS_HOME',
  'AGENT_CGROUP',
  'AGENT_CPU_LIMITS',
  'BACKUPS_S3_ENDPOINT',
  'BACKUPS_S3_BUCKET',
  'BACKUPS_S3_REGION',
  'BACKUPS_S3_ACCESS_KEY_ID',
  'BACKUPS_S3_SECRET_ACCESS_KEY',
  'BACKUPS_S3_PREFIX',
  'AGENT_MAX_COPIES',
  'AGENT_DRAIN_BUFFER_MIB',
  'AGENT_MAX_DISK_GI',
  'AGENT_USER_NAMESPACES',
  'AGENT_METRICS_SECONDS',
  'APPS_DOMAIN',
  'TRUSTED_PROXIES',
  'XDG_STATE_HOME',
  'LOCALAPPDATA',
]
const ROUTER_TIMEOUT_MS = 10_000
/** Dev does not wait longer for an application to start again. */
const RESTORE_TIMEOUT_MS = 20_000
/** Longer than the agent waits for its applications to stop. */
const STOP_TIMEOUT_MS = 15_000
const RESTART_DELAY_MS = 1000
/** Settings of this machine for proxies, certificates and registries. Builds get them: they run for its user. */
export const NETWORK_VARIABLES =
  /^((https?|all|no)_proxy|node_(extra_ca_certs|use_env_proxy)|ssl_cert_(file|dir)|(curl|requests)_ca_bundle|git_ssl_cainfo|npm_config_(registry|cafile|proxy|https_proxy|noproxy|disturl)|yarn_(npm_registry_server|https?_proxy|https_ca_file_path)|pip_(index_url|extra_index_url|find_links|cert|trusted_host)|uv_(default_index|index|index_url|extra_index_url|find_links|system_certs|native_tls|python_install_mirror|python_downloads_json_url)|go(proxy|sumdb|private|noproxy|nosumdb)|cargo_(http|registries|source)_\w+|deno_(cert|tls_ca_store)|maven_opts|gradle_opts|bun_config_registry|bundle_mirror__\w+|rustup_(dist|update)_\w+|mise_\w+)$/i
/** Allows a git host on this machine, for trials. */
const LOOPBACK_SETTINGS = { AGENT_ALLOWED_NETWORKS: '127.0.0.0/8, ::1/128' }
/** Dev shows the build and the outcome of a deployment, and no other step. */
const isNoise = ({ event, step }: LogEntry) =>
  event === 'lease acquired' ||
  event === 'applications restored' ||
  event === 'agent started' ||
  (event === 'reconcile' && step !== 'build')

const isolationWarning = (reason: string) =>
  "Warning: applications run as your own user and can read your files and this installation's keys, " +
  `because ${reason}. ` +
  'Deploy only code that you trust, or see docs/operate/processes.md.'

const checkoutWarning = ({ checkout, elsewhere }: LogEntry) =>
  `Warning: applications are in ${checkout}, and their builds see its packages and its repository. ` +
  `docs/operate/processes.md says how to move them to ${elsewhere}.`

export function startLocalAgent({ home, url, listener_key, onLine, onProblem }: LocalAgentOptions) {
  const { PATH = '', HOME = '' } = process.env
  const network = Object.entries(process.env).filter(([name]) => NETWORK_VARIABLES.test(name))
  const buildVariables = { ...Object.fromEntries(network), AGENT_BUILD_ENV: network.map(([name]) => name).join(',') }
  const passedSettings = Object.fromEntries(
    PASSED_SETTINGS.flatMap(name => (process.env[name] ? [[name, process.env[name]]] : [])),
  )
  let stopping = false
  const restored = Promise.withResolvers<void>()
  let apps: string | undefined
  const previousPort = readRouter().port
  let child = start()

  function readRouter(): { port?: number; control?: number } {
    return JSON.parse(home.read('agent/router.json') ?? '{}')
  }

  function start() {
    const agent = spawn(process.execPath, [AGENT_MAIN, '--home', home.file('agent'), '--stop'], {
      cwd: PROJECT_ROOT,
      env: {
        PATH,
        HOME,
        ...buildVariables,
        ...passedSettings,
        ...LOOPBACK_SETTINGS,
        AGENT_LOG_FORMAT: 'json',
        SLIPWAY_URL: url,
        SLIPWAY_LISTENER_KEY: listener_key,
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true,
    })
    createInterface({ input: agent.stdout! }).on('line', line => {
      const entry = parseLogLine(line)
      if (entry?.event === 'applications restored') restored.resolve()
      if (entry?.event === 'agent started') apps = String(entry.apps)
      if (entry?.event === 'applications not isolated') onProblem(isolationWarning(String(entry.reason)))
      else if (entry?.event === 'applications in a checkout') onProblem(checkoutWarning(entry))
      else if (!entry || !isNoise(entry)) onLine(line)
    })
    createInterface({ input: agent.stderr! }).on('line', line => stopping || onProblem(line))
    agent.once('close', async () => {
      if (stopping) return
      onProblem('The local agent exited. Restarting it.')
      await delay(RESTART_DELAY_MS)
      if (!stopping) child = start()
    })
    return agent
  }

  return {
    /** The port of the router when dev ran before, or undefined if it never did. */
    previousPort,
    /** The folder of applications and builds, once the agent has started. */
    apps: () => apps,
    /** Resolves to true once all earlier applications serve again or have failed, and to false after a timeout. */
    isRestored: (): Promise<boolean> =>
      Promise.race([restored.promise.then(() => true), delay(RESTORE_TIMEOUT_MS, false, { ref: false })]),
    /** The port of the agent's router, or undefined if it does not start in time. */
    async port(): Promise<number | undefined> {
      for (const deadline = Date.now() + ROUTER_TIMEOUT_MS; Date.now() < deadline; await delay(25)) {
        const { port, control } = readRouter()
        if (port && control) return port
      }
      return undefined
    },
    async stop(): Promise<void> {
      stopping = true
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGTERM')
      const killTimer = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
      await once(child, 'close')
      clearTimeout(killTimer)
    },
  }
}
