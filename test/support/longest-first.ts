// Starts the files that take longest first, so that none of them runs alone at the end.
import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Files that take over ten seconds, the longest of each project first. */
const LONGEST = [
  'test/host/docs.test.ts',
  'test/agent/agent.test.ts',
  'test/agent/process-backups.test.ts',
  'test/host/faults.test.ts',
  'test/agent/process-engine.test.ts',
  'test/agent/process-databases.test.ts',
  'test/agent/kubernetes/engine.test.ts',
  'test/agent/disks.test.ts',
  'test/host/pushes.test.ts',
  'test/agent/database-copies.test.ts',
  'test/agent/bucket-backups.test.ts',
  'test/host/reseal.test.ts',
  'test/host/scripts.test.ts',
  'test/host/migrate.test.ts',
  'test/host/dev.test.ts',
  'test/agent/scaling.test.ts',
  'test/host/backup.test.ts',
  'test/host/start.test.ts',
  'test/host/cli.test.ts',
  'test/agent/terminals.test.ts',
  'test/agent/kubernetes/agent.test.ts',
  'test/agent/builds.test.ts',
  'test/agent/tools.test.ts',
  'test/agent/retained-outputs.test.ts',
  'test/host/s3.test.ts',
  'test/agent/users.test.ts',
  'test/agent/crash-recovery.test.ts',
  'test/host/kit/agents-without-engine.test.ts',
  'test/host/row-level-security.test.ts',
  'test/host/gateway.test.ts',
  'test/host/sign-in-browser.test.ts',
  'test/host/embedded-postgres.test.ts',
  'test/agent/kubernetes/failures.test.ts',
  'test/host/list-query-plan.test.ts',
  'test/people/access/permission-matrix.test.ts',
  'test/request-cost.test.ts',
  'test/people/access/policy-isolation.test.ts',
  'test/isolation-row-security.test.ts',
  'test/hosting/pushes/githost-deliveries.test.ts',
  'test/hosting/pushes/preview-notifications.test.ts',
  'test/hosting/deployments/uploads.test.ts',
  'test/hosting/deployments/uploads-s3.test.ts',
  'test/dashboard/screens/people.test.ts',
  'test/dashboard/screens/traces.test.ts',
  'test/dashboard/screens/new.test.ts',
  'test/dashboard/screens/datasets.test.ts',
  'test/cli/commands.test.ts',
  'test/cli/deploy.test.ts',
  'test/dashboard/screens/connect.test.ts',
  'test/dashboard/screens/change.test.ts',
  'test/dashboard/screens/deployments.test.ts',
  'test/dashboard/screens/time.test.ts',
  'test/dashboard/screens/logs.test.ts',
  'test/dashboard/screens/hostile.test.ts',
  'test/cli/github-action.test.ts',
]

const rank = ({ moduleId }: TestSpecification) => {
  const index = LONGEST.indexOf(relative(process.cwd(), moduleId))
  return index < 0 ? LONGEST.length : index
}

/** Files of a project share workers, and a worker ends when the next file is of another project. */
const PROJECTS = ['host', 'node', 'edge', 'programs', 'pure', 'architecture', 'clickhouse', 'containers']
/** Each of their workers loads the whole app anew, for files that take a second or two. Those of `edge` take longer. */
const RUNTIMES = ['deno', 'bun']
const ofProject = (projects: string[]) => (file: TestSpecification) => projects.indexOf(file.project.name)

export class LongestFirst extends BaseSequencer {
  /** So that one worker starts for a runtime, its files come while the longest of other projects take the rest. */
  override async sort(files: TestSpecification[]) {
    const sorted = (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
    const [isOf, isRuntime] = [ofProject(PROJECTS), ofProject(RUNTIMES)]
    const runtimes = sorted.filter(file => isRuntime(file) >= 0).sort((a, b) => isRuntime(a) - isRuntime(b))
    const others = sorted.filter(file => isRuntime(file) < 0).sort((a, b) => isOf(a) - isOf(b))
    const workers = Math.max(Number(this.ctx.config.maxWorkers) - 1, 0)
    return [...others.slice(0, workers), ...runtimes, ...others.slice(workers)]
  }
}
