// npm, pnpm, Yarn and Bun: which one a source uses, and its commands.
import type { Tool } from '../../build-plan.ts'
import type { Folder } from '../../source-files.ts'
import { findVersion } from '../../versions.ts'
import { type Manifest, readManifest } from './manifest.ts'

export type Manager = {
  name: 'npm' | 'pnpm' | 'yarn' | 'bun'
  tool: Tool | null
  /** The folder of the lock file, or of the package itself. */
  folder: Folder
  /** A build needs the development dependencies, such as a compiler, under NODE_ENV=production too. */
  install(isBuilt: boolean): string
  run(script: string): string
  /** Runs a program that a package brings. */
  exec(program: string): string
  warnings?: string[]
}

const LOCK_FILES = {
  'pnpm-lock.yaml': 'pnpm',
  'bun.lock': 'bun',
  'bun.lockb': 'bun',
  'yarn.lock': 'yarn',
  'package-lock.json': 'npm',
  'npm-shrinkwrap.json': 'npm',
} as const

/** The lock file at the application, or at the nearest folder above it, decides; package.json names the version. */
export function findManager(app: Folder, manifest: Manifest): Manager {
  const locks = app.outwards().flatMap(folder => {
    const file = (Object.keys(LOCK_FILES) as (keyof typeof LOCK_FILES)[]).find(folder.has)
    return file ? [{ folder, file }] : []
  })
  const lock = locks[0]
  const folder = lock?.folder ?? workspaceOf(app) ?? app
  const declared = readDeclared(manifest) ?? readDeclared(readManifest(folder))
  const name = declared?.name ?? (lock ? LOCK_FILES[lock.file] : fromEngines(manifest)) ?? 'npm'
  const isLocked = lock !== undefined && LOCK_FILES[lock.file] === name
  return { name, folder, ...commandsOf(name, folder, isLocked, declared?.version ?? manifest.engines[name] ?? null) }
}

const workspaceOf = (app: Folder) =>
  app.outwards().find(folder => folder.has('pnpm-workspace.yaml') || (readManifest(folder)?.workspaces.length ?? 0) > 0)

function readDeclared(manifest: Manifest | null) {
  const [, name, version] = /^(npm|pnpm|yarn|bun)@(\d[\w.-]*)/.exec(manifest?.packageManager ?? '') ?? []
  return name === undefined ? null : { name: name as Manager['name'], version: version! }
}

const fromEngines = ({ engines }: Manifest) =>
  (['pnpm', 'yarn', 'bun'] as const).find(name => engines[name] !== undefined)

function commandsOf(name: Manager['name'], folder: Folder, isLocked: boolean, version: string | null) {
  const from = version === null ? null : 'package.json'
  switch (name) {
    case 'npm': {
      const isStale = isLocked && !isInStep(folder)
      return {
        tool: null,
        // `npm ci` refuses such a lock file.
        install: (isBuilt: boolean) =>
          `npm ${isLocked && !isStale ? 'ci' : 'install'}${isBuilt ? ' --include=dev' : ''}`,
        warnings: isStale
          ? ['package-lock.json lacks dependencies of package.json. Run `npm install`, and keep it.']
          : [],
        run: (script: string) => `npm run ${script}`,
        exec: (program: string) => `npx --no-install ${program}`,
      }
    }
    case 'pnpm': {
      const tool = findVersion(folder, 'pnpm')
      return {
        tool:
          version === null
            ? {
                ...tool,
                version: tool.version ?? pnpmOf(folder.read('pnpm-lock.yaml')),
                from: tool.from ?? 'pnpm-lock.yaml',
              }
            : { name, version, from },
        install: (isBuilt: boolean) =>
          `pnpm install${isBuilt ? ' --prod=false' : ''} ${isLocked ? '--frozen-lockfile' : '--no-frozen-lockfile'}`,
        run: (script: string) => `pnpm run ${script}`,
        exec: (program: string) => `pnpm exec ${program}`,
      }
    }
    case 'yarn': {
      // Yarn 1 and its successors are two programs with one name.
      const isClassic = version === null ? !isBerry(folder) : version.startsWith('1.')
      return {
        tool:
          version === null
            ? {
                name,
                version: isClassic ? '1' : berryOf(folder.read('yarn.lock')),
                from: isLocked ? 'yarn.lock' : null,
              }
            : { name, version, from },
        install: (isBuilt: boolean) =>
          isClassic
            ? `yarn install${isBuilt ? ' --production=false' : ''}${isLocked ? ' --frozen-lockfile' : ''}`
            : `yarn install ${isLocked ? '--immutable' : '--no-immutable'}`,
        run: (script: string) => `yarn run ${script}`,
        exec: (program: string) => `yarn exec ${program}`,
      }
    }
    case 'bun':
      return {
        tool: version === null ? findVersion(folder, 'bun', ['.bun-version']) : { name, version, from },
        install: () => `bun install${isLocked ? ' --frozen-lockfile' : ''}`,
        run: (script: string) => `bun run ${script}`,
        exec: (program: string) => `bunx --no-install ${program}`,
      }
  }
}

const isBerry = (folder: Folder) => folder.has('.yarnrc.yml') || /^__metadata:/m.test(folder.read('yarn.lock') ?? '')

/** The version of Yarn that wrote this lock file: a later one would change it. */
function berryOf(lock: string | null): string {
  const key = Number(/^ {2}cacheKey: (\d+)/m.exec(lock ?? '')?.[1] ?? 10)
  return key <= 7 ? '2' : key <= 9 ? '3' : '4'
}

/** package-lock.json has the dependencies of package.json. One that is not read is taken for right. */
function isInStep(folder: Folder): boolean {
  const manifest = folder.readJson('package.json') ?? {}
  const locked = Object(folder.readJson('package-lock.json')?.packages)['']
  return ['dependencies', 'devDependencies', 'optionalDependencies'].every(kind => {
    const [wanted, found] = [Object(manifest[kind]), Object(Object(locked)[kind])]
    return locked === undefined || Object.keys(wanted).every(name => wanted[name] === found[name])
  })
}

/** A version of pnpm that reads this lock file without changing it. */
function pnpmOf(lock: string | null): string | null {
  const version = /^lockfileVersion: '?(\d+)/m.exec(lock ?? '')?.[1]
  if (version === undefined) return null
  return { 5: '7', 6: '8', 9: '10' }[Number(version)] ?? null
}
