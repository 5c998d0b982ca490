// Reads from the resources of a revision in which way its copies move. Pure.
import type { CompleteResourceSpec } from '../../../protocol/resources.schema.ts'
import { SCALE_TARGETS } from '../../../protocol/scaling.ts'
import type { Scaling } from './scaler.ts'

/** Null: they do not. `limit`: the most copies on this machine. `path`: where it is asked whether it may sleep. */
export function scalingOf(resources: CompleteResourceSpec, limit: number, path: string | null): Scaling | null {
  const { scale_metric: metric, scale_target, min_scale, max_scale, idle_seconds, frozen_seconds } = resources
  const [least, most] = [min_scale, max_scale].map(scale => Math.min(limit, Math.max(1, scale))) as [number, number]
  const rule =
    metric && metric !== 'fixed' && most > least
      ? { metric, target: scale_target ?? SCALE_TARGETS[metric], least, most }
      : null
  const sleep =
    min_scale === 0 && idle_seconds != null
      ? { idle_ms: idle_seconds * 1000, frozen_ms: (frozen_seconds ?? 0) * 1000, path }
      : null
  const amounts = { cpu: resources.cpu, memory_mb: resources.memory_mb }
  return rule || sleep ? { rule, sleep, amounts } : null
}
