// What every slice's schemas are made of. Only zod, so that programs outside the app can import it.
import * as z from 'zod'

/** A text of bounded length. Nothing that follows, a pattern least of all, looks at a longer one. */
export const boundedText = (most: number, error?: string) =>
  z.string(error === undefined ? {} : { error }).max(most, { abort: true, ...(error !== undefined && { error }) })

/** Zod parses every element before it looks at how many there are, so they are counted here first. */
const limitCount = (origin: 'array' | 'record', most: number, countOf: (value: unknown) => number, empty: unknown) =>
  z.transform((value, check) => {
    if (countOf(value) <= most) return value
    check.issues.push({ code: 'too_big', origin, maximum: most, inclusive: true, input: value })
    return empty
  })

/** An array of at most `most` elements. A longer one is refused before any of them is parsed. */
export const arrayOf = <Item extends z.ZodType>(item: Item, most: number, least = 0) => {
  const whole = z.array(item).max(most)
  const lengthOf = (value: unknown) => (Array.isArray(value) ? value.length : 0)
  return z.pipe(limitCount('array', most, lengthOf, []), least === 0 ? whole : whole.min(least))
}

/** A record of at most `most` members. A larger one is refused before any of them is parsed. */
export const recordOf = <Key extends z.core.$ZodRecordKey, Value extends z.ZodType>(
  key: Key,
  value: Value,
  most: number,
) => {
  const sizeOf = (one: unknown) => (typeof one === 'object' && one !== null ? Object.keys(one).length : 0)
  return z.pipe(limitCount('record', most, sizeOf, {}), z.record(key, value)).meta({ maxProperties: most })
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const Uuid = boundedText(36, 'needs to be a UUID')
  .regex(UUID, { error: 'needs to be a UUID' })
  .toLowerCase()
  .meta({ format: 'uuid' })
/** Years that both Postgres and JavaScript write with four digits; to the millisecond, as the wire tells it. */
export const Instant = boundedText(512, 'needs to be an ISO 8601 date-time')
  .check(z.iso.datetime({ offset: true, error: 'needs to be an ISO 8601 date-time', abort: true }))
  .refine(text => Date.parse(text) >= 0 && Date.parse(text) < Date.UTC(10_000), {
    error: 'needs to lie between the years 1970 and 9999',
    abort: true,
  })
  .overwrite(text => new Date(text).toISOString())

/** A whole number in a query string, where everything is text. */
export const parseWholeNumber = (text: unknown): unknown =>
  typeof text === 'string' && /^-?\d{1,15}$/.test(text) ? Number(text) : text

/** True or false in a query string. Some clients write it with a capital. */
export const parseBoolean = (text: unknown): unknown =>
  typeof text === 'string' && /^(true|false)$/i.test(text) ? text.toLowerCase() === 'true' : text

/** An empty value in a query string is as good as none. */
export const emptyAsAbsent = (text: unknown): unknown => (text === '' ? undefined : text)

/** Where a page ended: the last row's time and id, opaque to whoever carries it. */
type Cursor = { at: string; id: string }

/** A time as Postgres writes it in whatever time zone it is set to, and an id. */
const CURSOR = /^(\d{4}-\d\d-\d\d) ([\d:]{8}(?:\.\d{1,6})?[+-]\d\d)(:\d\d)?~(.+)$/

const CursorText = z
  .string()
  .max(120)
  .transform((text, check): Cursor => {
    const [, day, time, minutes = ':00', id] = CURSOR.exec(Buffer.from(text, 'base64url').toString()) ?? []
    const at = `${day}T${time}${minutes}`
    if (Instant.safeParse(at).success && Uuid.safeParse(id).success) return { at, id: id! }
    check.addIssue({ code: 'custom', message: 'is not a cursor that a `Link` offered' })
    return z.NEVER
  })

export const Page = z.object({
  limit: z
    .preprocess(parseWholeNumber, z.int().min(1).max(100).default(20))
    .meta({ description: 'The most to return.' }),
  offset: z
    .preprocess(parseWholeNumber, z.int().min(0).default(0))
    .meta({ description: 'How many to pass over: the `offset` of the previous answer.' }),
  cursor: CursorText.optional().meta({
    type: 'string',
    description: 'From the previous answer’s `Link`; it takes the place of `offset`.',
  }),
})
export type Page = z.output<typeof Page>

/** One request to a foreign server, as whoever caused it may know of it. */
export const OAuthFetch = z
  .object({
    stage: z.string(),
    method: z.string(),
    url: z.string().meta({ description: 'Without its query.' }),
    status: z.int().nullable(),
    outcome: z.string().nullable().meta({ description: 'The error’s code, if it came to one.' }),
    ms: z.number(),
  })
  .meta({ id: 'OAuthFetch', description: 'One request to a foreign server, without bodies and secrets.' })
export type OAuthFetch = z.output<typeof OAuthFetch>

export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    resources: z.array(item),
    offset: z.int().meta({ description: 'Pass it as `offset` to get the next page.' }),
  })
