// Lists the metadata of the runs of a project, to choose filters from.
import type * as z from 'zod'
import { verb } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type * as schema from '../projects/projects.schema.ts'

export const readMetadata = verb(
  'runs:read',
  async (
    ctx,
    { session_id, ...query }: z.output<typeof schema.ProjectRef> & z.output<typeof schema.MetadataQuery>,
  ): Promise<Record<string, string[]>> => {
    const { metadata_keys: keys, start_time: since, root_runs_only: roots_only, k: values } = query
    const metadata = await ctx.traces.listMetadata(ctx, { session_id, keys, since, roots_only, values })
    if (metadata === null) throw fail('project_not_found')
    return metadata
  },
)
