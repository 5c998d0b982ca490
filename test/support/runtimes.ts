// Files of tests by the runtimes on which they run. All but test/edge/ run on Node. `npm test` runs some of them on
// workerd, `npm run test:hosts` fewer on Deno and Bun, and `npm run test:runtimes` everything that can run there.

/** Deno and Bun: the client, which reads and writes, and what the runtime itself does for the app. */
export const ON_SERVERS = [
  'test/client/client.test.ts',
  'test/people/events/stream.test.ts',
  'test/hosting/relay/tunnels.test.ts',
  'test/kernel/{broken-response,built-ins,crypto,guarded-fetch,health,raw-body,signing-keys}.test.ts',
  'test/kernel/zstd-frames.pure.test.ts',
]

/** Workerd: the tables of all routes, what the runtime itself does for the app, and a file of each slice. */
export const ON_EDGE = [
  'test/{openapi,security}.test.ts',
  'test/people/access/api-keys.test.ts',
  'test/client/client.test.ts',
  'test/tracing/datasets/clients.test.ts',
  'test/hosting/deployments/{crud,secrets,uploads}.test.ts',
  'test/people/events/stream.test.ts',
  'test/hosting/git-hosts/{githost,ssh}.test.ts',
  'test/kernel/{broken-response,built-ins,caller-limits,crypto,guarded-fetch,health,input}.test.ts',
  'test/kernel/{rate-limit,raw-body,signing-keys}.test.ts',
  'test/kernel/zstd-frames.pure.test.ts',
  'test/hosting/listeners/listeners.test.ts',
  'test/connect/mcp/protocol.test.ts',
  'test/connect/oauth/tokens.test.ts',
  'test/hosting/pushes/signed-body.test.ts',
  'test/tracing/queues/clients.test.ts',
  'test/people/sign-in/sessions.test.ts',
  'test/hosting/sync/{credentials,poll}.test.ts',
  'test/tracing/ingestion.test.ts',
  'test/tracing/ingest/otlp/export.test.ts',
  'test/connect/webhooks/signing.test.ts',
]

/** These files start a program on Node, or Chromium. */
const STARTS_PROGRAMS = {
  'test/cli/{apply,ci-login,commands,completion,connections,deploy,github-action,terminal,workspace}.test.ts':
    'start the command line as a process',
  'test/cli/mcp-proxy.test.ts': 'is about the command line, which runs on Node',
  'test/connect/mcp/clients.test.ts': 'starts the command line as an MCP server',
  'test/dashboard/screens/*.test.ts': 'start Chromium',
}

/** The project `programs`. */
export const PROGRAMS = Object.keys(STARTS_PROGRAMS)

/** Files that cannot run on a runtime, with the reason. */
export const EXCEPT = {
  deno: {
    ...STARTS_PROGRAMS,
    'test/cli/archive.pure.test.ts': 'has file names that are not UTF-8, which Deno decodes',
  },
  bun: STARTS_PROGRAMS,
  // Nothing outside of a Worker can connect to a server that is made in it, and it has neither processes nor `pg`.
  edge: {
    ...STARTS_PROGRAMS,
    'test/people/authorization-server/{issuer-keys,token-exchange}.test.ts': 'make an identity provider',
    'test/people/access/derivation.test.ts': 'makes an identity provider',
    'test/connect/models/{complete,hostile-upstreams,proxy,proxy-streams,test-call}.test.ts': 'make servers of models',
    'test/tracing/insights/{job-steps,jobs,model-jobs}.test.ts': 'make servers of models',
    'test/tracing/rules/{evaluators,online-evaluators}.test.ts': 'make servers of models',
    'test/tracing/rules/actions.test.ts': 'makes receivers of webhooks',
    'test/connect/webhooks/delivery-worker.test.ts': 'makes receivers of webhooks',
    'test/kernel/{instances,metrics-page}.test.ts': 'make servers',
    'test/tracing/ingest/otlp/exporters.test.ts': 'makes a server, and starts programs',
    'test/hosting/deployments/list.test.ts': 'connects to Postgres to hold a transaction open',
    'test/tracing/rules/evaluation.test.ts': 'connects to Postgres to hold a transaction open',
    'test/tracing/long-texts.test.ts': 'connects to Postgres to run one statement',
    'test/kernel/read-only.test.ts': 'connects to Postgres in transactions that may not write',
    'test/cli/installations.test.ts': 'starts the command line as a process',
    'test/kernel/fairness.test.ts': 'connects to Postgres to hold locks',
    'test/hosting/relay/tunnels.test.ts': 'makes a server',
    'test/hosting/sync/lock-order.test.ts': 'connects to Postgres to hold a transaction open',
  },
}
