// The pure cores that `npm run mutation` measures: their files, and the tests that may reach them.
export type Core = { id: string; files: string[]; tests: string[] }

/** Several are measured at once, so those that take longest come first. */
export const cores: Core[] = [
  {
    id: 'discovery',
    files: [
      'src/protocol/guarded-address.ts',
      ...['authorization-server', 'metadata-documents', 'mcp-discovery', 'mcp-probe'].map(
        name => `src/connect/oauth/${name}.ts`,
      ),
    ],
    tests: [
      'test/protocol/guarded-address.pure',
      ...['challenges', 'client-registration', 'discovery-boundaries'].map(name => `test/connect/oauth/${name}.pure`),
      'test/connect/oauth/mcp-discovery',
    ],
  },
  {
    id: 'plan',
    files: [
      'src/hosting/deployments/plan.ts',
      'src/hosting/deployments/plan-warnings.ts',
      'src/hosting/deployments/source-rules.ts',
    ],
    tests: ['plan-rules.pure', 'source-rules.pure', 'patch-plan'].map(name => `test/hosting/deployments/${name}`),
  },
  {
    id: 'agent',
    files: ['plan', 'failure-policy', 'report'].map(name => `src/agent/reconcile/${name}.ts`),
    tests: ['plan', 'report-outcome', 'report-facts', 'failure-decisions'].map(name => `test/agent/${name}.pure`),
  },
  {
    id: 'list',
    files: ['src/hosting/deployments/list.ts', 'src/kernel/http/paging.ts'],
    tests: [
      'test/hosting/deployments/list',
      'test/hosting/deployments/summary',
      'test/kernel/paging',
      'test/people/access/policy-enforcement',
    ],
  },
  {
    id: 'access',
    files: ['src/kernel/permissions.ts', 'src/kernel/access-scopes.ts', 'src/people/access/built-in-roles.ts'],
    tests: ['test/kernel/access-scopes.pure', 'test/people/access/built-in-roles.pure'],
  },
  {
    id: 'lifecycle',
    files: ['src/hosting/deployments/lifecycle.ts'],
    tests: ['test/hosting/deployments/lifecycle.pure'],
  },
]
