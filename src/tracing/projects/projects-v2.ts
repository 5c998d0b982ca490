// Lists, creates, reads and changes tracing projects for the second version of the API.
import type * as z from 'zod'
import { verb } from '../../kernel/http/context.ts'
import { etagVersion } from '../../kernel/http/routes.ts'
import type { Page } from '../runs/runs-v2.schema.ts'
import { findProjects } from './project-list.ts'
import type * as projects from './projects.schema.ts'
import { findProject, type ProjectWire, storeProject, updateProject } from './projects.ts'
import type * as schema from './projects-v2.schema.ts'
import { toOffsetPage } from './projects-v2.schema.ts'

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
    return toOffsetPage(found.map(showProject), request)
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

const showChanged = (shown: ProjectWire) => ({ ...showProject(shown), [etagVersion]: shown[etagVersion] })
const toTier = (tier: schema.ProjectPatchV2['trace_tier'] | null) =>
  tier && (tier === 'LONG_LIVED' ? ('longlived' as const) : ('shortlived' as const))

export const createProjectV2 = verb(
  'projects:create',
  async (ctx, { type: _, trace_tier, ...input }: schema.NewProjectV2 & z.output<typeof projects.Upsert>) =>
    showChanged(await storeProject(ctx, { ...input, trace_tier: toTier(trace_tier) })),
)

type ProjectParams = z.output<typeof projects.ProjectRef>

export const readProjectV2 = verb(
  'projects:read',
  async (ctx, input: ProjectParams & z.output<typeof projects.ProjectReadQuery>) =>
    showChanged(await findProject(ctx, input)),
)

export const changeProjectV2 = verb(
  'projects:update',
  async (ctx, { session_id, trace_tier, ...change }: ProjectParams & schema.ProjectPatchV2) => {
    const tier = toTier(trace_tier)
    return showChanged(
      await updateProject(ctx, session_id, { ...change, ...(tier && { trace_tier: tier }), mergesExtra: true }),
    )
  },
)
