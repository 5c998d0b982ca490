// Owns the child process that is the data plane of `npm run dev`: started again when it ends, and never outliving us.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { type Home, PROJECT_ROOT } from './home-folder.ts'

type LocalAgentOptions = {
  home: Home
  url: string
  listener_key: string
  /** What it does, a line each; and what is wrong with it. */
  onLine: (line: string) => void
  onTrouble: (text: string) => void
}

const AGENT_MAIN = join(PROJECT_ROOT, 'src/agent/main.ts')
/** Settings of the agent that say as whom and where applications run. */
const PASSED_SETTINGS = ['AGENT_RUN_AS', 'AGENT_APPS_HOME', 'AGENT_CGROUP']
const ROUTER_TIMEOUT_MS = 10_000
/** Longer than it gives what it runs to end. */
const STOP_TIMEOUT_MS = 15_000
const RESTART_DELAY_MS = 1000
/** How this machine reaches the network, as npm and its user have set it: builds here are this user's own. */
const NETWORK_VARIABLES =
  /^(https?_proxy|no_proxy|node_extra_ca_certs|npm_config_(registry|cafile|proxy|https_proxy|noproxy))$/i
/** A git host of this machine, to try things with. */
const LOOPBACK_SETTINGS = { AGENT_ALLOWED_NETWORKS: '127.0.0.0/8, ::1/128' }
/** Of no interest to whoever only has the one, and wants to know what comes of a deployment. */
const NOISE_LINES = /^(lease acquired|agent started|reconcile .*step=(?!build ))/

const NOT_ISOLATED = /^applications not isolated reason="(.*)" help=/
const isolationWarning = (reason: string) =>
  `Warning: applications run as your own user and can read your files and this installation's keys, because ${reason}. Deploy only code that you trust, or see docs/processes.md.`

export function startLocalAgent({ home, url, listener_key, onLine, onTrouble }: LocalAgentOptions) {
  const { PATH = '', HOME = '' } = process.env
  const network = Object.entries(process.env).filter(([name]) => NETWORK_VARIABLES.test(name))
  const lent = { ...Object.fromEntries(network), AGENT_BUILD_ENV: network.map(([name]) => name).join(',') }
  const places = Object.fromEntries(
    PASSED_SETTINGS.flatMap(name => (process.env[name] ? [[name, process.env[name]]] : [])),
  )
  let stopping = false
  let child = start()

  function start() {
    const started = spawn(process.execPath, [AGENT_MAIN, '--home', home.file('agent'), '--stop'], {
      cwd: PROJECT_ROOT,
      env: {
        PATH,
        HOME,
        ...lent,
        ...places,
        ...LOOPBACK_SETTINGS,
        SLIPWAY_URL: url,
        SLIPWAY_LISTENER_KEY: listener_key,
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true,
    })
    createInterface({ input: started.stdout! }).on('line', line => {
      const reason = NOT_ISOLATED.exec(line)?.[1]
      if (reason) onTrouble(isolationWarning(reason))
      else if (!NOISE_LINES.test(line)) onLine(line)
    })
    createInterface({ input: started.stderr! }).on('line', line => stopping || onTrouble(line))
    started.once('close', async () => {
      if (stopping) return
      onTrouble('The local agent has ended; it is started again.')
      await delay(RESTART_DELAY_MS)
      if (!stopping) child = start()
    })
    return started
  }

  return {
    /** Where its router listens, as soon as it does; undefined when it does not come up. */
    async port(): Promise<number | undefined> {
      for (const deadline = Date.now() + ROUTER_TIMEOUT_MS; Date.now() < deadline; await delay(25)) {
        const { port, control } = JSON.parse(home.read('agent/router.json') ?? '{}') as {
          port?: number
          control?: number
        }
        if (port && control) return port
      }
      return undefined
    },
    async stop(): Promise<void> {
      stopping = true
      if (child.exitCode !== null || child.signalCode !== null) return
      child.kill('SIGTERM')
      const impatient = setTimeout(() => child.kill('SIGKILL'), STOP_TIMEOUT_MS)
      await once(child, 'close')
      clearTimeout(impatient)
    },
  }
}
