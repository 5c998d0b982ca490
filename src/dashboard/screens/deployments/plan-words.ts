// A plan in words and rows (pure).
import { flattenChanges } from '../../../client/changes.ts'
import type { Plan as PlanOf } from '../../../client/client.ts'
import { isInFlight, type Revision, type Tone } from '../../format/state.ts'

export type Plan = PlanOf<'PATCH /v2/deployments/{deployment_id}'>
export type PlanRow = {
  path: string
  before: unknown
  after: unknown
  effect: Plan['changes'][number]['effect']
  /** A secret has no values to show. */
  secret?: Plan['secrets'][number]['change']
}

export const EFFECTS: Record<PlanRow['effect'], [word: string, tone: Tone]> = {
  in_place: ['In place', 'idle'],
  revision: ['New revision', 'busy'],
  immutable: ['Cannot change', 'bad'],
}

/** Secrets one by one, by name only. */
export const listRows = ({ changes, secrets }: Plan): PlanRow[] => [
  ...flattenChanges(changes.filter(({ path }) => path !== 'secrets')),
  ...secrets.map(({ name, change }) => ({
    path: `secrets.${name}`,
    before: null,
    after: null,
    effect: 'revision' as const,
    secret: change,
  })),
]

export const isWithoutChange = ({ changes, creates_revision }: Plan): boolean =>
  changes.length === 0 && !creates_revision

const nextNumber = (revisions: Pick<Revision, 'number'>[]): number => (revisions[0]?.number ?? 0) + 1

type Listed = Pick<Revision, 'id' | 'number' | 'status'>

/** Describes the effect of a plan on revisions. `revisions` are the last ones, newest first. */
export function describeEffect(plan: Plan, revisions: Listed[], active: string | null): string {
  if (isWithoutChange(plan)) return 'No changes.'
  if (!plan.creates_revision) return 'Takes effect in place, without a new revision.'
  const inFlight = revisions.findLast(isInFlight)
  const waiting = revisions.filter(revision => isInFlight(revision) && revision !== inFlight)
  const serving = revisions.find(({ id }) => id === active)
  const sentences = [
    `Creates r${nextNumber(revisions)}${inFlight ? `, which waits for r${inFlight.number}` : ''}.`,
    ...waiting.map(({ number }) => `r${number}, which waits too, is skipped.`),
    active === null
      ? 'The deployment does not serve until it is healthy.'
      : `${serving ? `r${serving.number}` : 'The serving revision'} serves until it is healthy.`,
  ]
  return sentences.join(' ')
}

export const describeApply = (verb: string, plan: Plan, revisions: Pick<Revision, 'number'>[]): string =>
  plan.creates_revision ? `${verb}: create r${nextNumber(revisions)}` : `${verb} in place`
