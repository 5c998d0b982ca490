// What every slice's schemas are made of. Only zod, so that programs outside the app can import it.
import * as z from 'zod'

const UUID = /^[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}$/i

export const Uuid = z.string().regex(UUID, { error: 'needs to be a UUID' }).toLowerCase().meta({ format: 'uuid' })
/** Years that both Postgres and JavaScript write with four digits; to the millisecond, as the wire tells it. */
export const Instant = z.iso
  .datetime({ offset: true, error: 'needs to be an ISO 8601 date-time', abort: true })
  .refine(text => Date.parse(text) >= 0 && Date.parse(text) < Date.UTC(10_000), {
    error: 'needs to lie between the years 1970 and 9999',
    abort: true,
  })
  .overwrite(text => new Date(text).toISOString())

/** A whole number in a query string, where everything is text. */
export const wholeNumber = (text: unknown): unknown =>
  typeof text === 'string' && /^-?\d{1,15}$/.test(text) ? Number(text) : text

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
  limit: z.preprocess(wholeNumber, z.int().min(1).max(100).default(20)).meta({ description: 'The most to return.' }),
  offset: z
    .preprocess(wholeNumber, z.int().min(0).default(0))
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
