// Runs the Worker of `npm run dev` in a child process, offline and with readable output, and stops it with dev.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { SETTINGS } from '../env.ts'
import { writeCloudflareRules } from './dashboard-folder.ts'
import { type Home, PROJECT_ROOT } from './home-folder.ts'
import type { WranglerInput } from './wrangler-main.ts'

type WranglerOptions = {
  home: Home
  port: number
  watch: boolean
  settings: Record<string, string>
  onLine: (line: string) => void
  /** Called with warnings and build errors. */
  onProblem: (text: string) => void
}

const HOUSEKEEPING_MS = 60_000

export class PortTakenError extends Error {}

/** Each process of the chain exits when its parent does, even by SIGKILL. */
const LEAVE_WITH_PARENT = `data:text/javascript,process.once('disconnect',()=>process.kill(process.pid,'SIGTERM'))`
const QUIET_ENVIRONMENT = {
  CLOUDFLARE_CF_FETCH_ENABLED: 'false',
  CLOUDFLARE_INCLUDE_PROCESS_ENV: 'false',
  WRANGLER_HIDE_BANNER: 'true',
  WRANGLER_SEND_METRICS: 'false',
  WRANGLER_WRITE_LOGS: 'false',
  X_LOCAL_EXPLORER: 'false',
  X_LOCAL_OBSERVABILITY: 'false',
}
const HOME_VARIABLES = ['HOME', 'XDG_CONFIG_HOME', 'XDG_CACHE_HOME']
/** Passed in a file: environment variables stay readable by other processes of the user. */
const OWN_SETTINGS = new Set<string>(SETTINGS)
const NOISE_PREFIXES = ['⎔', '[wrangler:info]', 'Using secrets', 'Your Worker has access', 'Binding  ']
const isNoise = (line: string) =>
  line === '' ||
  NOISE_PREFIXES.some(prefix => line.startsWith(prefix)) ||
  /^env\.\w+ \(/.test(line) ||
  /If you think this is a bug|newer version of Wrangler/.test(line)

export function startWrangler({ home, port, watch, settings, onLine, onProblem }: WranglerOptions) {
  // They hold uploads, whose files get default modes.
  for (const name of ['worker', 'registry', 'cache', 'wrangler']) {
    mkdirSync(home.file(name), { recursive: true, mode: 0o700 })
    chmodSync(home.file(name), 0o700)
  }
  writeCloudflareRules()
  const input: WranglerInput = {
    config: chooseConfig(home, settings),
    envFile: home.write('worker.env', Object.entries(settings).map(envFileLine).join('')),
    persist: home.file('worker'),
    port,
    watch,
  }
  const child = spawn(
    process.execPath,
    ['--import', LEAVE_WITH_PARENT, join(PROJECT_ROOT, 'src/host/wrangler-main.ts'), JSON.stringify(input)],
    {
      cwd: PROJECT_ROOT,
      env: {
        ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !OWN_SETTINGS.has(name))),
        ...QUIET_ENVIRONMENT,
        // The user's own may be read-only.
        ...Object.fromEntries(HOME_VARIABLES.map(name => [name, home.file('wrangler')])),
        WRANGLER_REGISTRY_PATH: home.file('registry'),
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE ?? home.file('cache'),
      },
      stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
      detached: true,
    },
  )
  const signal = (name: NodeJS.Signals | 0) => {
    try {
      return child.pid !== undefined && process.kill(-child.pid, name)
    } catch {
      return false
    }
  }
  const killAtExit = () => signal('SIGKILL')
  process.once('exit', killAtExit)

  let following = false
  let startOutput = ''
  let stopping = false
  const exited = once(child, 'close').catch(error => [error.message])
  /** Resolves with the reason when the Worker cannot start or exits. */
  const broken = new Promise<Error>(resolve => {
    createInterface(child.stdout!).on('line', line => following && !isNoise(line) && onLine(line))
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      if (following) return onProblem(text.trimEnd())
      startOutput += text.includes('Scheduled Workers are not') ? '' : text
      // wrangler would wait for a change and then not notice it.
      if (startOutput.includes('Build failed')) resolve(new Error(startOutput.trim()))
    })
    exited.then(([code]) => {
      signal('SIGKILL')
      if (startOutput.includes('Address already in use')) resolve(new PortTakenError(`Port ${port} is in use.`))
      else if (!stopping)
        resolve(new Error(`${following ? '' : startOutput.trim()}\nwrangler dev exited (${code}).`.trim()))
    })
  })

  return {
    /** Resolves when it has bound the port. */
    listening: once(child, 'message').then(() => undefined),
    broken,
    /** wrangler dev does not run the schedule of wrangler.toml, so dev triggers it. */
    async housekeep() {
      const signal = AbortSignal.timeout(HOUSEKEEPING_MS)
      const { ok, status } = await fetch(`http://127.0.0.1:${port}/cdn-cgi/local/scheduled`, { signal })
      if (!ok) throw new Error(`The Worker's scheduled work failed with status ${status}.`)
    },
    /** Starts to pass on its output. */
    follow: () => {
      following = true
    },
    async stop() {
      stopping = true
      signal('SIGTERM')
      const killTimer = setTimeout(() => signal('SIGKILL'), 5000)
      await exited
      clearTimeout(killTimer)
      // Its child processes may exit later.
      for (let i = 0; i < 50 && signal(0); i++) await delay(20)
      process.off('exit', killAtExit)
    },
  }
}

/** The rate limit is part of a binding in wrangler.toml: another limit needs a configuration of its own. */
function chooseConfig(home: Home, settings: Record<string, string>): string {
  const file = join(PROJECT_ROOT, 'wrangler.toml')
  const [limit, ingestion] = [settings.RATE_LIMIT_PER_MINUTE, settings.INGESTION_RATE_LIMIT_PER_MINUTE].map(Number)
  if (!limit && !ingestion) return file
  const text = readFileSync(file, 'utf8')
    .replace(/limit = 1200/, `limit = ${limit || 1200}`)
    .replace(/limit = 5000/, `limit = ${ingestion || 5000}`)
  return home.write(
    'wrangler.toml',
    text
      .replace(/^main = "(.*)"/m, (_, main) => `main = ${JSON.stringify(join(PROJECT_ROOT, main))}`)
      .replace(/^directory = "(.*)"/m, (_, folder) => `directory = ${JSON.stringify(join(PROJECT_ROOT, folder))}`),
  )
}

/** wrangler expands `$` in every kind of quotes. A backslash escapes it. */
function envFileLine([name, value]: [string, string]): string {
  const quote = [`'`, '`', '"'].find(mark => !value.includes(mark)) ?? `'`
  return `${name}=${quote}${value.replaceAll('$', '\\$')}${quote}\n`
}
