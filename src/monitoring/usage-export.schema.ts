// The query of the export of usage.
import * as z from 'zod'
import { Day, optionalFilter, parseBoolean } from '../protocol/wire.ts'

export const MAX_DAYS = 92
export const DEFAULT_DAYS = 31

export const UsageExportQuery = z
  .object({
    start: optionalFilter(Day).meta({
      description: `The first day, in UTC. By default ${DEFAULT_DAYS} days with \`end\`, and at most ${MAX_DAYS}.`,
    }),
    end: optionalFilter(Day).meta({ description: 'The last day, in UTC. By default today.' }),
    format: optionalFilter(z.enum(['json', 'csv'])).meta({
      type: 'string',
      description: 'By default what `Accept` prefers, and otherwise `json`.',
    }),
    installation: z.preprocess(parseBoolean, z.boolean().default(false)).meta({
      description: 'All organizations. For instance admins.',
    }),
  })
  .meta({ example: { start: '2026-11-01', end: '2026-11-30' } })
export type UsageExportQuery = z.output<typeof UsageExportQuery>
