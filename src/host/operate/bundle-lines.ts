// Reduces a line of a log to the fields that Slipway writes itself: only they may leave the installation. Pure.

/** Ids, numbers and codes. No message: it may quote an application or a server outside. */
const FIELDS = [
  'level',
  'time',
  'event',
  'request_id',
  'method',
  'status',
  'ms',
  'code',
  'error',
  'attempts',
  'sweep',
  'organization_id',
  'tenant_id',
  'actor_id',
  'deployment_id',
  'revision_id',
  'deployment',
  'revision',
  'listener',
  'lease',
  'fence',
  'engine',
  'version',
  'number',
  'seconds',
  'rule',
  'insight_config',
]
const VALUE =
  /^(?:[a-z][a-z_]{0,60}|[A-Z]{3,12}|\d{1,15}|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}|\d[\d.:TZ-]{0,30})$/
const ID = /^[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}$/
/** The event of an agent's line as text, before its fields. */
const EVENT = /^([a-z][a-z ]{2,60}?)(?= \w+=|$)/

/** `words` are those of the paths of all routes. */
export function createLineFilter(words: Set<string>) {
  const cleanPath = (path: string): string =>
    path
      .split('/')
      .map(part => (part === '' || words.has(part) ? part : ID.test(part) ? part : '*'))
      .join('/')

  function pick(fields: Record<string, unknown>): Record<string, unknown> {
    const kept = Object.entries(fields).flatMap(([name, value]): [string, unknown][] => {
      if (name === 'path' && typeof value === 'string') return [[name, cleanPath(value)]]
      if (name === 'event' && typeof value === 'string' && EVENT.exec(value)?.[0] === value) return [[name, value]]
      return FIELDS.includes(name) && VALUE.test(String(value)) ? [[name, value]] : []
    })
    return Object.fromEntries(kept)
  }

  /** Null for a line that Slipway did not write. */
  return (line: string): string | null => {
    try {
      const fields = JSON.parse(line)
      if (typeof fields !== 'object' || fields === null) return null
      const kept = pick(fields)
      return Object.keys(kept).length > 0 ? JSON.stringify(kept) : null
    } catch {
      const event = EVENT.exec(line)?.[1]
      if (event === undefined || !/ \w+=/.test(line)) return null
      const pairs = [...line.matchAll(/ (\w+)=(\S+)/g)].map(([, name, value]) => [name!, value!] as const)
      return JSON.stringify({ event, ...pick(Object.fromEntries(pairs)) })
    }
  }
}
