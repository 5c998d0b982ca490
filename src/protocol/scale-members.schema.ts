// Members of ResourceSpec that say in which way the number of copies moves.
import * as z from 'zod'
import { omitNulls } from './kubernetes.schema.ts'
import { MAX_SCALE_TARGET, processMetrics, QUEUE_PATH, SCALE_TARGETS, scaleMetrics } from './scaling.ts'
import { boundedText } from './wire.ts'

/** A typing error must not make an agent start a hundred thousand processes. */
export const Scale = z.int().min(0).max(1000)

const Target = z.int().min(1).max(MAX_SCALE_TARGET)
const QueuePath = boundedText(1024)
  .regex(/^\/[!-~]*$/, { error: 'must be a path that begins with /' })
  .meta({
    description:
      'With `queue`: the path at which `web` answers a number, the tasks that wait in the whole queue. Default: ' +
      `\`${QUEUE_PATH}\`.`,
  })

/** The copies of `web` move by these between `min_scale` and `max_scale`. */
export const scaleMembers = {
  scale_metric: z.enum(scaleMetrics).meta({
    description:
      'By what the copies of `web` move from `min_scale` to `max_scale`: `concurrency` (requests in flight per ' +
      'copy), `requests` (a second), `cpu` or `memory` (percent of `cpu` or `memory_mb`), `queue` (tasks that wait). ' +
      '`fixed`: they do not move. Default: `concurrency`, on Kubernetes `cpu`.',
  }),
  scale_target: Target.meta({ description: `What one copy should carry. Default: ${listTargets()}.` }),
  scale_path: QueuePath,
  idle_seconds: z
    .int()
    .min(10)
    .max(86_400)
    .meta({
      description:
        'With a `min_scale` of 0: the copies of `web` stop after so many seconds without a request, and the next ' +
        'request starts one and waits for it. Absent: one copy keeps running.',
    }),
  frozen_seconds: z
    .int()
    .min(0)
    .max(86_400)
    .meta({
      description:
        'So many seconds of a sleep its copies stand still with their memory, from which they wake in ' +
        'milliseconds, before they are stopped. Default: 0.',
    }),
}
function listTargets(): string {
  const all = Object.entries(SCALE_TARGETS).map(([metric, target]) => `${target} of \`${metric}\``)
  return `${all.slice(0, -1).join(', ')} and ${all.at(-1)}`
}

/** Null members are left out, as those of ResourceSpec are. */
export const ProcessScaling = z
  .strictObject({
    min_scale: Scale,
    max_scale: Scale,
    scale_metric: z.enum(processMetrics),
    scale_target: Target.nullish(),
    scale_path: QueuePath.nullish(),
  })
  .superRefine(({ min_scale, max_scale, scale_metric, scale_path }, check) => {
    const refuse = (path: string, message: string) => check.addIssue({ code: 'custom', path: [path], message })
    if (max_scale < Math.max(1, min_scale)) refuse('max_scale', 'must be at least 1 and at least `min_scale`')
    if (scale_metric === 'queue') return
    if (min_scale === 0)
      refuse('min_scale', 'must be at least 1: without a copy there is no load, except that of `queue`')
    if (scale_path != null) refuse('scale_path', 'is of `scale_metric` `queue` alone')
  })
  .overwrite(omitNulls)
export type ProcessScaling = z.output<typeof ProcessScaling>
