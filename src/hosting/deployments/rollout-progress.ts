// The rollout of a deployment and of a revision, as their answers tell them. Pure.
import { toIsoTime } from '../../kernel/db/rows.ts'
import { MASK } from '../../protocol/parts.schema.ts'
import type { RevisionRollout, Rollout, RolloutProgress, StoredRollout } from '../../protocol/rollout.schema.ts'
import type { TrafficRow } from './traffic-shares.ts'

/** A stored answer of an earlier release has neither. */
type RolloutRow = { rollout?: StoredRollout | null; rollout_secret?: string | null }

export function rolloutToWire({ rollout, rollout_secret }: RolloutRow): Rollout | null {
  if (!rollout) return null
  const { steps, gates } = rollout
  const secret = rollout_secret == null ? null : MASK
  return { steps, gates: { ...gates, webhook: gates.webhook && { url: gates.webhook.url, secret } } }
}

/** Null: no policy moves the share of a revision in flight. */
export function progressOf({ traffic, applied_traffic }: Partial<TrafficRow>): RolloutProgress | null {
  const beside = traffic?.beside
  if (!beside?.revision_id || !beside.rollout) return null
  const { step, since, paused, passed, policy, asked = [] } = beside.rollout
  const reported = applied_traffic?.revision_id === beside.revision_id ? applied_traffic.rollout : null
  const judged = reported?.step === step ? reported : null
  return {
    revision_id: beside.revision_id,
    step,
    share: beside.share,
    since: toIsoTime(since),
    paused,
    is_passed: passed,
    judged_since: judged?.since ?? null,
    requests: judged?.requests ?? null,
    gates: [...(judged?.gates ?? []), ...asked],
    steps: policy.steps,
  }
}

export const revisionRolloutToWire = (rollout: RevisionRollout | null | undefined): RevisionRollout | null =>
  rollout
    ? {
        steps: rollout.steps.map(step => ({ ...step, since: toIsoTime(step.since), until: toIsoTime(step.until) })),
        failure: rollout.failure && {
          ...rollout.failure,
          since: toIsoTime(rollout.failure.since),
          at: toIsoTime(rollout.failure.at),
        },
      }
    : null
