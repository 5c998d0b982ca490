// The pure cores that `npm run mutation` measures: their files, and the tests that may reach them.
export type Core = { name: string; files: string[]; tests: string[] }

export const cores: Core[] = [
  {
    name: 'access',
    files: ['src/kernel/permissions.ts', 'src/kernel/access-scopes.ts', 'src/access/built-in-roles.ts'],
    tests: ['test/kernel/access-scopes', 'test/access/built-in-roles'],
  },
  {
    name: 'plan',
    files: ['src/deployments/plan.ts', 'src/deployments/plan-warnings.ts', 'src/deployments/source-rules.ts'],
    tests: ['plan-rules', 'source-rules'].map(name => `test/deployments/${name}`),
  },
  {
    name: 'lifecycle',
    files: ['src/deployments/lifecycle.ts'],
    tests: ['test/deployments/lifecycle'],
  },
  {
    name: 'list',
    files: ['src/deployments/list.ts', 'src/kernel/paging.ts'],
    tests: [
      'test/deployments/list',
      'test/deployments/summary',
      'test/kernel/paging',
      'test/access/policy-enforcement',
    ],
  },
  {
    name: 'discovery',
    files: [
      'src/protocol/guarded-address.ts',
      ...['authorization-server', 'metadata-documents', 'mcp-discovery', 'mcp-probe'].map(
        name => `src/oauth/${name}.ts`,
      ),
    ],
    tests: [
      'test/protocol/guarded-address',
      ...['challenges', 'client-registration', 'discovery-boundaries', 'mcp-discovery'].map(
        name => `test/oauth/${name}`,
      ),
    ],
  },
  {
    name: 'agent',
    files: ['plan', 'failure-policy', 'report'].map(name => `src/agent/reconcile/${name}.ts`),
    tests: ['plan', 'report-outcome', 'report-facts', 'failure-decisions'].map(name => `test/agent/${name}`),
  },
]
