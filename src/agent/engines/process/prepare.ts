// Builds an application in its folder by its plan: gathers the tools, then runs the install and build commands.
import { dirname, join } from 'node:path'
import { buildVariables, runtimeVariables } from '../../builds/build-variables.ts'
import { runCommand } from '../../builds/command.ts'
import { withModuleCache } from '../../builds/module-cache.ts'
import { planSource } from '../../builds/source-plan.ts'
import type { Artifact, BuildTask, RevisionSpec, SourceTree } from '../../engine.ts'
import { finishSite } from '../../site/finish-site.ts'
import { removeRecursively, stampFolder } from '../../system/files.ts'
import { DEFAULT_PATH } from '../../system/search-path.ts'
import { chownRecursively, makeOwned, type User } from '../../system/users.ts'
import type { ShortNames } from './short-names.ts'
import type { Toolbox } from './toolbox.ts'
import { gatherTools } from './tools.ts'

/** `commandEnv`: the variables of this machine that commands may see. `toolsFolder`: shared by all builds. */
type PrepareOptions = {
  disk_mb: number
  commandEnv?: Record<string, string>
  user?: User | undefined
  path?: string
  toolsFolder: string
  /** The PATH of the agent itself. */
  machinePath?: string | undefined
  shortNames?: ShortNames
  /** Runs after the commands. */
  finish?: (folder: string) => Promise<void>
}

export async function prepare(
  spec: RevisionSpec,
  tree: SourceTree,
  task: BuildTask,
  {
    disk_mb,
    commandEnv = {},
    user,
    path = DEFAULT_PATH,
    toolsFolder,
    machinePath = '',
    shortNames,
    finish,
  }: PrepareOptions,
): Promise<Artifact> {
  const { folder, health_path, commit } = tree
  const plan = planSource(tree, false, task)
  const toolOptions = {
    shared: toolsFolder,
    areOthers: user !== undefined,
    env: commandEnv,
    path,
    machinePath,
  }
  const tools = await gatherTools(plan.tools, toolOptions, task)
  const programs = [...plan.programs.map(name => join(folder, plan.root, name)), ...tools.programs]
  const [homeFolder, temporary] = ['home', 'tmp'].map(name => join(task.cache, name)) as [string, string]
  await removeRecursively(temporary)
  for (const path of [homeFolder, temporary]) makeOwned(path, user)
  const env = {
    LANG: 'C.UTF-8',
    ...buildVariables(plan, { source: folder, cache: task.cache, runtime: task.cache }, commandEnv),
    // No repository above the source is that of the application.
    GIT_CEILING_DIRECTORIES: dirname(task.cache),
    ...tools.env,
    ...plan.env,
    ...tree.env,
    ...spec.secrets,
    PATH: [...programs, path].join(':'),
    HOME: homeFolder,
    TMPDIR: join(shortNames?.of(task.cache) ?? task.cache, 'tmp'),
  }
  if (user) await chownRecursively(folder, user)
  const runStep = async (step: 'install' | 'build', command: string | null, at: string) => {
    if (command === null) return
    task.log(`${step === 'install' ? 'Installing' : 'Building'}: ${command}`)
    const cwd = join(folder, at)
    // The folder of this build, which PATH names, is another one each time.
    const options = {
      folder: cwd,
      cache: task.cache,
      otherInputs: { ...env, PATH: [...tools.programs, path].join(':') },
    }
    const script = step === 'install' ? keepHeaders(tools) + (await withModuleCache(command, options)) : command
    const label = `The ${step} command \`${command}\``
    await runCommand(['/bin/sh', '-c', script], { cwd, env, revision: spec.revision_id, task, user, disk_mb, label })
  }
  await runStep('install', plan.install, plan.install_root)
  await runStep('build', plan.build, plan.root)
  if (plan.site) {
    const site = { ...plan.site, folder: join(plan.root, plan.site.folder) }
    return { env: {}, commit, ...(await finishSite(folder, site, { task, user, disk_mb })) }
  }
  await finish?.(folder)
  return {
    location: folder,
    root: plan.root,
    programs,
    start_command: plan.start,
    health_path,
    env: { ...runtimeVariables(plan, task.cache), ...tools.env, ...plan.env, ...tree.env },
    commit,
    stamp: await stampFolder(folder),
  }
}

/** The folder of node-gyp's own downloads gets them: pnpm passes no setting on. Its owner, the user, writes them. */
const keepHeaders = ({ headers }: Toolbox) =>
  headers === null
    ? ''
    : `d="$HOME/.cache/node-gyp/$(node -p process.versions.node)"; mkdir -p "$d" && ` +
      `ln -sfn '${headers}/include' "$d/include" && echo 11 > "$d/installVersion"\n`
