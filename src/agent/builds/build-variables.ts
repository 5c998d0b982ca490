// The variables of install and build commands on each engine: where tools keep what the next build can use again, and
// how they behave in a build.
import { join } from 'node:path'
import type { BuildPlan } from '../../build-plan/build-plan.ts'
import { MAX_FILE_BYTES } from '../../build-plan/source-files.ts'
import { readInside } from '../system/files.ts'

/** The folder of the server of graphs, in that of the runtime. */
export const GRAPH_SERVER = 'graph-server'

type Folders = {
  /** The source on the machine of the agent. */
  source: string
  cache: string
  /** Programs and modules that the application needs as well when it runs. An image does not keep the cache. */
  runtime: string
}

/** The application gets them as well when it runs. */
export const runtimeVariables = ({ tools, kind }: BuildPlan, runtime: string): Record<string, string> => ({
  ...(tools.some(({ name }) => name === 'deno') && { DENO_DIR: join(runtime, 'deno') }),
  ...(kind === 'graphs' && { GRAPHS_RUNTIME: join(runtime, GRAPH_SERVER, 'graphs/runtimes') }),
})

/** `machine`: the variables of the agent's machine that commands may see. */
export const buildVariables = (
  plan: BuildPlan,
  { source, cache, runtime }: Folders,
  machine: Record<string, string>,
): Record<string, string> => ({
  ...machine,
  ...cacheVariables(cache),
  // Maven before 3.9 reads no MAVEN_ARGS.
  MAVEN_OPTS: [machine.MAVEN_OPTS, `-Dmaven.repo.local=${join(cache, 'maven')}`].filter(Boolean).join(' '),
  ...runtimeVariables(plan, runtime),
  UV_PYTHON_INSTALL_DIR: join(runtime, 'python'),
  // npm warns of settings that it does not know.
  ...(plan.tools.some(({ name }) => name === 'pnpm') && { npm_config_store_dir: join(cache, 'pnpm') }),
  ...scriptVariables(join(source, plan.install_root)),
})

/**
 * npm warns of each package with install scripts, and from version 12 on skips them. They run as the application's
 * user, as all its code does. A source with a list of its own decides itself.
 */
function scriptVariables(installRoot: string): Record<string, string> {
  const manifest = readInside(installRoot, 'package.json', MAX_FILE_BYTES)?.text ?? ''
  return manifest.includes('"allowScripts"') ? {} : { npm_config_dangerously_allow_all_scripts: 'true' }
}

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
    UV_CACHE_DIR: at('uv'),
    UV_LINK_MODE: 'copy',
    PIP_CACHE_DIR: at('pip'),
    GOMODCACHE: at('go/modules'),
    GOCACHE: at('go/build'),
    GOFLAGS: '-buildvcs=false -modcacherw',
    GOTELEMETRY: 'off',
    CARGO_HOME: at('cargo'),
    CARGO_TARGET_DIR: at('cargo-target'),
    GRADLE_USER_HOME: at('gradle'),
    MAVEN_USER_HOME: at('maven-home'),
    BUNDLE_USER_HOME: at('bundle'),
    COREPACK_HOME: at('corepack'),
    NX_CACHE_DIRECTORY: at('nx'),
    TURBO_TELEMETRY_DISABLED: '1',
  }
}
