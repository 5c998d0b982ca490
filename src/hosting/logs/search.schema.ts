// Schemas of searching the lines of all deployments, and of counting them.
import * as z from 'zod'
import { type LogKind, levels, logKinds, MAX_ATTRIBUTE_LENGTH, MAX_ATTRIBUTE_NAME } from '../../protocol/logs.schema.ts'
import { ProcessType } from '../../protocol/resources.schema.ts'
import { boundedText, Instant, parseWholeNumber, Uuid } from '../../protocol/wire.ts'
import { ArrivedLine, LevelFilter } from './logs.schema.ts'

/** The last line of a page, by time, revision, number and kind. */
export type LogCursor = { at: string; revision_id: string; number: number; kind: string }

const CURSOR =
  /^(\d{13,15})\.([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})\.(\d{1,10})\.([a-z]{0,16})$/

/** The time in milliseconds, which is how exact the times of lines are, the revision, the number and the kind. */
export const formatLogCursor = ({ at, revision_id, number, kind }: LogCursor): string =>
  `${String(Date.parse(at)).padStart(13, '0')}.${revision_id}.${number}.${kind}`

const LogSearchCursor = boundedText(80)
  .transform((text, check): LogCursor => {
    const [, ms, revision_id, number, kind] = CURSOR.exec(text) ?? []
    if (kind !== undefined && Number(number) < 2 ** 31)
      return { at: new Date(Number(ms)).toISOString(), revision_id: revision_id!, number: Number(number), kind }
    check.addIssue({ code: 'custom', message: 'must be the `next_cursor` of an earlier answer' })
    return z.NEVER
  })
  .meta({ type: 'string', pattern: CURSOR.source })

const MAX_ATTRIBUTE_FILTERS = 8
const NAMED_VALUE = /^[^=]{1,64}=/
/** Lists of a query travel with commas between their items. */
const AttributeFilters = boundedText(MAX_ATTRIBUTE_FILTERS * (MAX_ATTRIBUTE_NAME + MAX_ATTRIBUTE_LENGTH))
  .transform((joined, check): string[] => {
    const items = (joined.match(/(?:\\.|[^,\\])+|\\$/gs) ?? []).map(item => item.replace(/\\([,\\])/g, '$1'))
    const message =
      items.length > MAX_ATTRIBUTE_FILTERS
        ? `must be at most ${MAX_ATTRIBUTE_FILTERS} members`
        : 'must be a name and a value, such as `user=42`'
    if (items.length === 0 || items.length > MAX_ATTRIBUTE_FILTERS || !items.every(item => NAMED_VALUE.test(item)))
      check.addIssue({ code: 'custom', message })
    return items
  })
  .meta({ type: 'string', pattern: '^[^=]+=' })

const filters = {
  q: boundedText(1000)
    .optional()
    .meta({ description: 'Literal text that the message contains. Case does not matter.' }),
  kind: z.enum(logKinds).optional().meta({
    description: 'Lines of builds, of revisions as they are deployed and run, or of requests. All by default.',
  }),
  deployment_id: Uuid.optional().meta({ description: 'Lines of this deployment.' }),
  revision_id: Uuid.optional().meta({ description: 'Lines of this revision.' }),
  level: LevelFilter.optional().meta({
    type: 'string',
    description: 'Lines of this level or above. Case does not matter.',
  }),
  process: ProcessType.optional().meta({ description: 'Lines of this process type, such as `web` or `worker`.' }),
  request_id: boundedText(128).optional().meta({ description: 'Lines of this request, as the application names it.' }),
  trace_id: boundedText(36)
    .regex(/^[0-9a-fA-F]{32}$/, { error: 'must be 32 hexadecimal digits' })
    .toLowerCase()
    .optional()
    .meta({ description: 'Lines of this trace: 32 hexadecimal digits, as W3C trace context has it.' }),
  attribute: AttributeFilters.optional().meta({
    description:
      'Lines with this member, such as `user=42` or `req.method=POST`. Of several, separated by commas, all. A comma ' +
      'of a value is written `\\,`.',
  }),
  start_time: Instant.optional().meta({ description: 'Lines from this time on.' }),
  end_time: Instant.optional().meta({ description: 'Lines before this time.' }),
}

export const LogSearchQuery = z
  .object({
    ...filters,
    limit: z
      .preprocess(parseWholeNumber, z.int().min(1).max(1000).default(100))
      .meta({ description: 'The maximum number of lines to return.' }),
    cursor: LogSearchCursor.optional().meta({
      type: 'string',
      description: 'The `next_cursor` of the previous answer.',
    }),
  })
  .meta({ id: 'LogSearchQuery', example: { q: 'timeout', level: 'ERROR' } })
export type LogSearchQuery = z.output<typeof LogSearchQuery>

export const FoundLine = ArrivedLine.omit({ arrival: true })
  .extend({
    deployment_id: Uuid,
    request_id: z.string().nullable(),
    trace_id: z.string().nullable().meta({ description: '32 hexadecimal digits.' }),
  })
  .meta({ id: 'FoundLogLine' })
export type FoundLine = z.output<typeof FoundLine>

export const FoundLogPage = z
  .object({
    logs: z.array(FoundLine).meta({ description: 'Newest first.' }),
    next_cursor: z
      .string()
      .nullable()
      .meta({
        description:
          'The `cursor` of the next page, which may have fewer lines than `limit`, or none: one request reads a ' +
          'number of lines in search of those that match. Null: there are no older lines.',
      }),
    searched_until: z.iso.datetime().nullable().meta({
      description: 'Every matching line from this time on is in this page or an earlier one. Null: all are.',
    }),
  })
  .meta({ id: 'FoundLogPage' })
export type FoundLogPage = z.output<typeof FoundLogPage>

export const HISTOGRAM_STEPS = [1, 5, 10, 30, 60, 300, 900, 3600, 10_800, 21_600, 86_400, 604_800] as const
export const MAX_BINS = 500
export const DEFAULT_BINS = 60

export const LogHistogramQuery = z
  .object({
    ...filters,
    start_time: Instant.optional().meta({
      description: 'The beginning of the range. Default: an hour before its end.',
    }),
    end_time: Instant.optional().meta({ description: 'The end of the range. Default: now.' }),
    step: z.preprocess(parseWholeNumber, z.literal([...HISTOGRAM_STEPS]).optional()).meta({
      type: 'integer',
      enum: [...HISTOGRAM_STEPS],
      description: `Seconds of a bin. Default: the shortest with at most ${DEFAULT_BINS} bins.`,
    }),
  })
  .meta({ id: 'LogHistogramQuery', example: { level: 'ERROR' } })
export type LogHistogramQuery = z.output<typeof LogHistogramQuery>

export const LogHistogram = z
  .object({
    step: z.int().meta({ description: 'Seconds of a bin.' }),
    counted_from: z.iso.datetime().meta({
      description: 'Lines before this time are not counted: there are too many after it.',
    }),
    bins: z
      .array(
        z.object({
          time: z.iso.datetime().meta({ description: 'The beginning, a multiple of `step` since 1970.' }),
          counts: z
            .object(
              Object.fromEntries(levels.map(level => [level, z.int()])) as Record<(typeof levels)[number], z.ZodInt>,
            )
            .meta({ description: 'The number of lines of each level.' }),
        }),
      )
      .meta({ description: 'Bins with lines, oldest first.' }),
  })
  .meta({ id: 'LogHistogram' })
export type LogHistogram = z.output<typeof LogHistogram>

export const kindsOf = (kind: LogKind | undefined): readonly LogKind[] => (kind ? [kind] : logKinds)
