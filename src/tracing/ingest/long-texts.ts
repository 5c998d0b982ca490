// Adds the warning of an answer whose filter has compared long texts in part.
import type { Ctx } from '../../kernel/http/context.ts'
import { looksWithin } from '../runs/filter/bounds.ts'
import type { ResolvedFilter } from '../runs/filter/resolve.ts'
import { MAX_IN_ROW, type TraceStore } from '../store/store.ts'

const LONG_MEMBERS = ['error', 'inputs', 'outputs', 'input', 'output']
const WARNING =
  `\`error\`, \`inputs\` and \`outputs\` of more than ${MAX_IN_ROW} characters are compared in part: ` +
  'an error by its beginning, inputs and outputs by their preview.'

type Filters = { [Name in 'filter' | 'trace_filter' | 'tree_filter']?: ResolvedFilter | undefined }

/** Warns for every such filter: to find out whether a run has a long text would cost as much as the filter. */
export function warnOfLongTexts({ warnings }: Ctx, { filter, trace_filter, tree_filter }: Filters): void {
  const isConcerned = [filter, trace_filter, tree_filter].some(one => looksWithin(one, LONG_MEMBERS))
  if (isConcerned && !warnings.includes(WARNING)) warnings.push(WARNING)
}

export function withWarnings(store: TraceStore): TraceStore {
  const warned =
    <Query extends Filters, Answer>(read: (ctx: Ctx, query: Query) => Promise<Answer>) =>
    (ctx: Ctx, query: Query): Promise<Answer> => {
      warnOfLongTexts(ctx, query)
      return read(ctx, query)
    }
  return { ...store, query: warned(store.query), stats: warned(store.stats), listThreads: warned(store.listThreads) }
}
