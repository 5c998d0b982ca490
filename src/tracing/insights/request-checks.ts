// Checks of a request for insights that a schema cannot make: its filter, its template, and members that exclude or
// need each other.
import { type Fault, fail } from '../../kernel/http/errors.ts'
import { RUN_FIELDS } from '../runs/filter/fields.ts'
import { readFilters, resolveFilters } from '../runs/filter/resolve.ts'
import type { SavedRequest } from './jobs.schema.ts'
import { findTemplateFault } from './summary-template.ts'

/** Throws all faults together. `place` is the place of the request in the body. */
export function checkRequest(request: SavedRequest, place: string[] = []): void {
  const { filter, summary_prompt, start_time, end_time, last_n_hours, model, attribute_schemas } = request
  const faults: Fault[] = []
  const add = (name: string, msg: string, type = 'custom') => faults.push({ type, loc: ['body', ...place, name], msg })
  const template = summary_prompt ? findTemplateFault(summary_prompt) : null
  if (template) add('summary_prompt', template)
  if (start_time && end_time && start_time >= end_time) add('end_time', 'must be after `start_time`')
  if (start_time && last_n_hours) add('last_n_hours', 'is instead of `start_time`. Send one of them')
  if (model === 'none' && Object.keys(attribute_schemas ?? {}).length > 0)
    add('attribute_schemas', 'need a model. The lexical method reads no attributes')
  if (faults.length === 0) return void readFilters({ filter }, RUN_FIELDS)
  for (const { fault } of resolveFilters({ filter }, RUN_FIELDS).faults) add('filter', fault.message, 'filter_invalid')
  throw fail('invalid_request', {
    about: faults.map(({ loc, msg }) => `\`${loc.at(-1)}\` ${msg}`).join('; '),
    errors: faults,
  })
}
