// Parses the filter of the list: words are part of the name, `source:image` is a condition (pure).
import type { CallOptions } from '../../../client/client.ts'

export type ListQuery = NonNullable<CallOptions<'GET /v2/deployment-counts'>['query']>
type Source = NonNullable<ListQuery['source']>
type Status = NonNullable<ListQuery['status']>[number]

const SOURCES: Record<string, Source> = {
  git: 'githost',
  image: 'internal_container',
  archive: 'internal_source',
  template: 'internal_template',
  external: 'external_container',
}
const STATUSES: Record<string, Status> = {
  ready: 'READY',
  unused: 'UNUSED',
  unknown: 'UNKNOWN',
  deleting: 'AWAITING_DELETE',
  database: 'AWAITING_DATABASE',
}
const HEALTH = ['healthy', 'degraded', 'crash_looping', 'unhealthy', 'sleeping']
/** The conditions with their values; those without a list have names of the workspace. */
export const CONDITIONS = {
  status: Object.keys(STATUSES),
  health: HEALTH,
  source: Object.keys(SOURCES),
  tag: [],
  listener: [],
}

export type ParsedFilter = {
  query: ListQuery
  /** `key=value`, and the name of a listener: their ids are read first. */
  tag: string | undefined
  listener: string | undefined
  /** A condition whose value does not exist. */
  unknown: string | undefined
}

export function parseFilter(text: string): ParsedFilter {
  const parsed: ParsedFilter = { query: {}, tag: undefined, listener: undefined, unknown: undefined }
  const words: string[] = []
  for (const word of text.split(/\s+/).filter(Boolean)) {
    const at = word.indexOf(':')
    const [condition, value] = [word.slice(0, Math.max(0, at)), word.slice(at + 1)]
    if (!Object.hasOwn(CONDITIONS, condition)) words.push(word)
    // The value is still being typed.
    else if (!value) continue
    else if (condition === 'tag') parsed.tag = value
    else if (condition === 'listener') parsed.listener = value
    else if (condition === 'source' && Object.hasOwn(SOURCES, value)) parsed.query.source = SOURCES[value]
    else if (condition === 'status' && Object.hasOwn(STATUSES, value)) parsed.query.status = [STATUSES[value]!]
    else if (condition === 'health' && HEALTH.includes(value)) parsed.query.health = [value]
    else parsed.unknown = word
  }
  if (words.length > 0) parsed.query.name_contains = words.join('-')
  return parsed
}
