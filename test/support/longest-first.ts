// Starts the files that take longest first, so that none of them runs alone at the end.
import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take over ten seconds, the longest first. */
const LONGEST = [
  'test/host/docs.test.ts',
  'test/agent/agent.test.ts',
  'test/host/cli.test.ts',
  'test/agent/process-engine.test.ts',
  'test/people/access/permission-matrix.test.ts',
  'test/request-cost.test.ts',
  'test/dashboard/screens/traces.test.ts',
  'test/dashboard/screens/people.test.ts',
  'test/dashboard/screens/datasets.test.ts',
  'test/agent/process-databases.test.ts',
  'test/dashboard/screens/new.test.ts',
  'test/dashboard/screens/connect.test.ts',
  'test/host/faults.test.ts',
  'test/host/dev.test.ts',
  'test/people/access/policy-isolation.test.ts',
  'test/dashboard/screens/change.test.ts',
  'test/host/kit/agents-without-engine.test.ts',
  'test/agent/crash-recovery.test.ts',
  'test/host/row-level-security.test.ts',
  'test/agent/builds.test.ts',
  'test/cli/commands.test.ts',
  'test/dashboard/screens/deployments.test.ts',
  'test/hosting/pushes/githost-deliveries.test.ts',
  'test/host/gateway.test.ts',
  'test/host/sign-in-browser.test.ts',
  'test/isolation-row-security.test.ts',
  'test/cli/deploy.test.ts',
  'test/cli/github-action.test.ts',
  'test/host/embedded-postgres.test.ts',
  'test/agent/kubernetes/failures.test.ts',
  'test/hosting/pushes/preview-notifications.test.ts',
  'test/dashboard/screens/time.test.ts',
  'test/hosting/deployments/uploads.test.ts',
  'test/host/start.test.ts',
  'test/dashboard/screens/logs.test.ts',
  'test/agent/kubernetes/engine.test.ts',
  'test/dashboard/screens/hostile.test.ts',
  'test/hosting/deployments/uploads-s3.test.ts',
  'test/host/list-query-plan.test.ts',
]

const rank = ({ moduleId }: TestSpecification) => {
  const index = LONGEST.indexOf(relative(process.cwd(), moduleId))
  return index < 0 ? LONGEST.length : index
}

/** Files of a project share workers, but a worker ends when the next file is of another project. */
const PROJECTS = ['programs', 'node', 'edge', 'deno', 'bun', 'host', 'pure']
const rankGroup = (file: TestSpecification) => {
  const { name } = file.project
  if (name === 'host' && rank(file) < LONGEST.length) return 0
  return 1 + (PROJECTS.indexOf(name) + 1 || 1 + PROJECTS.length)
}

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]) {
    return (await super.sort(files)).sort((a, b) => rankGroup(a) - rankGroup(b) || rank(a) - rank(b))
  }
}
