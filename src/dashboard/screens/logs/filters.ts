// The filters of a log, which are in the address.
import { useMemo } from 'preact/hooks'
import { setFilters, useFilter } from '../../router/links.tsx'
import { LEVELS, type Level } from './blocks.ts'
import type { LogFilters } from './reader.ts'

const KINDS = ['build', 'deploy'] as const
type Kind = (typeof KINDS)[number]

export type ShownLog = {
  kind: Kind | undefined
  revision: string
  process: string
  level: Level | undefined
  /** The text to find. `only` hides other lines. */
  find: string
  isOnlyFound: boolean
  from: string
  line: number | undefined
  /** The filters of the request. */
  filters: LogFilters
}

const PROCESS = /^[a-z][a-z0-9-]{0,29}$/
const UUID = /^[0-9a-f]{8}-[0-9a-f-]{27}$/

/** Members that mean nothing are ignored: an address may be mistyped. */
export function useShownLog(): ShownLog {
  const [kind] = useFilter('kind')
  const [revision] = useFilter('revision')
  const [process] = useFilter('process')
  const [level] = useFilter('level')
  const [find] = useFilter('find')
  const [only] = useFilter('only')
  const [from] = useFilter('from')
  const [line] = useFilter('line')
  return useMemo(() => {
    const known = {
      kind: KINDS.find(one => one === kind),
      revision: UUID.test(revision) ? revision : '',
      process: PROCESS.test(process) ? process : '',
      level: LEVELS.find(one => one === level.toUpperCase()),
      find,
      isOnlyFound: only !== '' && find !== '',
      from: Number.isNaN(Date.parse(from)) ? '' : from,
      line: /^[1-9]\d{0,14}$/.test(line) ? Number(line) : undefined,
    }
    return { ...known, filters: toFilters(known) }
  }, [kind, revision, process, level, find, only, from, line])
}

function toFilters({ kind, revision, process, level, find, isOnlyFound, from }: Omit<ShownLog, 'filters'>): LogFilters {
  return {
    ...(kind && { kind }),
    ...(revision && { revision_id: revision }),
    ...(process && { process }),
    ...(level && level !== 'DEBUG' && { level }),
    ...(isOnlyFound && { query: find }),
    ...(from && { start_time: new Date(from).toISOString() }),
  }
}

export const selectLine = (arrival: number | undefined): void => setFilters({ line: arrival ? String(arrival) : '' })
export const showAround = (arrival: number): void =>
  setFilters({ process: '', level: '', only: '', from: '', line: String(arrival) })
export const hasFilters = ({ filters }: Pick<ShownLog, 'filters'>): boolean =>
  ['process', 'level', 'query', 'start_time'].some(name => name in filters)
