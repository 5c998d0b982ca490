// Installs and builds an application in its folder, so that its start command can be run there.
import * as fs from 'node:fs'
import { join } from 'node:path'
import { runCommand } from '../../builds/command.ts'
import { withModuleCache } from '../../builds/module-cache.ts'
import { readSourceJson } from '../../builds/read-json.ts'
import { removeRecursively, stampFolder } from '../../system/files.ts'
import { chownRecursively, makeOwned, type User } from '../../system/users.ts'
import { type Artifact, type BuildTask, PermanentError, type RevisionSpec, type SourceTree } from '../engine.ts'
import { DEFAULT_PATH } from './environment.ts'

/** `lent`: what the operator lets commands see of this machine. */
type PrepareOptions = { disk_mb: number; lent?: Record<string, string>; user?: User | undefined; path?: string }
export async function prepare(
  unit: RevisionSpec,
  tree: SourceTree,
  task: BuildTask,
  { disk_mb, lent, user, path = DEFAULT_PATH }: PrepareOptions,
): Promise<Artifact> {
  const { folder } = tree
  const env = {
    LANG: 'C.UTF-8',
    ...lent,
    ...tree.env,
    ...unit.secrets,
    PATH: path,
    HOME: join(task.cache, 'home'),
    TMPDIR: join(task.cache, 'tmp'),
    npm_config_cache: join(task.cache, 'npm'),
    npm_config_prefer_offline: 'true',
    npm_config_fund: 'false',
    npm_config_audit: 'false',
    npm_config_update_notifier: 'false',
  }
  await removeRecursively(env.TMPDIR)
  for (const own of [env.HOME, env.TMPDIR]) makeOwned(own, user)
  if (user) await chownRecursively(folder, user)
  const commands = [
    ['install', tree.install_command ?? installCommandOf(folder)],
    ['build', tree.build_command],
  ] as const
  for (const [step, command] of commands) {
    if (!command) continue
    task.log(`${step === 'install' ? 'Installing' : 'Building'}: ${command}`)
    const whole =
      step === 'install' ? await withModuleCache(command, { folder, cache: task.cache, otherInputs: env }) : command
    await runCommand(['/bin/sh', '-c', whole], {
      cwd: folder,
      env,
      revision: unit.revision_id,
      task,
      user,
      disk_mb,
      label: `The ${step} command \`${command}\``,
    })
  }
  const { health_path, commit } = tree
  const start_command = startCommandOf(tree)
  return { location: folder, start_command, health_path, env: tree.env, commit, stamp: await stampFolder(folder) }
}

export function startCommandOf({ folder, start_command }: SourceTree): string {
  if (start_command) return start_command
  // As npm has it: without a script, a server.js.
  const asked = readPackage(folder)
  if (asked?.scripts?.start || (asked && fs.existsSync(join(folder, 'server.js')))) return 'npm start --silent'
  const missing = asked ? 'a `start` script to its package.json' : 'a package.json with a `start` script'
  throw new PermanentError(
    `Nothing says how to start it: name a \`start_command\` in the runtime configuration file, or add ${missing}.`,
  )
}

type Package = { scripts?: { start?: string }; dependencies?: object; devDependencies?: object }
function readPackage(folder: string): Package | null {
  const value = readSourceJson(folder, 'package.json', 1000)
  return value === undefined ? null : Object(value)
}

/** What a package asks for is installed also where nobody said so. */
export function installCommandOf(folder: string): string | null {
  if (fs.existsSync(join(folder, 'node_modules'))) return null
  const { dependencies, devDependencies } = readPackage(folder) ?? {}
  const asked = { ...dependencies, ...devDependencies }
  if (Object.keys(asked).length === 0) return null
  return fs.existsSync(join(folder, 'package-lock.json')) ? 'npm ci' : 'npm install'
}
