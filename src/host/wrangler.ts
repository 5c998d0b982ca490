// Owns the child process that serves the Worker: wrangler, offline, without its noise, and never outliving us.
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, mkdirSync, readFileSync } from 'node:fs'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { setTimeout as delay } from 'node:timers/promises'
import { SETTINGS } from '../env.ts'
import { type Home, PROJECT_ROOT } from './home-folder.ts'
import type { WranglerInput } from './wrangler-main.ts'

type WranglerOptions = {
  home: Home
  port: number
  settings: Record<string, string>
  /** What the Worker writes, and what is wrong with it after a change. */
  onLine: (line: string) => void
  onTrouble: (text: string) => void
}

const HOUSEKEEPING_MS = 60_000

export class PortTakenError extends Error {}

/** Each process of the chain leaves when the one above it is gone, even by SIGKILL. */
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
/** They reach the Worker by its file; in an environment they would stay readable. */
const OWN_SETTINGS = new Set<string>(SETTINGS)
const NOISE_BEGINS = ['⎔', '[wrangler:info]', 'Using secrets', 'Your Worker has access', 'Binding  ']
const isNoise = (line: string) =>
  line === '' ||
  NOISE_BEGINS.some(begin => line.startsWith(begin)) ||
  /^env\.\w+ \(/.test(line) ||
  /If you think this is a bug|newer version of Wrangler/.test(line)

export function startWrangler({ home, port, settings, onLine, onTrouble }: WranglerOptions) {
  // They hold what people upload, and their files have no modes of their own.
  for (const name of ['worker', 'registry', 'cache']) {
    mkdirSync(home.file(name), { recursive: true, mode: 0o700 })
    chmodSync(home.file(name), 0o700)
  }
  const given: WranglerInput = {
    config: chooseConfig(home, settings),
    envFile: home.write('worker.env', Object.entries(settings).map(envFileLine).join('')),
    persist: home.file('worker'),
    port,
  }
  const child = spawn(
    process.execPath,
    ['--import', LEAVE_WITH_PARENT, join(PROJECT_ROOT, 'src/host/wrangler-main.ts'), JSON.stringify(given)],
    {
      cwd: PROJECT_ROOT,
      env: {
        ...Object.fromEntries(Object.entries(process.env).filter(([name]) => !OWN_SETTINGS.has(name))),
        ...QUIET_ENVIRONMENT,
        WRANGLER_REGISTRY_PATH: home.file('registry'),
        NODE_COMPILE_CACHE: home.file('cache'),
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
  const killWithUs = () => signal('SIGKILL')
  process.once('exit', killWithUs)

  let following = false
  let said = ''
  let stopping = false
  const exited = once(child, 'close').catch(error => [error.message])
  /** Settles when the Worker cannot be served (any more), with the reason. */
  const broken = new Promise<Error>(resolve => {
    createInterface(child.stdout!).on('line', line => following && !isNoise(line) && onLine(line))
    child.stderr!.setEncoding('utf8').on('data', (text: string) => {
      if (following) return onTrouble(text.trimEnd())
      said += text.includes('Scheduled Workers are not') ? '' : text
      // It would wait for a change, and then not notice it.
      if (said.includes('Build failed')) resolve(new Error(said.trim()))
    })
    exited.then(([code]) => {
      signal('SIGKILL')
      if (said.includes('Address already in use')) resolve(new PortTakenError(`Port ${port} is taken.`))
      else if (!stopping)
        resolve(new Error(`${following ? '' : said.trim()}\nwrangler dev has ended (${code}).`.trim()))
    })
  })

  return {
    /** It holds the port. */
    listening: once(child, 'message').then(() => undefined),
    broken,
    /** Nothing here keeps the schedule of wrangler.toml: the Worker is told when it is time. */
    async housekeep() {
      const signal = AbortSignal.timeout(HOUSEKEEPING_MS)
      const { ok, status } = await fetch(`http://127.0.0.1:${port}/cdn-cgi/local/scheduled`, { signal })
      if (!ok) throw new Error(`The Worker's housekeeping failed: it answers ${status}.`)
    },
    /** From here on its lines are shown. */
    follow: () => {
      following = true
    },
    async stop() {
      stopping = true
      signal('SIGTERM')
      const impatient = setTimeout(() => signal('SIGKILL'), 5000)
      await exited
      clearTimeout(impatient)
      // Its own children may take a moment longer.
      for (let i = 0; i < 50 && signal(0); i++) await delay(20)
      process.off('exit', killWithUs)
    },
  }
}

/** The binding's limit stands in wrangler.toml; another one that is asked for needs a configuration of its own. */
function chooseConfig(home: Home, { RATE_LIMIT_PER_MINUTE: limit }: Record<string, string>): string {
  const file = join(PROJECT_ROOT, 'wrangler.toml')
  if (!Number(limit)) return file
  const text = readFileSync(file, 'utf8')
  return home.write(
    'wrangler.toml',
    text
      .replace(/^main = "(.*)"/m, (_, main) => `main = ${JSON.stringify(join(PROJECT_ROOT, main))}`)
      .replace(/limit = \d+/, `limit = ${Number(limit)}`),
  )
}

/** wrangler expands `$` in every kind of quotes, and takes a backslash before it for an escape. */
function envFileLine([name, value]: [string, string]): string {
  const quote = [`'`, '`', '"'].find(one => !value.includes(one)) ?? `'`
  return `${name}=${quote}${value.replaceAll('$', '\\$')}${quote}\n`
}
