// Schemas of reading logs.
import * as z from 'zod'
import { levels } from '../protocol/logs.schema.ts'
import { boundedText, Instant } from '../protocol/wire.ts'

/** From the least to the most severe. */
const Level = z.enum(levels)
export type Level = z.output<typeof Level>

/** The last line of a page, by time, revision and number. Opaque to clients. */
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
  check.addIssue({ code: 'custom', message: 'must be the `next_offset` of an earlier answer' })
  return z.NEVER
})

export const LogQuery = z
  .object({
    limit: z.int().min(1).max(1000).nullish().meta({ description: 'Maximum number of lines. Default 100.' }),
    order: z
      .enum(['asc', 'desc'])
      .nullish()
      .meta({ description: 'Order by time: `asc` (default) has the newest line last, `desc` has it first.' }),
    offset: LogOffset.nullish().meta({ type: 'string', description: 'The `next_offset` of the previous answer.' }),
    level: boundedText(16)
      .toUpperCase()
      .pipe(Level)
      .nullish()
      .meta({ description: 'Lines of this level or above. Case does not matter.' }),
    query: boundedText(1000)
      .nullish()
      .meta({ description: 'Literal text that the message contains. Case does not matter.' }),
    start_time: Instant.nullish().meta({ description: 'From this time on.' }),
    end_time: Instant.nullish().meta({ description: 'Before this time.' }),
  })
  .meta({ id: 'LogQuery', description: 'A query for lines of a log.', example: { limit: 100, order: 'desc' } })
export type LogQuery = z.output<typeof LogQuery>

const LogLine = z
  .object({
    id: z.string().meta({ description: 'Unique among all lines, and stable.' }),
    timestamp: z.iso.datetime(),
    level: Level,
    message: z.string(),
  })
  .meta({ id: 'LogLine' })
export type LogLine = z.output<typeof LogLine>

export const LogPage = z
  .object({
    logs: z.array(LogLine),
    next_offset: z.string().optional().meta({ description: 'The `offset` of the next page. Absent on the last page.' }),
  })
  .meta({ id: 'LogPage' })
export type LogPage = z.output<typeof LogPage>
