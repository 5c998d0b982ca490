// The programs that a plan needs. In this order: what is on this machine in a version that fits, what npm brings, what
// mise brings if the machine has it or the language's own program, and what is on this machine in another version.
// Anything else is named.
import { execFile } from 'node:child_process'
import * as fs from 'node:fs'
import { homedir } from 'node:os'
import { delimiter, dirname, join } from 'node:path'
import { promisify } from 'node:util'
import type { Tool, ToolName } from '../../../build-plan/build-plan.ts'
import { isWithin, lowestWithin } from '../../../build-plan/version-ranges.ts'
import { copyGraphServer, hashGraphServer, INSTALL_RUNTIME, JAVASCRIPT_RUNTIME } from '../../builds/graph-server.ts'
import { type BuildTask, PermanentError } from '../../engine.ts'
import { describeError } from '../../redaction/error-messages.ts'
import { listFolder } from '../../system/files.ts'
import { isReachable } from '../../system/users.ts'
import { installFromNpm, isFromNpm, NODE_PACKAGE } from './npm-tools.ts'
import { fillShared, type Installed, systemFolders, type Toolbox, type ToolOptions } from './toolbox.ts'
import { installGo, installPython, installRust, installWithMise } from './version-managers.ts'

const run = promisify(execFile)

/** A command that tells the folder of an installation, and its version where one command tells both. */
type Probe = { program: string; arguments: string[]; read(output: string): Installed | null }
const PROBES: Partial<Record<ToolName, Probe>> = {
  python: {
    program: 'python3',
    arguments: ['-c', 'import sys, platform; print(sys.base_prefix); print(platform.python_version())'],
    read: twoLines,
  },
  go: { program: 'go', arguments: ['env', 'GOROOT', 'GOVERSION'], read: twoLines },
  rust: { program: 'rustc', arguments: ['--print', 'sysroot'], read: readFolder },
  java: { program: 'java', arguments: ['-XshowSettings:properties', '-version'], read: readJava },
  maven: { program: 'mvn', arguments: ['--version'], read: readMaven },
  ruby: { program: 'ruby', arguments: ['-e', 'puts RbConfig::CONFIG["prefix"], RUBY_VERSION'], read: twoLines },
  gradle: { program: 'gradle', arguments: ['--version'], read: () => null },
  uv: { program: 'uv', arguments: ['--version'], read: () => null },
}

const HELP: Partial<Record<ToolName, string>> = {
  python: 'Install Python 3',
  uv: 'Install uv, or pip with which it is fetched (https://docs.astral.sh/uv)',
  go: 'Install Go (https://go.dev/dl)',
  rust: 'Install Rust (https://rustup.rs)',
  java: 'Install a JDK (https://adoptium.net)',
  maven: 'Install Maven, or add its wrapper `mvnw` to the source',
  gradle: 'Install Gradle, or add its wrapper `gradlew` to the source',
  ruby: 'Install Ruby with Bundler',
}

export async function gatherTools(tools: Tool[], options: ToolOptions, task: BuildTask): Promise<Toolbox> {
  const box: Toolbox = { programs: [], env: {}, headers: null }
  const missing: ToolName[] = []
  for (const tool of tools) {
    const found = await findTool(tool, options, task)
    if (tool.name === 'node') box.headers = findHeaders(found, options)
    if (found === null && tool.isExtra) task.log(`This agent's machine has no ${tool.name} (${tool.from}).`, 'WARNING')
    else if (found === null) missing.push(tool.name)
    else if (found !== 'own') {
      if (!isFoundFirst(tool.name, found, options.path)) box.programs.push(join(found.home, 'bin'))
      Object.assign(box.env, variablesOf(tool.name, found))
    }
  }
  if (missing.length > 0)
    throw new PermanentError(
      `This agent's machine has no ${missing.join(' and no ')}, which the application needs. ` +
        `${missing.map(name => HELP[name] ?? `Install ${name}`).join('. ')}. ` +
        'Or use a listener whose agent runs containers.',
    )
  return box
}

/** A folder of the system would come before that of the agent's Node, which may be another one. */
function isFoundFirst(name: ToolName, { home }: Installed, path: string): boolean {
  const program = PROBES[name]?.program ?? name
  const first = path.split(delimiter).find(folder => fs.existsSync(join(folder, program)))
  return first !== undefined && fs.realpathSync(first) === fs.realpathSync(join(home, 'bin'))
}

async function findTool(tool: Tool, options: ToolOptions, task: BuildTask): Promise<Installed | 'own' | null> {
  const { name, version } = tool
  if (name === 'graphs' || name === 'graphs-javascript') return installGraphs(name, options, task)
  // Such as 3.13t, a build of Python without its lock. A machine's own is none.
  const isSpecial = name === 'python' && version !== null && /^\d[\d.]*t$/.test(version)
  const isFit = (found: string) => !isSpecial && (version === null || isWithin(found, version))
  if (name === 'node' && isFit(process.versions.node)) return 'own'
  if (isFromNpm(name)) {
    const brought = await installFromNpm(tool, options, task)
    if (brought || name !== 'node') return brought
    task.log(
      `The source asks for Node ${version} (${tool.from}); this machine has ${process.versions.node}.`,
      'WARNING',
    )
    return 'own'
  }
  const line = version && lowestWithin(version)?.split('.').slice(0, 2).join('.')
  const rate = (found: string) => (isFit(found) ? 2 : line && isWithin(found, `~${line}`) ? 1 : 0)
  const onMachine = await findOnMachine(name, options.machinePath, rate)
  if (onMachine && isFit(onMachine.version)) return share(name, onMachine, options)
  const managed = (await installWithMise(tool, options, task)) ?? (await installByOwn(tool, onMachine, options, task))
  if (managed) return managed
  if (name === 'uv') return installUv(version, options, task)
  if (!onMachine) return null
  const wanted = `The source asks for ${name} ${version} (${tool.from}); this machine has ${onMachine.version}.`
  const help = `${HELP[name]} in that version, or mise (https://mise.jdx.dev), which brings it.`
  task.log(`${wanted} ${help}`, 'WARNING')
  return share(name, onMachine, options)
}

/** The server of graphs comes with the agent. npm brings what runs graphs in JavaScript. */
async function installGraphs(
  name: 'graphs' | 'graphs-javascript',
  { shared, env, path }: ToolOptions,
  task: BuildTask,
): Promise<Installed> {
  const version = hashGraphServer()
  const home = join(shared, `${name}-${version}`)
  if (fs.existsSync(home)) return { home, version }
  if (name === 'graphs-javascript') task.log('Fetching what runs graphs in JavaScript')
  try {
    await fillShared(home, async temporary => {
      copyGraphServer(temporary, '127.0.0.1')
      if (name === 'graphs') return
      const [npm, ...args] = INSTALL_RUNTIME.split(' ')
      await run(npm!, args, {
        cwd: join(temporary, JAVASCRIPT_RUNTIME),
        signal: task.signal,
        timeout: 300_000,
        env: { PATH: path, HOME: temporary, ...env },
      })
    })
  } catch (error) {
    task.signal.throwIfAborted()
    const reason = describeError(error).split('\n', 1)[0]
    throw new PermanentError(`npm cannot bring what runs graphs in JavaScript to this machine: ${reason}`)
  }
  return { home, version }
}

/** By the language's own program, which knows its releases. */
async function installByOwn(
  tool: Tool,
  onMachine: Installed | null,
  options: ToolOptions,
  task: BuildTask,
): Promise<Installed | null> {
  if (tool.name === 'go') return onMachine && installGo(tool, onMachine, options, task)
  if (tool.name === 'rust') return installRust(tool, options, task)
  if (tool.name !== 'python' || tool.version === null) return null
  const uv = await findTool({ name: 'uv', version: null, from: null }, options, task)
  return uv && uv !== 'own' ? installPython(tool, uv, options, task) : null
}

/** The folders in which version managers keep several of one kind, below the agent's own home. */
const MANAGED: Partial<Record<ToolName, string>> = {
  rust: '.rustup/toolchains',
  python: '.pyenv/versions',
  ruby: '.rbenv/versions',
}

function searchedFolders(name: ToolName, machinePath: string): string[] {
  const managed = MANAGED[name] ? join(homedir(), MANAGED[name]) : null
  const versions = managed === null ? [] : listFolder(managed).map(version => join(managed, version, 'bin'))
  return [...new Set([...systemFolders(machinePath), ...versions])]
}

/**
 * The best of the machine: one that fits, or another release of the same line, and that applications can reach where
 * it is. Of Python the newest, because packages soon drop old ones, and that of a system is often old.
 */
async function findOnMachine(
  name: ToolName,
  machinePath: string,
  rate: (version: string) => number,
): Promise<Installed | null> {
  const probe = PROBES[name]
  if (!probe) return null
  const isProgram = (file: string) => file === probe.program || (name === 'python' && /^python3\.\d+$/.test(file))
  const found: Installed[] = []
  for (const folder of searchedFolders(name, machinePath))
    for (const file of listFolder(folder).filter(isProgram).sort()) {
      const installed = await probeProgram(join(folder, file), probe)
      if (installed && !found.some(({ home }) => home === installed.home)) found.push(installed)
    }
  const fitness = ({ version }: Installed) => rate(version)
  const reachability = ({ home }: Installed) => Number(isReachable(join(home, 'bin')))
  const isNewer = (a: Installed, b: Installed) => Number(name === 'python' && !isWithin(a.version, `<=${b.version}`))
  const compare = (a: Installed, b: Installed) =>
    fitness(b) - fitness(a) || isNewer(b, a) - isNewer(a, b) || reachability(b) - reachability(a)
  return found.toSorted(compare)[0] ?? null
}

async function probeProgram(
  program: string,
  { program: name, arguments: args, read }: Probe,
): Promise<Installed | null> {
  try {
    const { stdout, stderr } = await run(program, args, PROBING)
    const found = read(`${stdout}\n${stderr}`) ?? { home: dirname(dirname(fs.realpathSync(program))), version: '' }
    if (found.version !== '') return found
    const said = await run(join(found.home, 'bin', name), ['--version'], PROBING)
    const version = versionIn(said.stdout)
    return version === undefined ? null : { home: found.home, version }
  } catch {
    return null
  }
}
const PROBING = { timeout: 20_000, cwd: '/' }

/** The first word that is one, such as `1.95.0`, also after letters, as in `go1.26.8`. */
const versionIn = (text: string): string | undefined =>
  text
    .split(/\s/)
    .map(word => /^[a-z]*(\d+\.[\d.]*\d)/i.exec(word)?.[1])
    .find(version => version !== undefined)

/** The version is asked for apart. */
function readFolder(output: string): Installed | null {
  const home = output.trim().split('\n', 1)[0]!
  return home.startsWith('/') ? { home, version: '' } : null
}

function twoLines(output: string): Installed | null {
  const [home, version] = output.trim().split('\n')
  const number = versionIn(version ?? '')
  return home?.startsWith('/') && number ? { home, version: number } : null
}

function readJava(output: string): Installed | null {
  const home = /java\.home = (\S+)/.exec(output)?.[1]
  const version = /java\.version = ([\d.]+)/.exec(output)?.[1]
  return home && version ? { home, version } : null
}

function readMaven(output: string): Installed | null {
  const home = /Maven home: (\S+)/.exec(output)?.[1]
  const version = /Apache Maven ([\d.]+)/.exec(output)?.[1]
  return home && version ? { home, version } : null
}

/** A tool below a folder that applications may not enter, such as /root, is linked or copied to where they can. */
async function share(
  name: ToolName,
  { home, version }: Installed,
  { shared, areOthers }: ToolOptions,
): Promise<Installed> {
  if (!areOthers || isReachable(join(home, 'bin'))) return { home, version }
  const folder = join(shared, `${name}-${version}-of-this-machine`)
  await fillShared(folder, async temporary => {
    await run('cp', ['-al', `${home}/.`, temporary]).catch(() => run('cp', ['-af', `${home}/.`, temporary]))
    fs.chmodSync(temporary, 0o755)
  })
  return { home: folder, version }
}

/** A wheel of uv is one program. It is fetched by pip, which knows the index of this machine. */
async function installUv(
  version: string | null,
  { shared, env, machinePath }: ToolOptions,
  task: BuildTask,
): Promise<Installed | null> {
  const wanted = `uv${version === null ? '' : pipRangeOf(version)}`
  const folder = join(shared, encodeURIComponent(wanted))
  const fetched = { home: folder, version: version ?? 'latest' }
  if (fs.existsSync(folder)) return fetched
  const python = await findOnMachine('python', machinePath, () => 0)
  if (!python) return null
  try {
    task.log(`Fetching ${wanted}`)
    await fillShared(folder, async temporary => {
      const args = ['-m', 'pip', 'install', '--no-cache-dir', '--only-binary', ':all:', '--target', temporary, wanted]
      await run(join(python.home, 'bin/python3'), args, {
        signal: task.signal,
        timeout: 300_000,
        env: { PATH: '/usr/bin:/bin', HOME: temporary, ...env },
      })
    })
    return fetched
  } catch {
    task.signal.throwIfAborted()
    return null
  }
}

/** Modules with a part in C++ are built against these. Without them, node-gyp downloads them from nodejs.org. */
function findHeaders(found: Installed | 'own' | null, { areOthers }: ToolOptions): string | null {
  const home = found === null || found === 'own' ? dirname(dirname(process.execPath)) : found.home
  const folder = [home, join(home, 'node_modules', NODE_PACKAGE)].find(
    at => fs.existsSync(join(at, 'include/node/node_version.h')) && (!areOthers || isReachable(at)),
  )
  return folder ?? null
}

/** Empty for what is no version, such as `latest`. */
function pipRangeOf(version: string): string {
  if (/^\d+(\.\d+)?$/.test(version)) return `==${version}.*`
  if (/^\d[\d.]{0,20}$/.test(version)) return `==${version}`
  return /^[<>=!~][\d.,<>=!~* ]{1,60}$/.test(version) ? version : ''
}

function variablesOf(name: ToolName, { home }: Installed): Record<string, string> {
  if (name === 'python') {
    // A copy does not find its own library beside it.
    const isShared = listFolder(join(home, 'lib')).some(file => file.startsWith('libpython3') && file.includes('.so'))
    const library = isShared && !home.startsWith('/usr') ? { LD_LIBRARY_PATH: join(home, 'lib') } : {}
    return { UV_PYTHON: join(home, 'bin/python3'), ...library }
  }
  if (name === 'graphs' || name === 'graphs-javascript') return { GRAPHS_RUNTIME: join(home, 'graphs/runtimes') }
  if (name === 'go') return { GOROOT: home, CGO_ENABLED: '0' }
  if (name === 'java') return { JAVA_HOME: home }
  return {}
}
