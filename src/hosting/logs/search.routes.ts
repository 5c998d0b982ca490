// Routes of searching the lines of all deployments.
import { slice } from '../../kernel/http/routes.ts'
import * as s from './search.schema.ts'
import { countLogs, searchLogs } from './search.ts'

export const logSearchRoutes = slice('Log search', 'Log lines of all deployments: found, and counted.')
  .get('/v2/logs', {
    id: 'searchLogs',
    summary: 'Search the logs of all deployments, newest first',
    description: [
      'Filters by text, level, time, deployment, request, trace, and members of JSON lines.',
      'A page has the lines that were found within a limited effort: go on with `next_cursor` while it is not null.',
      'Without ClickHouse, each log has its newest 10,000 lines. Lines of jobs are not among them.',
    ].join(' '),
    query: s.LogSearchQuery,
    repeatable: ['attribute'],
    reply: s.FoundLogPage,
    errors: ['query_too_slow'],
    verb: searchLogs,
  })
  .get('/v2/logs/histogram', {
    id: 'countLogs',
    summary: 'Count the lines of all deployments by time and level',
    description:
      'Takes the filters of the search. If there are too many lines, the newest are counted, from `counted_from` on.',
    query: s.LogHistogramQuery,
    repeatable: ['attribute'],
    reply: s.LogHistogram,
    errors: ['query_too_slow'],
    verb: countLogs,
  })
