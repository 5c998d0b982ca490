// Formats the agent's own log: one event with its fields, as `name=value` for people or as JSON for programs.

type Fields = Record<string, string | number | null | undefined>
export type LogEvent = (event: string, fields?: Fields) => void

export type FormatEvent = (event: string, fields?: Fields) => string

export const formatEvent: FormatEvent = (event, fields = {}) => {
  const pairs = Object.entries(fields).flatMap(([name, value]) =>
    value === undefined || value === null ? [] : `${name}=${formatValue(String(value))}`,
  )
  return [event, ...pairs].join(' ')
}

export const formatEventAsJson: FormatEvent = (event, fields) => JSON.stringify({ event, ...fields })

/** Further lines of a value are indented, so that the output of an application cannot imitate an event. */
const formatValue = (value: string) => (/\s|^$/.test(value) ? `"${value.replaceAll('\n', '\n  ')}"` : value)
