// Reads from a revision in which way the copies of its processes move. Pure.
import type { CompleteResourceSpec } from '../../../protocol/resources.schema.ts'
import { QUEUE_PATH, SCALE_TARGETS } from '../../../protocol/scaling.ts'
import type { RunningType } from '../process-types.ts'
import type { Moving } from './load-window.ts'
import type { Scaling } from './scaler.ts'

/** Null: they do not. `limit`: the most copies on this machine. `path`: where it is asked whether it may sleep. */
export function scalingOf(resources: CompleteResourceSpec, limit: number, path: string | null): Scaling | null {
  const { scale_metric: metric, scale_target, scale_path, min_scale, max_scale } = resources
  const { idle_seconds, frozen_seconds } = resources
  const [least, most] = [min_scale, max_scale].map(scale => Math.min(limit, Math.max(1, scale))) as [number, number]
  const rule =
    metric && metric !== 'fixed' && most > least
      ? { metric, target: scale_target ?? SCALE_TARGETS[metric], least, most, path: scale_path ?? QUEUE_PATH }
      : null
  const sleep =
    min_scale === 0 && idle_seconds != null
      ? { idle_ms: idle_seconds * 1000, frozen_ms: (frozen_seconds ?? 0) * 1000, path }
      : null
  const amounts = { cpu: resources.cpu, memory_mb: resources.memory_mb }
  return rule || sleep ? { rule, sleep, amounts } : null
}

/** Null: the copies of this process do not move. `copies`: the least that there is room for on this machine. */
export function movingOf({ scaling, cpu, memory_mb }: RunningType, copies: number, limit: number): Moving | null {
  const most = scaling ? Math.min(limit, scaling.max_scale) : 0
  if (!scaling || most <= copies) return null
  const { scale_metric: metric, scale_target, scale_path } = scaling
  const target = scale_target ?? SCALE_TARGETS[metric]
  return {
    rule: { metric, target, least: copies, most, path: scale_path ?? QUEUE_PATH },
    amounts: { cpu: cpu[0], memory_mb: memory_mb[0] },
  }
}
