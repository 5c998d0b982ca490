// Translates the selection of runs in a request of a published client.
import { invalidRequest } from '../../kernel/http/input.ts'
import type { RunSelection } from '../store/queries.ts'
import { RUN_FIELDS } from './filter/fields.ts'
import { type ResolvedFilter, readFilters } from './filter/resolve.ts'
import { PLACES, type RunSelectionBody } from './runs.schema.ts'

export function toSelection(body: RunSelectionBody): RunSelection {
  if (body.id) return { ids: body.id }
  requirePlace(body)
  const texts = {
    filter: body.filter,
    trace_filter: body.trace_filter,
    tree_filter: body.tree_filter,
    search_filter: body.search_filter,
  }
  const { filter, trace_filter, tree_filter, search_filter } = readFilters(texts, RUN_FIELDS)
  return {
    projects: body.session ?? undefined,
    trace: body.trace ?? undefined,
    parent_run: body.parent_run ?? undefined,
    reference_examples: body.reference_example ?? undefined,
    run_type: body.run_type ?? undefined,
    has_error: body.error ?? undefined,
    is_root: body.is_root ?? undefined,
    start_time: body.start_time ?? undefined,
    end_time: body.end_time ?? undefined,
    filter: allOf([filter, search_filter, searchFor(body.query)]),
    trace_filter,
    tree_filter,
  }
}

function requirePlace(body: RunSelectionBody): void {
  if (PLACES.some(name => body[name])) return
  const msg = `at least one of ${PLACES.join(', ')} is required`
  throw invalidRequest([{ type: 'required', loc: ['body'], msg }])
}

export function allOf(filters: (ResolvedFilter | undefined)[]): ResolvedFilter | undefined {
  const parts = filters.filter(filter => filter !== undefined)
  return parts.length > 1 ? { operator: 'and', parts } : parts[0]
}

export const searchFilter = (words: string): string => `search(${JSON.stringify(words)})`

const searchFor = (words: string | null | undefined): ResolvedFilter | undefined =>
  words?.trim() ? readFilters({ query: searchFilter(words) }, RUN_FIELDS).query : undefined
