// Schemas of reading logs.
import * as z from 'zod'
import { LogAttributes, levels, logKinds } from '../../protocol/logs.schema.ts'
import { ProcessType } from '../../protocol/resources.schema.ts'
import { boundedText, Instant, parseWholeNumber, Uuid } from '../../protocol/wire.ts'

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

export const LevelFilter = boundedText(16).toUpperCase().pipe(Level)
const LEVEL_FILTER = 'Lines of this level or above. Case does not matter.'
const PROCESS_FILTER = 'Lines of this process type, such as `web` or `worker`.'
const TextFilter = boundedText(1000)
const TEXT_FILTER = 'Literal text that the message contains. Case does not matter.'

export const LogQuery = z
  .object({
    limit: z.int().min(1).max(1000).nullish().meta({ description: 'Maximum number of lines. Default 100.' }),
    order: z
      .enum(['asc', 'desc'])
      .nullish()
      .meta({ description: 'Order by time: `asc` (default) has the newest line last, `desc` has it first.' }),
    offset: LogOffset.nullish().meta({ type: 'string', description: 'The `next_offset` of the previous answer.' }),
    level: LevelFilter.nullish().meta({ description: LEVEL_FILTER }),
    process: ProcessType.nullish().meta({ description: PROCESS_FILTER }),
    query: TextFilter.nullish().meta({ description: TEXT_FILTER }),
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
    process: z.string().nullable().meta({
      description: 'The process type of the copy that wrote it or that it is about. Null: not told, or of the agent.',
    }),
    message: z.string().meta({
      description:
        'Cut at 16 KiB. A control character is shown by its symbol: ESC, which begins a color, is U+241B (`␛`).',
    }),
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

const wholeNumber = (min: number, max = Number.MAX_SAFE_INTEGER) =>
  z.preprocess(parseWholeNumber, z.int().min(min).max(max))

const MAX_WAIT_SECONDS = 30

const filters = {
  kind: z.enum(logKinds).optional().meta({
    description:
      'Lines of builds, of revisions as they are deployed and run, or of requests. Builds and revisions by default.',
  }),
  revision_id: Uuid.optional().meta({ description: 'Lines of this revision.' }),
  level: LevelFilter.optional().meta({ type: 'string', description: LEVEL_FILTER }),
  process: ProcessType.optional().meta({ description: PROCESS_FILTER }),
  query: TextFilter.optional().meta({ description: TEXT_FILTER }),
  start_time: Instant.optional().meta({ description: 'Lines from this time on.' }),
}
const start = {
  after: wholeNumber(0).optional().meta({
    description:
      'The `arrival` of a line, or the `next_after` of a page: begin after it. By default at the oldest line.',
  }),
  tail: wholeNumber(0, 1000).optional().meta({
    description: 'Begin with this many of the newest lines. Ignored with `after`.',
  }),
}

export const FollowQuery = z
  .object({
    ...start,
    limit: wholeNumber(1, 1000).default(100).meta({ description: 'The maximum number of lines to return.' }),
    ...filters,
    wait: wholeNumber(0, MAX_WAIT_SECONDS).default(0).meta({
      description: 'If no line matches, answer when one does, or after these seconds.',
    }),
  })
  .meta({ id: 'LogFollowQuery', example: { tail: '10' } })
export type FollowQuery = z.output<typeof FollowQuery>
export type LogFilters = Pick<FollowQuery, keyof typeof filters>

export const StreamQuery = z.object({ ...start, ...filters })
export type StreamQuery = z.output<typeof StreamQuery>

export const ArrivedLine = LogLine.extend({
  arrival: z.int().meta({
    description: 'Counts up in the order in which the lines of the deployment arrived. `timestamp` may go back.',
  }),
  revision_id: Uuid,
  kind: z.enum(logKinds),
  attributes: LogAttributes.optional().meta({ description: 'The members of a JSON line, or of a request.' }),
}).meta({ id: 'ArrivedLogLine' })
export type ArrivedLine = z.output<typeof ArrivedLine>

export const ArrivedPage = z
  .object({
    logs: z.array(ArrivedLine),
    next_after: z.int().meta({
      description: 'The `after` of the next page. It moves past lines that the filters leave out.',
    }),
    has_more: z.boolean().meta({ description: 'Whether the next page may have lines now.' }),
    dropped: z.int().meta({
      description:
        'How many lines up to `next_after` are no longer kept. Lines that the filters leave out may be among them.',
    }),
  })
  .meta({ id: 'ArrivedLogPage' })
export type ArrivedPage = z.output<typeof ArrivedPage>
