// What `npm ci` installed, kept by a deployment for its next build with the same lock file, where nothing else decides what is installed.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { readText } from '../system/files.ts'
import { fingerprint } from './fingerprint.ts'

type ModuleCacheOptions = {
  folder: string
  /** A folder that the deployment keeps, as the command sees it. */
  cache: string
  /** Whatever else decides what is installed. */
  otherInputs: object
}
type PackageLock = {
  packages?: Record<string, { link?: boolean; integrity?: string; inBundle?: boolean; hasInstallScript?: boolean }>
}
type PackageJson = { scripts?: Record<string, string>; workspaces?: unknown }

/** Of the application itself: what they leave behind is not among the modules. */
const INSTALL_SCRIPTS = /^(preinstall|install|postinstall|prepublish|(pre|post)?prepare)$/
/** What npm reads instead, or builds of its own accord. */
const UNSUPPORTED_FILES = ['npm-shrinkwrap.json', 'binding.gyp']

/**
 * The command as a shell is to run it. A copy is made before anything may change it, and gets its name when it is whole; it is used as
 * a copy, so no build spoils what the next one begins with.
 */
export async function withModuleCache(
  command: string,
  { folder, cache, otherInputs: from }: ModuleCacheOptions,
): Promise<string> {
  const lock = command.trim() === 'npm ci' ? readText(folder, 'package-lock.json') : null
  const asked = readText(folder, 'package.json')
  if (lock === null || asked === null || UNSUPPORTED_FILES.some(name => fs.existsSync(join(folder, name))))
    return command
  const { packages } = parseJson<PackageLock>(lock)
  const { scripts = {}, workspaces } = parseJson<PackageJson>(asked)
  const { '': _, ...installed } = packages ?? {}
  const all = Object.values(installed)
  const whole = all.every(one => !one.link && (one.integrity || one.inBundle))
  if (!packages || !whole || workspaces || Object.keys(scripts).some(name => INSTALL_SCRIPTS.test(name))) return command
  const key = await fingerprint([lock, asked, readText(folder, '.npmrc'), from], cache)
  const modules = `'${cache.replaceAll("'", `'\\''`)}'/modules`
  // Theirs may look at the source, so they run each time.
  const rebuilt = all.some(one => one.hasInstallScript) ? ' && npm rebuild' : ''
  return `kept=${modules}/${key}-$(node -p 'process.version + process.arch')
rm -rf node_modules
if [ -e "$kept" ] && cp -a "$kept/node_modules" node_modules${rebuilt}; then
  echo 'Nothing changed in what it asks for: node_modules are those of an earlier build'
else
  rm -rf node_modules
  npm ci || exit $?
  rm -rf ${modules}
  mkdir -p ${modules}/$$ && cp -a node_modules ${modules}/$$ && mv ${modules}/$$ "$kept" || rm -rf ${modules}
fi`
}

function parseJson<T extends object>(text: string): Partial<T> {
  try {
    return Object(JSON.parse(text))
  } catch {
    return {}
  }
}
