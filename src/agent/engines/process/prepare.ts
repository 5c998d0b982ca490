// Builds an application in its folder by its plan: gathers the tools, then runs the install and build commands.
import { dirname, join } from 'node:path'
import { MAX_FILE_BYTES } from '../../../build-plan/source-files.ts'
import { runCommand } from '../../builds/command.ts'
import { withModuleCache } from '../../builds/module-cache.ts'
import { planSource } from '../../builds/source-plan.ts'
import type { Artifact, BuildTask, RevisionSpec, SourceTree } from '../../engine.ts'
import { readInside, removeRecursively, stampFolder } from '../../system/files.ts'
import { DEFAULT_PATH } from '../../system/search-path.ts'
import { chownRecursively, makeOwned, type User } from '../../system/users.ts'
import { finishSite } from '../local/site/finish-site.ts'
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
}

export async function prepare(
  spec: RevisionSpec,
  tree: SourceTree,
  task: BuildTask,
  { disk_mb, commandEnv = {}, user, path = DEFAULT_PATH, toolsFolder, machinePath = '' }: PrepareOptions,
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
  const env = {
    LANG: 'C.UTF-8',
    ...commandEnv,
    ...cacheVariables(task.cache),
    ...scriptVariables(join(folder, plan.install_root)),
    ...(plan.tools.some(({ name }) => name === 'pnpm') && pnpmVariables(task.cache)),
    ...tools.env,
    ...plan.env,
    ...tree.env,
    ...spec.secrets,
    PATH: [...programs, path].join(':'),
    HOME: join(task.cache, 'home'),
    TMPDIR: join(task.cache, 'tmp'),
  }
  await removeRecursively(env.TMPDIR)
  for (const path of [env.HOME, env.TMPDIR]) makeOwned(path, user)
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
    const script = step === 'install' ? await withModuleCache(command, options) : command
    const label = `The ${step} command \`${command}\``
    await runCommand(['/bin/sh', '-c', script], { cwd, env, revision: spec.revision_id, task, user, disk_mb, label })
  }
  await runStep('install', plan.install, plan.install_root)
  await runStep('build', plan.build, plan.root)
  if (plan.site) {
    const site = { ...plan.site, folder: join(plan.root, plan.site.folder) }
    return { env: {}, commit, ...(await finishSite(folder, site, { task, user, disk_mb })) }
  }
  return {
    location: folder,
    root: plan.root,
    programs,
    start_command: plan.start,
    health_path,
    env: { ...tools.env, ...plan.env, ...tree.env },
    commit,
    stamp: await stampFolder(folder),
  }
}

/**
 * npm warns of each package with install scripts, and from version 12 on skips them. They run as the application's
 * user, as all its code does. A source with a list of its own decides itself.
 */
function scriptVariables(installRoot: string): Record<string, string> {
  const manifest = readInside(installRoot, 'package.json', MAX_FILE_BYTES)?.text ?? ''
  return manifest.includes('"allowScripts"') ? {} : { npm_config_dangerously_allow_all_scripts: 'true' }
}

/** npm warns of settings that it does not know. */
const pnpmVariables = (cache: string) => ({ npm_config_store_dir: join(cache, 'pnpm') })

/** The folders in which the tools of all languages keep what the next build can use again. */
function cacheVariables(cache: string): Record<string, string> {
  const at = (name: string) => join(cache, name)
  return {
    npm_config_cache: at('npm'),
    npm_config_prefer_offline: 'true',
    npm_config_fund: 'false',
    npm_config_audit: 'false',
    npm_config_update_notifier: 'false',
    YARN_CACHE_FOLDER: at('yarn'),
    YARN_ENABLE_GLOBAL_CACHE: 'false',
    YARN_ENABLE_TELEMETRY: 'false',
    BUN_INSTALL_CACHE_DIR: at('bun'),
    DENO_DIR: at('deno'),
    UV_CACHE_DIR: at('uv'),
    UV_LINK_MODE: 'copy',
    UV_PYTHON_INSTALL_DIR: at('python'),
    PIP_CACHE_DIR: at('pip'),
    GOMODCACHE: at('go/modules'),
    GOCACHE: at('go/build'),
    GOFLAGS: '-buildvcs=false -modcacherw',
    GOTELEMETRY: 'off',
    // No repository above the source is that of the application.
    GIT_CEILING_DIRECTORIES: dirname(cache),
    CARGO_HOME: at('cargo'),
    CARGO_TARGET_DIR: at('cargo-target'),
    GRADLE_USER_HOME: at('gradle'),
    MAVEN_ARGS: `-Dmaven.repo.local=${at('maven')}`,
    MAVEN_USER_HOME: at('maven-home'),
    BUNDLE_USER_HOME: at('bundle'),
    COREPACK_HOME: at('corepack'),
    NX_CACHE_DIRECTORY: at('nx'),
    TURBO_TELEMETRY_DISABLED: '1',
  }
}
