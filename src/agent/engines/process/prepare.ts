// Runs the install and build commands of an application in its folder.
import { join } from 'node:path'
import { runCommand } from '../../builds/command.ts'
import { withModuleCache } from '../../builds/module-cache.ts'
import { buildStepsOf, startCommandOf } from '../../builds/package-commands.ts'
import type { Artifact, BuildTask, RevisionSpec, SourceTree } from '../../engine.ts'
import { removeRecursively, stampFolder } from '../../system/files.ts'
import { DEFAULT_PATH } from '../../system/search-path.ts'
import { chownRecursively, makeOwned, type User } from '../../system/users.ts'

/** `commandEnv`: the variables of this machine that commands may see. */
type PrepareOptions = { disk_mb: number; commandEnv?: Record<string, string>; user?: User | undefined; path?: string }

export async function prepare(
  spec: RevisionSpec,
  tree: SourceTree,
  task: BuildTask,
  { disk_mb, commandEnv, user, path = DEFAULT_PATH }: PrepareOptions,
): Promise<Artifact> {
  const { folder } = tree
  const env = {
    LANG: 'C.UTF-8',
    ...commandEnv,
    ...tree.env,
    ...spec.secrets,
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
  for (const path of [env.HOME, env.TMPDIR]) makeOwned(path, user)
  if (user) await chownRecursively(folder, user)
  for (const [step, command] of Object.entries(buildStepsOf(tree))) {
    if (!command) continue
    task.log(`${step === 'install' ? 'Installing' : 'Building'}: ${command}`)
    const script =
      step === 'install' ? await withModuleCache(command, { folder, cache: task.cache, otherInputs: env }) : command
    await runCommand(['/bin/sh', '-c', script], {
      cwd: folder,
      env,
      revision: spec.revision_id,
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
