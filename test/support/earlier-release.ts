// The code of an earlier release, from the history of the repository, with the packages that are installed here.
import { execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { type Release, Releases } from '../../deploy/releases/releases.ts'

const ROOT = join(import.meta.dirname, '../..')
type Package = { version: string; scripts: { start: string }; dependencies: Record<string, string> }
const readPackage = (folder: string): Package => JSON.parse(readFileSync(join(folder, 'package.json'), 'utf8'))

export const releases = Releases.parse(JSON.parse(readFileSync(join(ROOT, 'deploy/releases/releases.json'), 'utf8')))
/** The newest release of another app: it serves while this one migrates. */
export const previousRelease = releases.find(({ app }) => app !== releases[0]!.app)

export type Code = Pick<Release, 'app' | 'commit'>

/** Returns why the code of a release cannot run here. */
export function findObstacle(release: Code | undefined): string | undefined {
  if (!release) return 'there is no earlier release'
  const { commit, app } = release
  if (!commit || !existsSync(join(ROOT, '.git'))) return `the code of ${app} is not in a repository`
  try {
    if (!git('ls-tree', '--name-only', commit, 'drizzle/0000_baseline.sql'))
      return `the database of ${app} is from before the baseline`
    const { dependencies } = JSON.parse(git('show', `${commit}:package.json`)) as Package
    const other = Object.entries(dependencies).find(([name, version]) => installedVersion(name) !== version)
    return other && `${app} needs ${other.join(' ')}, which is not installed`
  } catch {
    return `the history has no commit ${commit} (${app}), such as in a shallow clone`
  }
}

const git = (...args: string[]) =>
  execFileSync('git', args, { cwd: ROOT, encoding: 'utf8', stdio: 'pipe', maxBuffer: 1 << 28 })

function installedVersion(name: string): string | undefined {
  const folder = join(ROOT, 'node_modules', name)
  return existsSync(join(folder, 'package.json')) ? readPackage(folder).version : undefined
}

const SOURCES = ['package.json', 'src', 'drizzle', 'examples', 'templates']

export function extractRelease({ commit }: Code, folder: string): void {
  mkdirSync(folder, { recursive: true })
  // The releases before 0.2.0 have the applications in templates/.
  const names = git('ls-tree', '--name-only', commit!, ...SOURCES)
    .trim()
    .split('\n')
  const archive = execFileSync('git', ['archive', commit!, ...names], { cwd: ROOT, maxBuffer: 1 << 28 })
  execFileSync('tar', ['-x', '-C', folder], { input: archive })
  symlinkSync(join(ROOT, 'node_modules'), join(folder, 'node_modules'))
}

type Settings = Record<string, string>
export type Server = { url: string; stop(): Promise<void>; output(): string }

/** Starts the API of a release, or of this checkout, and waits until it serves. */
export async function startServer(folder: string, port: number, settings: Settings): Promise<Server> {
  const env = { PATH: process.env.PATH, ...settings, HOST: '127.0.0.1', PORT: `${port}` }
  const [entry] = /src\/host\/\S+$/.exec(readPackage(folder).scripts.start)!
  const child = spawn(process.execPath, [join(folder, entry)], { cwd: folder, env })
  let text = ''
  const served = Promise.withResolvers<void>()
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding('utf8').on('data', (chunk: string) => {
      text += chunk
      if (/serves http/.test(text)) served.resolve()
    })
  const exited = once(child, 'exit')
  exited.then(() => served.reject(new Error(`The server of ${folder} ended: ${text}`)))
  served.promise.catch(() => {})
  await served.promise
  return {
    url: `http://127.0.0.1:${port}`,
    output: () => text,
    stop: async () => {
      child.kill('SIGTERM')
      await exited
    },
  }
}
