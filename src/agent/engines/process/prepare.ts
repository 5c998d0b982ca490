// Installs and builds an application in its folder, so that its start command can be run there.
import { join } from 'node:path'
import { runCommand } from '../../builds/command.ts'
import { withModuleCache } from '../../builds/module-cache.ts'
import { installCommandOf, startCommandOf } from '../../builds/package-commands.ts'
import { removeRecursively, stampFolder } from '../../system/files.ts'
import { chownRecursively, makeOwned, type User } from '../../system/users.ts'
import type { Artifact, BuildTask, RevisionSpec, SourceTree } from '../engine.ts'
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
