// Building blocks of all schemas. It imports only zod, so that the agent can use it too.
import * as z from 'zod'

/**
 * zod remembers what it has parsed, for values that refer to themselves, in two weak maps for each object. JSON has no
 * such values. It would also keep the last input of each schema in memory, such as secrets.
 */
z.config({ memoizer: { alloc: (_schema, _payload, empty) => empty, attach() {}, guard() {} } })

/**
 * Marks a member of a reply, in its `meta()`, that lets its reader do something: a key, a token, a link that needs no
 * key. The OpenAPI document shows it, and `/mcp` masks such members.
 */
export const CREDENTIAL = { 'x-credential': true } as const

/** A text of bounded length. A longer one is refused before any later check, such as a pattern, reads it. */
export const boundedText = (maxLength: number, error?: string) =>
  z.string(error === undefined ? {} : { error }).max(maxLength, { abort: true, ...(error !== undefined && { error }) })

/** Counts elements before zod parses them: zod itself checks the count only after it has parsed all of them. */
const limitCount = <Value>(
  origin: 'array' | 'record',
  max: number,
  countOf: (value: unknown) => number,
  empty: unknown,
) =>
  z.transform<Value, unknown>((value, check) => {
    if (countOf(value) <= max) return value
    check.issues.push({ code: 'too_big', origin, maximum: max, inclusive: true, input: value })
    return empty
  })

export const arrayOf = <Item extends z.ZodType>(item: Item, max: number, min = 0) => {
  const array = z.array(item).max(max)
  const lengthOf = (value: unknown) => (Array.isArray(value) ? value.length : 0)
  return z.pipe(limitCount<z.input<Item>[]>('array', max, lengthOf, []), min === 0 ? array : array.min(min))
}

export const recordOf = <Key extends z.core.$ZodRecordKey, Value extends z.ZodType>(
  key: Key,
  value: Value,
  max: number,
) => {
  const sizeOf = (input: unknown) => (typeof input === 'object' && input !== null ? Object.keys(input).length : 0)
  const record = z.record(key, value)
  return z.pipe(limitCount<z.input<typeof record>>('record', max, sizeOf, {}), record).meta({ maxProperties: max })
}

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const Uuid = boundedText(36, 'must be a UUID')
  .regex(UUID, { error: 'must be a UUID' })
  .toLowerCase()
  .meta({ format: 'uuid' })
const NOT_AN_INSTANT = 'must be an ISO 8601 date-time with a time zone, such as 2026-11-22T12:00:00Z'
const LEAP_YEAR = [
  String.raw`19(?:7[26]|8[048]|9[26])`,
  String.raw`[2-9]\d(?:[2468][048]|[13579][26]|0[48])`,
  String.raw`(?:[2468][048]|[3579][26])00`,
].join('|')
const DAY_OF_YEAR = [
  String.raw`(?:0[13578]|1[02])-(?:0[1-9]|[12]\d|3[01])`,
  String.raw`(?:0[469]|11)-(?:0[1-9]|[12]\d|30)`,
  String.raw`02-(?:0[1-9]|1\d|2[0-8])`,
].join('|')
/** A day of the years 1970 to 9999, as a part of patterns. */
export const DAY_SOURCE = String.raw`(?:(?:${LEAP_YEAR})-02-29|(?:19[7-9]\d|[2-9]\d{3})-(?:${DAY_OF_YEAR}))`
const CLOCK_SOURCE = String.raw`(?:[01]\d|2[0-3]):[0-5]\d:[0-5]\d(?:\.\d+)?`
const ZONE_SOURCE = String.raw`(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)`
/** Limited to years that Postgres and JavaScript both write with four digits. Normalized to UTC and milliseconds. */
export const Instant = boundedText(512, NOT_AN_INSTANT)
  .check(z.iso.datetime({ offset: true, error: NOT_AN_INSTANT, abort: true }))
  .refine(text => Date.parse(text) >= 0 && Date.parse(text) < Date.UTC(10_000), {
    error: 'must be between the years 1970 and 9999',
    abort: true,
  })
  .overwrite(text => new Date(text).toISOString())
  .meta({ pattern: `^${DAY_SOURCE}T${CLOCK_SOURCE}${ZONE_SOURCE}$` })

const NOT_A_DAY = 'must be a day from 1970 on, such as 2026-11-24'
export const Day = boundedText(10, NOT_A_DAY)
  .check(z.iso.date({ error: NOT_A_DAY, abort: true }))
  .refine(text => Date.parse(text) >= 0, { error: NOT_A_DAY })
  .meta({ pattern: `^${DAY_SOURCE}$` })

export const parseWholeNumber = (text: unknown): unknown =>
  typeof text === 'string' && /^-?\d{1,16}$/.test(text) ? Number(text) : text

export const parseBoolean = (text: unknown): unknown =>
  typeof text === 'string' && /^(true|false)$/i.test(text) ? text.toLowerCase() === 'true' : text

export const emptyAsAbsent = (text: unknown): unknown => (text === '' ? undefined : text)

const MAX_ITEM_LENGTH = 40
/** A query parameter with several values. */
export const commaSeparated = <Item extends z.ZodType>(itemSchema: Item, maximum: number) =>
  boundedText(maximum * (MAX_ITEM_LENGTH + 1))
    .transform((joined, check): z.output<Item>[] => {
      const items = joined.split(',')
      if (items.length > maximum) check.addIssue({ code: 'too_big', origin: 'array', maximum, input: items })
      return items.slice(0, maximum).map((item, i) => {
        const parsed = itemSchema.safeParse(item)
        if (parsed.success) return parsed.data
        for (const { message } of parsed.error.issues) check.addIssue({ code: 'custom', path: [i], message })
        return z.NEVER
      })
    })
    .meta({ type: 'string', pattern: listPattern(itemSchema, maximum) })

/** The pattern of a comma-separated text of choices, or of texts with a pattern of their own. */
function listPattern(item: z.ZodType, maximum: number): string {
  const { values, def } = item._zod
  const checks = (def as { checks?: { _zod: { def: { pattern?: RegExp } } }[] }).checks ?? []
  const pattern = checks.find(check => check._zod.def.pattern)?._zod.def.pattern
  const one = values ? [...values].join('|') : (pattern?.source.replace(/^\^|\$$/g, '') ?? '[^,]*')
  return `^(?:${one})(?:,(?:${one})){0,${maximum - 1}}$`
}

/** An empty value filters nothing. */
export const optionalFilter = <Schema extends z.ZodType>(schema: Schema) =>
  z.preprocess(emptyAsAbsent, schema.optional())

/** The time and id of the last row of a page. Opaque to clients. */
type Cursor = { at: string; id: string }

/** Seconds since 1970 with microseconds, and an id: a form that a pattern describes. */
const CURSOR = /^(\d{1,11})\.(\d{6})~([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})$/
/** Links of the previous release, which serves beside this one during an upgrade. */
const EARLIER_CURSOR = /^(\d{4}-\d\d-\d\d) ([\d:]{8}(?:\.\d{1,6})?[+-]\d\d)(:\d\d)?~(.+)$/

/** `at` is a time as Postgres writes it. */
export function formatCursor({ at, id }: Cursor): string {
  const [, day, time, fraction = '', hours, minutes = ':00'] =
    /^(\S+) ([\d:]{8})(?:\.(\d{1,6}))?([+-]\d\d)(:\d\d)?$/.exec(at)!
  return `${Date.parse(`${day}T${time}${hours}${minutes}`) / 1000}.${fraction.padEnd(6, '0')}~${id}`
}

function parseCursor(text: string): Cursor | undefined {
  const [, seconds, fraction, id] = CURSOR.exec(text) ?? []
  if (id) return { at: new Date(Number(seconds) * 1000).toISOString().replace('000Z', `${fraction}Z`), id }
  const [, day, time, minutes = ':00', earlierId] = EARLIER_CURSOR.exec(Buffer.from(text, 'base64url').toString()) ?? []
  const at = `${day}T${time}${minutes}`
  return Instant.safeParse(at).success && Uuid.safeParse(earlierId).success ? { at, id: earlierId! } : undefined
}

const CursorText = z
  .string()
  .max(120)
  .transform((text, check): Cursor => {
    const cursor = parseCursor(text)
    if (cursor) return cursor
    check.addIssue({ code: 'custom', message: 'is not a cursor from a `Link` header' })
    return z.NEVER
  })
  .meta({ type: 'string', pattern: CURSOR.source })

export const Page = z.object({
  limit: z
    .preprocess(parseWholeNumber, z.int().min(1).max(100).default(20))
    .meta({ description: 'The maximum number of resources to return.' }),
  offset: z
    .preprocess(parseWholeNumber, z.int().min(0).default(0))
    .meta({ description: 'The number of resources to skip: the `offset` of the previous response.' }),
  cursor: CursorText.optional().meta({
    type: 'string',
    description: 'From the `Link` header of the previous response. Replaces `offset`.',
  }),
})
export type Page = z.output<typeof Page>

const FINGERPRINT = 'Stands for the secret, which is never shown: it changes when the secret is set again.'
export const SecretFingerprint = z
  .string()
  .nullable()
  .meta({ description: `${FINGERPRINT} Null without one.` })
export const SecretFingerprints = z
  .record(z.string(), z.string())
  .meta({ description: 'By the name of the secret. It changes when the secret gets another value.' })

export const exactName = (member: string) =>
  optionalFilter(z.string()).meta({ description: `The exact \`${member}\`.` })
/** For a list of things that people name. `member` is the one that holds the name. */
export const namedPage = (member: string) => z.object({ ...Page.shape, name: exactName(member) })
export type NamedPage = z.output<ReturnType<typeof namedPage>>

const OWNER_ERROR = 'must be 1 to 63 lower-case letters, digits, dots, hyphens, underscores and slashes'
export const Owner = boundedText(63, OWNER_ERROR)
  .regex(/^[a-z0-9]([a-z0-9._/-]{0,61}[a-z0-9])?$/, { error: OWNER_ERROR })
  .meta({ description: 'A label of the files that declare the resource. It grants nothing.' })
/** In a patch, null keeps it as an absent member does. */
export const OwnerPatch = z
  .union([z.literal(''), Owner])
  .nullish()
  .meta({ description: 'A label of the files that declare the resource. An empty text removes it.' })
export const ownedBy = optionalFilter(z.string()).meta({ description: 'The exact `owner`.' })
export type OwnedBy = { owner?: string | undefined }

export const OAuthFetch = z
  .object({
    stage: z.string(),
    method: z.string(),
    url: z.string().meta({ description: 'The URL without its query.' }),
    status: z.int().nullable(),
    outcome: z.string().nullable().meta({ description: 'The code of the error, if the request failed.' }),
    ms: z.number(),
  })
  .meta({ id: 'OAuthFetch', description: 'One request to an external server, without bodies and secrets.' })
export type OAuthFetch = z.output<typeof OAuthFetch>

export const listOf = <Item extends z.ZodType>(item: Item) =>
  z.object({
    resources: z.array(item),
    offset: z.int().meta({ description: 'The `offset` of the next page.' }),
  })
