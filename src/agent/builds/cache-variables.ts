// The folders in which the tools of all languages keep what the next build can use again.
import { join } from 'node:path'

export function cacheVariables(cache: string): Record<string, string> {
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
    MAVEN_ARGS: `-Dmaven.repo.local=${at('maven')}`,
    MAVEN_USER_HOME: at('maven-home'),
    BUNDLE_USER_HOME: at('bundle'),
    COREPACK_HOME: at('corepack'),
    NX_CACHE_DIRECTORY: at('nx'),
    TURBO_TELEMETRY_DISABLED: '1',
  }
}

/** Set for pnpm alone, because npm warns of settings that it does not know. */
export const pnpmVariables = (cache: string): Record<string, string> => ({
  npm_config_store_dir: join(cache, 'pnpm'),
})

/** Programs and modules that the application needs as well when it runs. An image does not keep the cache. */
export const runtimeCacheVariables = (cache: string): Record<string, string> => ({
  DENO_DIR: join(cache, 'deno'),
  UV_PYTHON_INSTALL_DIR: join(cache, 'python'),
})
