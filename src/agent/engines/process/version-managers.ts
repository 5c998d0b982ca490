// Programs that know the releases of a tool and download one: mise for all, uv for Python, Go for itself, rustup for
// Rust. What they download stays in the folder that all builds share.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { rcompare } from 'semver'
import type { Tool } from '../../../build-plan/build-plan.ts'
import { isWithin } from '../../../build-plan/version-ranges.ts'
import type { BuildTask } from '../../engine.ts'
import { type Installed, systemFolders, type ToolOptions } from './toolbox.ts'

const run = promisify(execFile)

/** `mise` is used if the operator installed it. */
export async function installWithMise(tool: Tool, options: ToolOptions, task: BuildTask): Promise<Installed | null> {
  const mise = findProgram('mise', systemFolders(options.machinePath))
  const version = tool.version === null ? 'latest' : lowestOf(tool.version)
  if (!mise || !version) return null
  const spec = `${tool.name}@${version}`
  return bring(spec, 'mise', options, task, async folder => {
    const runMise = runner(mise, { MISE_DATA_DIR: folder, MISE_YES: '1' }, folder, options, task)
    const find = () => runMise('where', spec)
    return { home: await find().catch(() => runMise('install', spec).then(find)), version }
  })
}

/** uv knows builds of Python for each version and platform. */
export async function installPython(
  tool: Tool,
  uv: Installed,
  options: ToolOptions,
  task: BuildTask,
): Promise<Installed | null> {
  const version = tool.version && lowestOf(tool.version)
  if (!version) return null
  return bring(`Python ${version}`, 'uv', options, task, async folder => {
    const variables = { UV_PYTHON_INSTALL_DIR: folder, UV_HTTP_RETRIES: '1', UV_NO_CONFIG: '1' }
    const runUv = runner(join(uv.home, 'bin/uv'), variables, folder, options, task)
    const find = () => runUv('python', 'find', '--managed-python', '--no-python-downloads', version)
    const program = await find().catch(() => runUv('python', 'install', '--no-bin', version).then(find))
    return { home: dirname(dirname(program)), version }
  })
}

/** Go's module proxy has the releases of Go itself, since 1.21. They are checked like modules. */
export async function installGo(
  tool: Tool,
  go: Installed,
  options: ToolOptions,
  task: BuildTask,
): Promise<Installed | null> {
  const wanted = tool.version && lowestOf(tool.version)
  if (!wanted || !isWithin(go.version, '>=1.21')) return null
  return bring(`Go ${wanted}`, 'go', options, task, async folder => {
    const runGo = (toolchain: string, ...args: string[]) => {
      const variables = { GOMODCACHE: folder, GOFLAGS: '-modcacherw', GOTOOLCHAIN: toolchain }
      return runner(join(go.home, 'bin/go'), variables, folder, options, task)(...args)
    }
    const releases = await runGo('local', 'list', '-m', '-versions', 'golang.org/toolchain')
    const version = newestGo(releases, wanted)
    return { home: await runGo(`go${version}`, 'env', 'GOROOT'), version }
  })
}

const GO_ARCHITECTURES: Record<string, string> = { x64: 'amd64', ia32: '386' }
/** A version of the module names the release and the platform: `v0.0.1-go1.25.3.linux-amd64`. */
function newestGo(releases: string, wanted: string): string {
  const platform = `.${process.platform}-${GO_ARCHITECTURES[process.arch] ?? process.arch}`
  const [newest] = releases
    .split(/\s+/)
    .filter(release => release.endsWith(platform))
    .map(release => release.slice('v0.0.1-go'.length, -platform.length))
    .filter(version => /^\d+\.\d+\.\d+$/.test(version) && isWithin(version, wanted))
    .sort(rcompare)
  if (newest === undefined) throw new Error(`there is no Go ${wanted}`)
  return newest
}

export async function installRust(tool: Tool, options: ToolOptions, task: BuildTask): Promise<Installed | null> {
  const version = tool.version && lowestOf(tool.version)
  const rustup = findProgram('rustup', [...systemFolders(options.machinePath), join(homedir(), '.cargo/bin')])
  if (!version || !rustup) return null
  return bring(`Rust ${version}`, 'rustup', options, task, async folder => {
    // A question would install what it does not find, with documentation and more.
    const variables = { RUSTUP_HOME: folder, CARGO_HOME: join(folder, 'cargo'), RUSTUP_AUTO_INSTALL: '0' }
    const runRustup = runner(rustup, variables, folder, options, task)
    const find = () => runRustup('which', '--toolchain', version, 'rustc')
    const install = () => runRustup('toolchain', 'install', version, '--profile', 'minimal', '--no-self-update')
    return { home: dirname(dirname(await find().catch(() => install().then(find)))), version }
  })
}

const findProgram = (name: string, folders: string[]): string | undefined =>
  folders.map(folder => join(folder, name)).find(file => fs.existsSync(file))

/** The lowest version of a range, such as 1.25 of `>=1.25` or of `^1.25`, which tools complete to the newest of it. */
function lowestOf(wanted: string): string | null {
  const version = wanted
    .split(',', 1)[0]!
    .trim()
    .replace(/^(?:>=|==?|\^|~[=>]?)/, '')
    .trim()
  return /^\w[\w.+-]{0,40}$/.test(version) && isWithin(version, wanted) ? version : null
}

/** A tool is installed by the agent, not by an application. */
function runner(
  program: string,
  variables: Record<string, string>,
  folder: string,
  { env, machinePath }: ToolOptions,
  { signal }: BuildTask,
) {
  const PATH = systemFolders(machinePath).join(delimiter)
  const options = { cwd: folder, signal, timeout: 600_000, env: { HOME: folder, ...env, PATH, ...variables } }
  return async (...args: string[]) => (await run(program, args, options)).stdout.trim()
}

/** The last download by each program: rustup has no lock of its own. */
const downloads = new Map<string, Promise<unknown>>()

/** Null, with a warning, if it cannot be downloaded. */
async function bring(
  what: string,
  by: string,
  { shared }: ToolOptions,
  task: BuildTask,
  install: (folder: string) => Promise<Installed>,
): Promise<Installed | null> {
  const folder = join(shared, { uv: 'python', rustup: 'rust' }[by] ?? by)
  fs.mkdirSync(folder, { recursive: true, mode: 0o755 })
  try {
    task.log(`Bringing ${what} with ${by}`)
    const download = Promise.allSettled([downloads.get(by)]).then(() => install(folder))
    downloads.set(by, download)
    return await download
  } catch {
    task.signal.throwIfAborted()
    task.log(`${by} cannot bring ${what} to this machine.`, 'WARNING')
    return null
  }
}
