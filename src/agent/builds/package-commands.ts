// The commands of an application that does not name its own, from its package.json.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { PermanentError, type SourceTree } from '../engine.ts'
import { readSourceJson } from './read-json.ts'

export function startCommandOf({ folder, start_command }: SourceTree): string {
  if (start_command) return start_command
  const manifest = readPackage(folder)
  // Without a start script, `npm start` runs server.js.
  if (manifest?.scripts?.start || (manifest && fs.existsSync(join(folder, 'server.js')))) return 'npm start --silent'
  const missing = manifest ? 'a `start` script to package.json' : 'a package.json with a `start` script'
  throw new PermanentError(
    `The application has no start command. Set \`start_command\` in the runtime configuration file, or add ${missing}.`,
  )
}

type Package = { scripts?: { start?: string; build?: string }; dependencies?: object; devDependencies?: object }
function readPackage(folder: string): Package | null {
  const value = readSourceJson(folder, 'package.json', 1000)
  return value === undefined ? null : Object(value)
}

const RUN_BUILD_SCRIPT = 'npm run build'

/** The commands before the start. A step without a command, or with an empty one, is left out. */
export function buildStepsOf({ folder, install_command, build_command }: SourceTree) {
  const build = build_command ?? (readPackage(folder)?.scripts?.build ? RUN_BUILD_SCRIPT : null)
  // Under NODE_ENV=production npm would leave out the development dependencies, such as a compiler.
  const options = build === RUN_BUILD_SCRIPT ? ' --include=dev' : ''
  return { install: install_command ?? installCommandOf(folder, options), build }
}

/** For a package with dependencies; null if there is nothing to install. */
function installCommandOf(folder: string, options: string): string | null {
  if (fs.existsSync(join(folder, 'node_modules'))) return null
  const { dependencies, devDependencies } = readPackage(folder) ?? {}
  const all = { ...dependencies, ...devDependencies }
  if (Object.keys(all).length === 0) return null
  return `npm ${fs.existsSync(join(folder, 'package-lock.json')) ? 'ci' : 'install'}${options}`
}
