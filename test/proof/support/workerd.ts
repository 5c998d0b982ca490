// Runs Workers as in production: built by wrangler, served by workerd, each on a port of its own.
import { mkdir, mkdtemp, readdir, readFile, rm, writeFile } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { basename, dirname, join } from 'node:path'
import { createInterface } from 'node:readline'
import type { Readable } from 'node:stream'
import { fileURLToPath } from 'node:url'
import { writeCloudflareRules } from '../../../src/host/dashboard-folder.ts'
import { type Cleanup, runForOutput, startProcess } from './processes.ts'

/** The texts of its modules by their paths. Where there are several, the first is the entry. */
type Modules = Record<string, string>
export type BuiltWorker = { modules: Modules; inputs: Record<string, { bytesInOutput: number }> }
export type WorkerDefinition = { modules: Modules; bindings?: Record<string, string>; flags?: string[] }

export const PROJECT_ROOT = fileURLToPath(new URL('../../../', import.meta.url))
const getBinaryPath = (name: string) => join(PROJECT_ROOT, 'node_modules/.bin', name)

export async function makeTempFolder(cleanup: Cleanup): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), 'slipway-bench-'))
  cleanup.defer(() => rm(folder, { recursive: true, force: true }))
  return folder
}

/** A Worker does not start without it; no bench uses it. */
const BUCKET_BINDING = '(name = "UPLOADS", r2Bucket = "network")'

/** For Workers that are not the product: wrangler.toml has bindings that only the product exports. */
const BARE_CONFIG = 'name = "bench"\ncompatibility_date = "2026-11-01"\ncompatibility_flags = ["nodejs_compat"]\n'

/** With the flags of `npm run build`. */
export async function buildWorker(cleanup: Cleanup, entry: string): Promise<BuiltWorker> {
  writeCloudflareRules()
  const folder = await makeTempFolder(cleanup)
  const flags = ['--dry-run', '--outdir', folder, '--minify', '--metafile', join(folder, 'meta.json')]
  if (!entry.startsWith('src/')) {
    const config = join(await makeTempFolder(cleanup), 'wrangler.toml')
    await writeFile(config, BARE_CONFIG)
    flags.push('--config', config)
  }
  const env = { ...process.env, WRANGLER_SEND_METRICS: 'false', WRANGLER_WRITE_LOGS: 'false', CI: 'true' }
  await runForOutput(cleanup, getBinaryPath('wrangler'), ['deploy', entry, ...flags], { cwd: PROJECT_ROOT, env })
  const { outputs } = JSON.parse(await readFile(join(folder, 'meta.json'), 'utf8'))
  const [file, { inputs }] = Object.entries<{ inputs: BuiltWorker['inputs'] }>(outputs).find(([name]) =>
    name.endsWith('.js'),
  )!
  const others = (await readdir(folder, { recursive: true })).filter(name => /\.m?js$/.test(name))
  const names = [basename(file), ...others.filter(name => name !== basename(file))]
  const texts = await Promise.all(names.map(async name => [name, await readFile(join(folder, name), 'utf8')] as const))
  return { modules: Object.fromEntries(texts), inputs }
}

/** All Workers in one workerd. They log as in production, to nowhere. */
export async function serveWorkers<Name extends string>(cleanup: Cleanup, workers: Record<Name, WorkerDefinition>) {
  const folder = await makeTempFolder(cleanup)
  const entries = Object.entries<WorkerDefinition>(workers)
  await Promise.all(
    entries.flatMap(([name, { modules }]) =>
      Object.entries(modules).map(async ([path, text]) => {
        await mkdir(dirname(join(folder, name, path)), { recursive: true })
        await writeFile(join(folder, name, path), text)
      }),
    ),
  )
  await writeFile(join(folder, 'config.capnp'), renderConfig(entries))
  const { child, broken, end } = startProcess(
    cleanup,
    getBinaryPath('workerd'),
    ['serve', 'config.capnp', '--control-fd=3'],
    {
      cwd: folder,
      stdio: ['ignore', 'ignore', 'pipe', 'pipe'],
    },
  )
  const urls: Record<string, string> = {}
  const listening = async () => {
    for await (const line of createInterface(child.stdio[3] as Readable)) {
      const { event, socket, port } = JSON.parse(line)
      if (event === 'listen') urls[socket] = `http://127.0.0.1:${port}`
      if (Object.keys(urls).length === entries.length) return
    }
  }
  await Promise.race([listening(), broken])
  return { urls: urls as Record<Name, string>, broken, end, pid: child.pid! }
}

const quote = JSON.stringify

function renderConfig(workers: [string, WorkerDefinition][]): string {
  const list = (items: string[]) => items.map(item => `\n    ${item},`).join('')
  const services = workers.map(([name], i) => `(name = ${quote(name)}, worker = .worker${i})`)
  const sockets = workers.map(
    ([name]) => `(name = ${quote(name)}, address = "127.0.0.1:0", http = (), service = ${quote(name)})`,
  )
  const definitions = workers.map(([name, { modules, bindings = {}, flags = ['nodejs_compat'] }], i) => {
    const embedded = Object.keys(modules).map(
      path => `(name = ${quote(path)}, esModule = embed ${quote(`${name}/${path}`)})`,
    )
    const texts = Object.entries(bindings).map(([key, text]) => `(name = ${quote(key)}, text = ${quote(text)})`)
    return `
const worker${i} :Workerd.Worker = (
  modules = [${list(embedded)}],
  compatibilityDate = "2026-11-01",
  compatibilityFlags = [${flags.map(flag => quote(flag)).join(', ')}],
  bindings = [${list([...texts, BUCKET_BINDING])}],
  globalOutbound = "network",
);`
  })
  // The gateway is on the loopback address, which workerd does not let Workers reach by default.
  return `using Workerd = import "/workerd/workerd.capnp";
const config :Workerd.Config = (
  services = [${list([...services, '(name = "network", network = (allow = ["public", "private"]))'])}
  ],
  sockets = [${list(sockets)}
  ],
);${definitions.join('')}
`
}
