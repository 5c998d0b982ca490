// Lines of a build or a run, as an agent sends them.
import * as z from 'zod'
import { AgentId, Fence, MAX_INT32 } from './sync-fields.schema.ts'
import { arrayOf, Instant, Uuid } from './wire.ts'

export const levels = ['DEBUG', 'INFO', 'WARNING', 'ERROR', 'CRITICAL'] as const

export const MAX_BATCH_LINES = 1000
export const LogBatch = z
  .object({
    agent_id: AgentId,
    fence: Fence,
    deployment_id: Uuid,
    revision_id: Uuid.meta({ description: 'Whose build or run it is.' }),
    kind: z.enum(['build', 'deploy']).meta({ description: '`deploy` is all that it says once it is built.' }),
    stream: Uuid.meta({
      description: 'Made by the agent, anew whenever it no longer knows the number of its next line.',
    }),
    from: z
      .int()
      .min(0)
      .max(MAX_INT32 - MAX_BATCH_LINES)
      .meta({
        description:
          'The number of the first line within the stream, from 0 on. Lines that were received before are passed over.',
      }),
    lines: arrayOf(
      z.object({
        timestamp: Instant,
        level: z.enum(levels),
        message: z.string().meta({ description: 'Longer ones are cut at 16 KiB.' }),
      }),
      MAX_BATCH_LINES,
      1,
    ),
  })
  .meta({
    id: 'LogBatch',
    description: 'Lines of one log, in their order.',
    example: {
      agent_id: 'agent-1',
      fence: 1,
      deployment_id: '8f14e45f-ceea-467f-9b5a-3b1c0a5c9d11',
      revision_id: '45c48cce-2e2d-4fbd-8a1a-c51c7c6ad26a',
      kind: 'build',
      stream: '6512bd43-d9ca-4a6e-8c99-2adbb0b2d0e1',
      from: 0,
      lines: [{ timestamp: '2026-11-21T12:00:00.000Z', level: 'INFO', message: 'Cloning …' }],
    },
  })
export type LogBatch = z.output<typeof LogBatch>
export const LogReceipt = z
  .object({ next: z.int().meta({ description: 'The number of the line to send next in this stream.' }) })
  .meta({ id: 'LogReceipt' })
