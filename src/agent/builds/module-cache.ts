// Caches the result of `npm ci` for the next build of a deployment with the same lock file.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { readText } from '../system/files.ts'
import { fingerprint } from './fingerprint.ts'

type ModuleCacheOptions = {
  folder: string
  cache: string
  otherInputs: object
}
type PackageLock = {
  packages?: Record<string, { link?: boolean; integrity?: string; inBundle?: boolean; hasInstallScript?: boolean }>
}
type PackageJson = { scripts?: Record<string, string>; workspaces?: unknown }

const NPM_CI = /^npm ci( --include=dev)?$/
const INSTALL_SCRIPTS = /^(preinstall|install|postinstall|prepublish|(pre|post)?prepare)$/
/** npm reads the first instead of the lock file, and builds the second. */
const UNSUPPORTED_FILES = ['npm-shrinkwrap.json', 'binding.gyp']

/**
 * The shell command to run instead, which uses the cache where that is safe. The cache is copied in both directions, so
 * that no build changes the modules of the next one, and is renamed into place once it is complete.
 */
export async function withModuleCache(
  command: string,
  { folder, cache, otherInputs }: ModuleCacheOptions,
): Promise<string> {
  const [install, option = ''] = NPM_CI.exec(command.trim()) ?? []
  const lock = install ? readText(folder, 'package-lock.json') : null
  const manifest = readText(folder, 'package.json')
  if (lock === null || manifest === null || UNSUPPORTED_FILES.some(name => fs.existsSync(join(folder, name))))
    return command
  const { packages } = parseJson<PackageLock>(lock)
  const { scripts = {}, workspaces } = parseJson<PackageJson>(manifest)
  const { '': _, ...installed } = packages ?? {}
  const modules = Object.values(installed)
  const arePinned = modules.every(module => !module.link && (module.integrity || module.inBundle))
  if (!packages || !arePinned || workspaces || Object.keys(scripts).some(name => INSTALL_SCRIPTS.test(name)))
    return command
  const inputs = [lock, manifest, readText(folder, '.npmrc'), otherInputs, ...(option ? [option] : [])]
  const key = await fingerprint(inputs, cache)
  const cached = `'${cache.replaceAll("'", `'\\''`)}'/modules`
  // Install scripts of modules may read the source, so they run each time.
  const rebuild = modules.some(module => module.hasInstallScript) ? ' && npm rebuild' : ''
  return `cached=${cached}/${key}-$(node -p 'process.version + process.arch')
rm -rf node_modules
if [ -e "$cached" ] && cp -a "$cached/node_modules" node_modules${rebuild}; then
  echo 'Reusing node_modules of an earlier build: package.json and the lock file did not change'
else
  rm -rf node_modules
  ${install} || exit $?
  rm -rf ${cached}
  mkdir -p ${cached}/$$ && cp -a node_modules ${cached}/$$ && mv ${cached}/$$ "$cached" || rm -rf ${cached}
fi`
}

function parseJson<T extends object>(text: string): Partial<T> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
