// What runs at the edge is tested on plain Node, and in workerd where the runtime matters; what hosts it, on Node; the
// rules of the code, bare. What needs container tools is a project of its own, apart from `npm test`.
import { availableParallelism } from 'node:os'
import { fileURLToPath } from 'node:url'
import { cloudflareTest } from '@cloudflare/vitest-plugin'
import { defineConfig } from 'vitest/config'

const shared = [
  'test/*.test.ts',
  'test/{access,kernel,protocol,integrations,listeners,deployments,oauth,pushes,sync}/**/*.test.ts',
]
// What passes today passes tomorrow: a run has the same seed, unless FUZZ_SEED says another. FUZZ_REQUESTS is how many bad ones each route
// gets. Workers have no process.env, so it is handed to them.
const fuzz = { seed: Number(process.env.FUZZ_SEED ?? 1), each: Number(process.env.FUZZ_REQUESTS ?? 0) || null }
const bare = ['test/architecture.test.ts', 'test/architecture/*.test.ts']
// What is the same in workerd as on Node, because the database decides it, is tried on Node alone.
const onNodeAlone = [
  'test/isolation-row-security.test.ts',
  'test/access/{members,organization,permission-matrix,races,roles,url-inputs}.test.ts',
  'test/protocol/*.test.ts',
  'test/kernel/{env,faults,journal,paging,rows,statement}.test.ts',
  'test/deployments/{command-permission,concurrent-requests,explain,lifecycle,list,patch,plan,query-schemas,quotas}.test.ts',
  'test/deployments/{resources,revision-queue,revisions,schema,source-rules,sweep,tags,tenant-isolation}.test.ts',
  'test/oauth/{discovery-failures,provider-deletion,provider-owners,provider-races,provider-recheck,providers}.test.ts',
  'test/pushes/{notify,previews,pushes,webhook-payloads,worker-pool}.test.ts',
  'test/sync/{report,revision-transitions}.test.ts',
]
const runtime = (name: string) => ({
  '#runtime': fileURLToPath(new URL(`test/support/${name}-runtime.ts`, import.meta.url)),
})

declare module 'vitest' {
  interface ProvidedContext {
    fuzz: typeof fuzz
  }
}

export default defineConfig({
  test: {
    provide: { fuzz },
    reporters: ['default', './test/support/reporter.ts'],
    testTimeout: 30_000,
    hookTimeout: 60_000,
    // What comes about soon comes about later on a machine that is busy.
    expect: { poll: { timeout: 15_000 } },
    // Files have a database each, and wait for servers and processes more than they compute.
    maxWorkers: Math.max(2, availableParallelism() - 1),
    projects: [
      {
        plugins: [
          cloudflareTest({
            main: './src/worker.ts',
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
          include: [...shared, 'test/edge/**/*.test.ts'],
          // No clock moves there while it computes, so cost is measured on Node.
          exclude: [...bare, ...onNodeAlone, 'test/request-cost.test.ts'],
          globalSetup: 'test/support/setup.ts',
        },
      },
      {
        resolve: { alias: runtime('node') },
        test: { name: 'node', include: shared, exclude: bare, globalSetup: 'test/support/setup.ts' },
      },
      // Processes, ports and signals on a machine that may be busy: there is time, what never comes about says so itself before that is
      // over, and a failure counts when it is seen twice.
      {
        test: {
          ...{ name: 'host', include: ['test/{host,agent}/**/*.test.ts'] },
          ...{ retry: 1, testTimeout: 120_000, hookTimeout: 120_000 },
        },
      },
      // One after the other: engines side by side take the same networks. Podman alone waits for seconds before it gives something up.
      {
        test: {
          ...{ name: 'containers', include: ['test/containers/**/*.test.ts'], fileParallelism: false },
          ...{ testTimeout: 240_000, hookTimeout: 240_000, globalSetup: 'test/support/container-tools.ts' },
        },
      },
      { test: { name: 'architecture', include: ['test/architecture.test.ts', 'test/architecture/*.test.ts'] } },
    ],
  },
})
