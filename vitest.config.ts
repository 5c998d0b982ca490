// The projects of the tests. `npm test` runs `pure` (functions), `node` (the app), `edge` (the app in workerd) and
// `architecture` (rules of the code). `npm run test:hosts` runs `host` (processes and servers), `programs` (the command
// line and the dashboard in a browser), `deno` and `bun` (the app on them). `containers` and `clickhouse` are apart.
import { availableParallelism, tmpdir } from 'node:os'
import { fileURLToPath } from 'node:url'
import { cloudflareTest } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'
import { LongestFirst } from './test/support/longest-first.ts'
import { useMemoryFolder } from './test/support/memory-folder.ts'
import { runtimePool } from './test/support/runtime-pool.ts'
import { EXCEPT, ON_EDGE, ON_SERVERS, PROGRAMS } from './test/support/runtimes.ts'

const app = [
  'test/*.test.ts',
  'test/{cli,client,kernel,protocol,people,hosting,connect,tracing,monitoring}/**/*.test.ts',
  'test/dashboard/screens/*.test.ts',
]
const architecture = ['test/architecture.test.ts', 'test/architecture/*.test.ts']
// Functions of values: no database, no network, no state that one file could leave to the next.
const pure = ['test/**/*.pure.test.ts']
const edge = ['test/edge/**/*.test.ts', ...ON_EDGE]
// The host uses modules of Node for these: the limits of its server, its storage, and the guard of foreign requests.
const hosts = ['test/host/{folder-storage,http-server,pinned-fetch}.test.ts']
// The seed is fixed unless FUZZ_SEED sets it, so that a run can be repeated. FUZZ_REQUESTS is the number of hostile
// requests in total. Workers have no process.env, so both are provided.
const fuzz = { seed: Number(process.env.FUZZ_SEED ?? 1), requests: Number(process.env.FUZZ_REQUESTS || 1_000) }
const isDeepFuzz = fuzz.requests >= 10_000
/** For `npm run test:runtimes`. */
const isEverything = process.env.RUNTIMES === 'all'
/** Provided to tests on workerd, Deno and Bun. Other runs try some there. */
const providedElsewhere = isEverything || isDeepFuzz ? {} : { tries: 'one route for each permission' as const }
// Node parses drizzle-orm's package.json of 175 kB again for each of its files: 0.8 s of CPU for each file of tests.
const server = { deps: { inline: ['drizzle-orm'] } }
// For the commands that tests start: they load the app, the agent or the command line each time.
const env = { NODE_COMPILE_CACHE: fileURLToPath(new URL('node_modules/.cache/compile', import.meta.url)) }
// Projects with the same aliases share the cache of what Vite transforms, so all but `edge` have the same.
const runtime = (name: string) => ({
  '#runtime': fileURLToPath(new URL(`test/support/${name}-runtime.ts`, import.meta.url)),
})

// Podman refuses a `runroot` of more than 50 characters, which one in the memory folder has.
const containers = { TMPDIR: tmpdir() }
useMemoryFolder()

declare module 'vitest' {
  interface ProvidedContext {
    fuzz: typeof fuzz
    /** The routes that tables of all routes try on this runtime. */
    tries: 'each route' | 'one route for each permission'
  }
}

export default defineConfig({
  test: {
    provide: { fuzz, tries: 'each route' },
    reporters: ['default', './test/support/reporter.ts'],
    testTimeout: isEverything ? 120_000 : 30_000,
    hookTimeout: 60_000,
    // The default of a second is too short on a busy machine. A test is longer, so that its poll says what is missing.
    expect: { poll: { timeout: 25_000 } },
    // Files wait for servers and processes as well as compute, those of `npm run test:hosts` most of all.
    maxWorkers: availableParallelism() + Number(process.env.EXTRA_WORKERS || 2),
    sequence: { sequencer: LongestFirst },
    // Workers keep many modules, so that a collection of garbage costs more than the memory between them.
    execArgv: ['--max-semi-space-size=64'],
    projects: [
      {
        plugins: [
          cloudflareTest({
            main: './src/host/workers.ts',
            miniflare: {
              compatibilityDate: '2026-11-01',
              compatibilityFlags: ['nodejs_compat'],
              r2Buckets: ['UPLOADS'],
              ratelimits: { RATE_LIMITER: { namespace_id: '1', simple: { limit: 3, period: 60 } } },
            },
          }),
        ],
        resolve: { alias: runtime('edge') },
        test: {
          name: 'edge',
          provide: providedElsewhere,
          include: isEverything ? [...app, ...edge] : isDeepFuzz ? [...edge, 'test/fuzz.test.ts'] : edge,
          exclude: [...pure, ...(isEverything ? [...architecture, ...Object.keys(EXCEPT.edge)] : [])],
          globalSetup: 'test/support/setup.ts',
          setupFiles: 'test/support/reset-files.ts',
          isolate: false,
        },
      },
      {
        resolve: { alias: runtime('server') },
        test: {
          name: 'node',
          include: [...app, 'test/graphs/**/*.test.ts'],
          exclude: [...architecture, ...pure, ...PROGRAMS],
          globalSetup: 'test/support/setup.ts',
          setupFiles: 'test/support/reset-files.ts',
          isolate: false,
          env,
          server,
        },
      },
      {
        resolve: { alias: runtime('server') },
        test: {
          name: 'programs',
          include: PROGRAMS,
          globalSetup: ['test/support/setup.ts', 'test/support/built-dashboard.ts'],
          setupFiles: 'test/support/reset-files.ts',
          isolate: false,
          env,
          server,
        },
      },
      ...(['deno', 'bun'] as const).map(name => ({
        resolve: { alias: runtime('server') },
        test: {
          name,
          provide: providedElsewhere,
          include: [...hosts, ...(isEverything ? [...app, ...pure] : ON_SERVERS)],
          exclude: [...architecture, ...Object.keys(EXCEPT[name])],
          globalSetup: ['test/support/setup.ts', 'test/support/built-dashboard.ts'],
          setupFiles: 'test/support/reset-files.ts',
          isolate: false,
          pool: runtimePool(name),
          server,
        },
      })),
      { resolve: { alias: runtime('server') }, test: { name: 'pure', include: pure, isolate: false, server } },
      // Processes, ports and signals, on a machine that may be busy.
      {
        resolve: { alias: runtime('server') },
        test: {
          name: 'host',
          include: ['test/{host,agent}/**/*.test.ts'],
          exclude: pure,
          globalSetup: ['postgres-template', 'dev-installation', 'built-dashboard'].map(
            name => `test/support/${name}.ts`,
          ),
          setupFiles: ['test/support/compile-cache.ts', 'test/support/reset-files.ts'],
          isolate: false,
          env,
          server,
          testTimeout: 120_000,
          hookTimeout: 120_000,
        },
      },
      // Traces in ClickHouse, by the tests of the store on Postgres. The engine runs one statement at a time, so that
      // files run one after the other.
      {
        resolve: { alias: runtime('server') },
        test: {
          name: 'clickhouse',
          fileParallelism: false,
          testTimeout: 120_000,
          hookTimeout: 120_000,
          include: [
            'test/tracing/*.test.ts',
            'test/tracing/{ingest,runs,rules}/**/*.test.ts',
            'test/hosting/logs/log-search.test.ts',
          ],
          exclude: pure,
          globalSetup: ['test/support/setup.ts', 'test/support/clickhouse.ts'],
          setupFiles: 'test/support/reset-files.ts',
          isolate: false,
          env,
          server,
        },
      },
      // One file at a time: engines side by side would take the same networks. Podman takes seconds to give up.
      {
        test: {
          name: 'containers',
          include: ['test/containers/**/*.test.ts'],
          fileParallelism: false,
          testTimeout: 240_000,
          hookTimeout: 240_000,
          globalSetup: 'test/support/container-tools.ts',
          env: containers,
          server,
        },
      },
      {
        resolve: { alias: runtime('server') },
        test: { name: 'architecture', include: architecture, isolate: false, server },
      },
    ],
  },
})
