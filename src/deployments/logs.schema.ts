// What crosses the wire of logs.
import * as z from 'zod'
import { levels } from '../protocol/logs.schema.ts'
import { boundedText, Instant } from '../protocol/wire.ts'

/** From the least to the most severe. */
const Level = z.enum(levels)
export type Level = z.output<typeof Level>

/** Where a page ended: the last line's time, revision and number, opaque to whoever carries it. */
const LogOffset = boundedText(160).transform((offset, check) => {
  const [at, revision_id, number, ...rest] = Buffer.from(offset, 'base64url').toString().split('~')
  const parsed = z
    .object({
      at: z.iso.datetime({ offset: true }),
      revision_id: z.uuid(),
      number: z.coerce
        .number()
        .int()
        .min(0)
        .max(2 ** 31 - 1),
    })
    .safeParse({ at, revision_id, number })
  if (parsed.success && rest.length === 0) return parsed.data
  check.addIssue({ code: 'custom', message: 'is not a `next_offset` that an answer gave' })
  return z.NEVER
})

export const LogQuery = z
  .object({
    limit: z.int().min(1).max(1000).nullish().meta({ description: 'The most lines to return; 100 unless told.' }),
    order: z.enum(['asc', 'desc']).nullish().meta({ description: 'By time: `asc` unless told.' }),
    offset: LogOffset.nullish().meta({ type: 'string', description: 'The `next_offset` of the previous answer.' }),
    level: boundedText(16)
      .toUpperCase()
      .pipe(Level)
      .nullish()
      .meta({ description: 'Lines of this level and more severe ones, in either case.' }),
    query: boundedText(1000).nullish().meta({ description: 'A part of the message, in either case, taken literally.' }),
    start_time: Instant.nullish().meta({ description: 'From this time on.' }),
    end_time: Instant.nullish().meta({ description: 'Before this time.' }),
  })
  .meta({ id: 'LogQuery', description: 'Which lines of a log.', example: { limit: 100, order: 'desc' } })
export type LogQuery = z.output<typeof LogQuery>

const LogLine = z
  .object({
    id: z.string().meta({ description: 'The line’s own, as long as the log is.' }),
    timestamp: z.iso.datetime(),
    level: Level,
    message: z.string(),
  })
  .meta({ id: 'LogLine' })
export type LogLine = z.output<typeof LogLine>

export const LogPage = z
  .object({
    logs: z.array(LogLine),
    next_offset: z.string().optional().meta({ description: 'For the next page; the last one has none.' }),
  })
  .meta({ id: 'LogPage' })
export type LogPage = z.output<typeof LogPage>
