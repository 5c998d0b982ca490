// The steps that a revision may take. Functions of the database take them: lifecycle.test.ts compares.
import type { RevisionStatus, Source } from '../../src/protocol/parts.schema.ts'

export const builtSources: Source[] = ['githost', 'internal_source']
const STEPS_WITH_BUILD = [
  'CREATING>CREATE_FAILED CREATING>SKIPPED CREATING>INTERRUPTED',
  'QUEUED>AWAITING_BUILD QUEUED>SKIPPED QUEUED>INTERRUPTED',
  'AWAITING_BUILD>BUILDING AWAITING_BUILD>BUILD_FAILED AWAITING_BUILD>INTERRUPTED',
  'BUILDING>AWAITING_DEPLOY BUILDING>BUILD_FAILED BUILDING>INTERRUPTED',
  'AWAITING_DEPLOY>DEPLOYING AWAITING_DEPLOY>DEPLOY_FAILED AWAITING_DEPLOY>INTERRUPTED',
  'DEPLOYING>DEPLOYED DEPLOYING>DEPLOY_FAILED DEPLOYING>INTERRUPTED DEPLOYING>UNKNOWN',
  'UNKNOWN>DEPLOYED UNKNOWN>DEPLOY_FAILED',
].flatMap(line => line.split(' '))
const STEPS_WITHOUT_BUILD = STEPS_WITH_BUILD.filter(step => !step.includes('BUILD')).concat('QUEUED>AWAITING_DEPLOY')

export const stepsOf = (source: Source): string[] =>
  builtSources.includes(source) ? STEPS_WITH_BUILD : STEPS_WITHOUT_BUILD
export const canFollow = (source: Source, from: RevisionStatus, to: RevisionStatus): boolean =>
  stepsOf(source).includes(`${from}>${to}`)
