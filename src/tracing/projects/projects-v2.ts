// Lists tracing projects for the second version of the API.
import { verb } from '../../kernel/http/context.ts'
import type { Page } from '../runs/runs-v2.schema.ts'
import { findProjects } from './project-list.ts'
import type * as projects from './projects.schema.ts'
import type * as schema from './projects-v2.schema.ts'
import { writeOffsetCursor } from './projects-v2.schema.ts'

function toQuery({ type, sort_by, sort_order, ...query }: schema.ProjectQueryV2): projects.ProjectQuery {
  const [projects, experiments] = [type?.includes('PROJECT') ?? true, type?.includes('EXPERIMENT') ?? true]
  return {
    ...query,
    reference_dataset: query.reference_dataset_id,
    reference_free: projects === experiments ? undefined : projects,
    facets: query.include_facets,
    sort_by: sort_by.toLowerCase() as projects.ProjectQuery['sort_by'],
    sort_by_desc: sort_order === 'desc',
    sort_by_feedback_source: query.sort_by_feedback_source?.toLowerCase() as 'run' | 'session' | undefined,
    // One more tells whether there is a next page.
    limit: query.page_size + 1,
    offset: query.cursor ?? 0,
  }
}

export const listProjectsV2 = verb(
  'projects:read',
  async (ctx, query: schema.ProjectQueryV2): Promise<Page<schema.ProjectV2>> => {
    const request = toQuery(query)
    const isNone = query.type !== undefined && !query.type.some(type => type !== 'AGENT')
    const found = await findProjects(ctx, isNone ? { ...request, id: [] } : request)
    const items = found.slice(0, query.page_size).map(showProject)
    const has_more = found.length > query.page_size
    return { items, next_cursor: has_more ? writeOffsetCursor(request.offset + items.length) : null, has_more }
  },
  { byPolicy: true },
)

const toNumber = (cost: string | null): number | null => (cost === null ? null : Number(cost))
const showProject = (shown: projects.Project): schema.ProjectV2 => ({
  ...shown,
  type: shown.reference_dataset_id ? 'EXPERIMENT' : 'PROJECT',
  trace_tier: shown.trace_tier === 'longlived' ? 'LONG_LIVED' : 'SHORT_LIVED',
  total_cost: toNumber(shown.total_cost),
  prompt_cost: toNumber(shown.prompt_cost),
  completion_cost: toNumber(shown.completion_cost),
})
