// Starts the files that take longest first, so that no worker is left alone with one of them at the end.
import { relative } from 'node:path'
import { BaseSequencer, type TestSpecification } from 'vitest/node'

/** Over ten seconds each, the longest first. */
const LONGEST = [
  'test/agent/agent.test.ts',
  'test/agent/process-databases.test.ts',
  'test/agent/crash-recovery.test.ts',
  'test/agent/process-engine.test.ts',
  'test/host/kit/agents-without-engine.test.ts',
  'test/host/dev.test.ts',
  'test/host/kit/process-engine.test.ts',
  'test/host/docs.test.ts',
  'test/host/node.test.ts',
  'test/agent/retained-outputs.test.ts',
  'test/agent/builds.test.ts',
  'test/host/scripts.test.ts',
  'test/host/chaos.test.ts',
  'test/agent/failure-policy.test.ts',
  'test/host/embedded-postgres.test.ts',
  'test/request-cost.test.ts',
  'test/fuzz.test.ts',
  'test/deployments/revision-queue.test.ts',
  'test/pushes/deliveries.test.ts',
  'test/oauth/flow.test.ts',
  'test/deployments/list.test.ts',
]

const rank = ({ moduleId }: TestSpecification) => {
  const index = LONGEST.indexOf(relative(process.cwd(), moduleId))
  return index < 0 ? LONGEST.length : index
}

export class LongestFirst extends BaseSequencer {
  override async sort(files: TestSpecification[]) {
    return (await super.sort(files)).sort((a, b) => rank(a) - rank(b))
  }
}
