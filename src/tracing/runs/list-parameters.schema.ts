// Parts of queries and bodies that lists of tracing share.
import * as z from 'zod'
import {
  boundedText,
  commaSeparated,
  optionalFilter,
  parseBoolean,
  parseWholeNumber,
  Uuid,
} from '../../protocol/wire.ts'
import { TIME_TEXT, TraceTime } from './time.schema.ts'

export const Time = z.string().meta({ format: 'date-time' })

/** An object of any depth and size that a body admits. */
export const JsonObject = z.looseObject({})

/** Pages of the reference: a client stops at a page that is shorter than it asked for. */
export const offsetPage = (limit = 100) => ({
  limit: z
    .preprocess(parseWholeNumber, z.int().min(1).max(100).default(limit))
    .meta({ description: 'The maximum number of resources to return. A shorter page is the last one.' }),
  offset: z
    .preprocess(parseWholeNumber, z.int().min(0).default(0))
    .meta({ description: 'The number of resources to skip.' }),
})

/** A filter in a query: a longer one does not fit into the 16 KiB that the head of a request may have. */
export const queryFilter = () => optionalFilter(boundedText(12_000))

export const flag = (byDefault: boolean) => z.preprocess(parseBoolean, z.boolean().default(byDefault))
export const optionalFlag = () => optionalFilter(z.preprocess(parseBoolean, z.boolean()))

export const idFilter = (description?: string) =>
  optionalFilter(commaSeparated(Uuid, 100)).meta({ ...(description && { description }) })

export const timeFilter = (description?: string) =>
  optionalFilter(TraceTime).meta({ ...TIME_TEXT, ...(description && { description }) })

/** Postgres stores neither a NUL character nor half of a surrogate pair. */
const isStorable = (text: string): boolean => !text.includes('\0') && text.isWellFormed()

/** A text for a column. In JSON that is stored as a text, escapes need no such check. */
export const storableText = (maxLength: number) =>
  boundedText(maxLength).refine(isStorable, { error: 'must not contain a NUL character or a lone surrogate' })

/** A JSON object within a query parameter. */
export const jsonFilter = (description: string) =>
  optionalFilter(
    boundedText(8192).transform((text, check): string => {
      const value = parseJson(text)
      const normalized = JSON.stringify(value) ?? ''
      if (normalized.startsWith('{') && !/\\u(?:0000|d[89a-f])/i.test(normalized)) return normalized
      check.addIssue({ code: 'custom', message: 'must be a JSON object without NUL characters or lone surrogates' })
      return z.NEVER
    }),
  ).meta({ type: 'string', description })

function parseJson(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}
