// Which files of tests run on which runtime. All run on Node. `npm test` runs a chosen set on workerd, Deno and Bun,
// and `npm run test:runtimes` everything that can run there.

/** Their subject is a program for Node, which the test starts, or a browser, for which Chromium is started. */
const ABOUT_NODE_PROGRAMS = {
  'test/cli/{apply,ci-login,commands,completion,connections,deploy,github-action,terminal,workspace}.test.ts':
    'start the command line as a process',
  'test/mcp/clients.test.ts': 'starts the command line as an MCP server',
  'test/dashboard/screens/*.test.ts': 'start Chromium',
}

/** Files that cannot run on a runtime, with the reason. */
export const EXCEPT = {
  deno: ABOUT_NODE_PROGRAMS,
  bun: ABOUT_NODE_PROGRAMS,
  edge: ABOUT_NODE_PROGRAMS,
}
