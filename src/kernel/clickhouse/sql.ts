// SQL of ClickHouse with bound values: `sql` joins fragments, and each value becomes a parameter with its type.

type Part = string | { type: string; value: unknown }
export type Sql = { parts: readonly Part[] }

/** An interpolation is a fragment. Values go through `bind()`. */
export function sql({ raw }: TemplateStringsArray, ...fragments: Sql[]): Sql {
  return { parts: raw.flatMap((text, i) => [text, ...(fragments[i]?.parts ?? [])]) }
}

export const bind = (type: string, value: unknown): Sql => ({ parts: [{ type, value }] })
/** Takes only names that this code writes. */
export const name = (text: string): Sql => ({ parts: [text] })
export const join = (fragments: Sql[], separator: string): Sql => ({
  parts: fragments.flatMap(({ parts }, i) => (i === 0 ? parts : [separator, ...parts])),
})
export const all = (conditions: Sql[]): Sql => (conditions.length > 0 ? sql`(${join(conditions, ' and ')})` : sql`true`)

export const text = (value: string): Sql => bind('String', value)
export const texts = (values: readonly string[]): Sql => bind('Array(String)', values)
export const uuid = (value: string): Sql => bind('UUID', value)
export const uuids = (values: readonly string[]): Sql => bind('Array(UUID)', values)
export const time = (iso: string): Sql => bind("DateTime64(6, 'UTC')", toClickHouseTime(iso))
export const number = (value: number): Sql => bind('Float64', value)

/** The range of DateTime64. A clock that is wrong by more is wrong by centuries. */
const [FIRST, LAST] = ['1900-01-01 00:00:00.000000', '2261-12-31 23:59:59.999999']

const UTC = /^(\d{4}-\d\d-\d\d)T(\d\d:\d\d)(:\d\d)?(?:\.(\d{1,9}))?Z$/

/** Takes ISO 8601 in UTC, or with an offset. */
export function toClickHouseTime(iso: string): string {
  const [, day, minute, second = ':00', fraction = ''] =
    UTC.exec(iso.replace('+00:00', 'Z')) ?? UTC.exec(new Date(iso).toISOString()) ?? []
  // A year of another length.
  if (!day) return iso.startsWith('-') ? FIRST : LAST
  const micros = `${day} ${minute}${second}.${fraction.slice(0, 6).padEnd(6, '0')}`
  return micros < FIRST ? FIRST : micros > LAST ? LAST : micros
}

export function compile({ parts }: Sql): { query: string; query_params: Record<string, unknown> } {
  const query_params: Record<string, unknown> = {}
  const texts = parts.map(part => {
    if (typeof part === 'string') return part
    const parameter = `p${Object.keys(query_params).length}`
    query_params[parameter] = part.value
    return `{${parameter}:${part.type}}`
  })
  return { query: texts.join(''), query_params }
}
