// The tools that read a workspace.
import * as z from 'zod'
import { ToolFailure } from './answers.ts'
import {
  DeploymentArgument,
  findDeployment,
  findDeploymentId,
  findRevisions,
  REVISION_LOOK_UPS,
  RevisionArgument,
} from './targets.ts'
import { type Tool, type ToolContext, tool } from './tool.ts'

// biome-ignore lint/suspicious/noExplicitAny: the API answers by its schemas
type Body = any

const countOf = (count: number, what: string) => `${count} ${what}${count === 1 ? '' : 's'}`
/** A full page may have another one behind it. */
const nextPage = (page: Body, query: Record<string, string>) =>
  page.resources.length >= Number(query.limit ?? 20) ? { next_offset: page.offset } : {}

const whoami = tool({
  name: 'whoami',
  title: 'Who am I',
  description: 'The organization and key of this connection, its workspaces, and its permissions in each.',
  routes: ['GET /v2/me'],
  run: async (_, __, { api }) => {
    const me = await api('GET /v2/me')
    const everywhere = new Set<string>(me.permissions)
    const workspaces = me.workspaces.map(({ id, display_name, permissions }: Body) => ({
      id,
      name: display_name,
      further_permissions: permissions.filter((permission: string) => !everywhere.has(permission)),
    }))
    const actor = me.api_key ? `key \`${me.api_key.description}\`` : me.member?.email
    return {
      summary: `${me.organization.display_name}, as ${actor}, with ${countOf(workspaces.length, 'workspace')}.`,
      data: {
        organization: me.organization,
        member: me.member ?? me.api_key?.member ?? null,
        api_key: me.api_key && { description: me.api_key.description, expires_at: me.api_key.expires_at },
        permissions: me.permissions,
        workspaces,
      },
    }
  },
})

const revisionLine = (revision: Body) =>
  revision && {
    number: revision.number,
    status: revision.status,
    status_message: revision.status_message,
    commit: revision.commit,
    since: revision.since,
  }

const deploymentLine = ({ summary, ...one }: Body) => ({
  id: one.id,
  name: one.name,
  source: one.source,
  url: one.url,
  state: summary.state,
  status: one.status,
  serving: one.serving,
  healthy: summary.healthy,
  latest_revision: revisionLine(summary.latest_revision),
  serving_revision: summary.serving_revision?.number ?? null,
  ...(one.preview && { preview: { number: one.preview.number, branch: one.preview.branch } }),
  updated_at: one.updated_at,
})

const findDeployments = tool({
  name: 'find_deployments',
  title: 'Find deployments',
  description: 'Deployments with state, URL and latest revision, newest first. Start here.',
  routes: ['GET /v2/deployments'],
  query: ['name_contains', 'state', 'source', 'limit', 'offset'],
  foreignText: 'A commit message or status message',
  run: async (_, query, { api, workspace }) => {
    const page = await api('GET /v2/deployments', { query: { ...query, include: 'summary' } })
    const id = page.resources[0]?.tenant_id ?? workspace()
    return {
      summary: `${countOf(page.resources.length, 'deployment')}.`,
      data: { deployments: page.resources.map(deploymentLine), ...nextPage(page, query) },
      page: id && `${id}/deployments`,
    }
  },
})

export const deploymentPage = ({ tenant_id, id }: Body) => `${tenant_id}/deployments/${id}`

export async function readDeployment(context: ToolContext, name: string) {
  const { secrets, ...deployment } = await findDeployment(context, name)
  const { resources } = await context.api('GET /v2/deployments/{deployment_id}/explain', {
    path: { deployment_id: deployment.id },
  })
  return { ...deployment, secret_names: secrets.map((secret: Body) => secret.name), obstacles: resources }
}

export const DEPLOYMENT_TEXT = 'A commit message or status message'
const SERVED: Record<string, string | undefined> = {
  current: 'its latest revision',
  previous: 'an earlier revision',
  none: 'nothing',
}

const getDeployment = tool({
  name: 'get_deployment',
  title: 'Get a deployment',
  description:
    'A deployment: configuration, what serves, what is in flight, and the obstacles: why it does not serve its ' +
    'latest revision, with remedies.',
  routes: ['GET /v2/deployments/{deployment_id}', 'GET /v2/deployments/{deployment_id}/explain'],
  lookUps: ['GET /v2/deployments'],
  own: z.object({ deployment: DeploymentArgument }),
  foreignText: DEPLOYMENT_TEXT,
  run: async ({ deployment: name }, _, context) => {
    const deployment = await readDeployment(context, name)
    const why = deployment.obstacles.map(({ detail }: Body) => detail).join(' ')
    return {
      summary:
        `${deployment.name}: ${deployment.summary.state}. It serves ${SERVED[deployment.serving]}. ${why}`.trim(),
      data: deployment,
      page: deploymentPage(deployment),
    }
  },
})

const listRevisions = tool({
  name: 'list_revisions',
  title: 'List revisions',
  description: 'Revisions of a deployment, newest first: status, why, commit, actor, and seconds in each state.',
  routes: ['GET /v2/deployments/{deployment_id}/revisions'],
  lookUps: ['GET /v2/deployments'],
  query: ['status', 'limit', 'offset'],
  own: z.object({ deployment: DeploymentArgument }),
  foreignText: 'A commit message or status message',
  run: async ({ deployment }, query, context) => {
    const deployment_id = await findDeploymentId(context, deployment)
    const route = 'GET /v2/deployments/{deployment_id}/revisions'
    const page = await context.api(route, { path: { deployment_id }, query })
    const revisions = page.resources.map((revision: Body) => ({
      number: revision.number,
      id: revision.id,
      status: revision.status,
      status_message: revision.status_message,
      reasons: revision.reasons,
      commit: revision.commit,
      actor: revision.actor,
      states: revision.states,
      created_at: revision.created_at,
    }))
    return { summary: `${countOf(revisions.length, 'revision')}.`, data: { revisions, ...nextPage(page, query) } }
  },
})

const COMPARE = 'GET /v2/deployments/{deployment_id}/revisions/{revision_id}/compare/{other_revision_id}'
const compareRevisions = tool({
  name: 'compare_revisions',
  title: 'Compare two revisions',
  description: 'What changed between two revisions: configuration, secret versions, commits, build time, error lines.',
  routes: [COMPARE],
  lookUps: REVISION_LOOK_UPS,
  own: z.object({
    deployment: DeploymentArgument,
    before: RevisionArgument.default('serving').meta({ description: 'Default: `serving`.' }),
    after: RevisionArgument.default('latest').meta({ description: 'Default: `latest`.' }),
  }),
  foreignText: 'A commit message',
  run: async ({ deployment, before, after }, _, context) => {
    const [first, second] = await findRevisions(context, deployment, [before, after])
    const path = { ...first!, other_revision_id: second!.revision_id }
    const comparison = await context.api(COMPARE, { path })
    return { summary: `${countOf(comparison.changes.length, 'change')} of configuration.`, data: comparison }
  },
})

const DEFAULT_TAIL = '100'
const readLogs = tool({
  name: 'read_logs',
  title: 'Read logs',
  description: 'Log lines of builds and of running revisions, by default the newest 100.',
  routes: ['GET /v2/deployments/{deployment_id}/logs'],
  lookUps: REVISION_LOOK_UPS,
  query: ['kind', 'level', 'query', 'tail', 'after', 'start_time'],
  own: z.object({
    deployment: DeploymentArgument,
    revision: RevisionArgument.optional(),
  }),
  foreignText: 'The text of log lines',
  run: async ({ deployment, revision }, query, context) => {
    const [target] = revision
      ? await findRevisions(context, deployment, [revision])
      : [{ deployment_id: await findDeploymentId(context, deployment), revision_id: undefined }]
    const { deployment_id, revision_id } = target!
    const tail = query.tail ?? DEFAULT_TAIL
    const page = await context.api('GET /v2/deployments/{deployment_id}/logs', {
      path: { deployment_id },
      query: { ...query, revision_id, ...(query.after === undefined && { tail, limit: Math.max(1, Number(tail)) }) },
    })
    const lines = page.logs.map(({ timestamp, level, kind, message }: Body) => ({ timestamp, level, kind, message }))
    const { next_after, has_more, dropped } = page
    return {
      summary: `${countOf(lines.length, 'line')}. For what comes later, pass \`after\`: ${next_after}.`,
      data: { lines, next_after, has_more, dropped },
    }
  },
})

const listEvents = tool({
  name: 'list_events',
  title: 'List events',
  description: 'What happened in the workspace, newest first: who changed what, with values before and after.',
  routes: ['GET /v2/events'],
  lookUps: ['GET /v2/deployments'],
  query: ['type', 'actor_id', 'start_time', 'end_time', 'after', 'limit'],
  own: z.object({ deployment: DeploymentArgument.optional() }),
  foreignText: 'Text in `changes` and `data`',
  run: async ({ deployment }, query, context) => {
    const subject_id = deployment && (await findDeploymentId(context, deployment))
    const page = await context.api('GET /v2/events', { query: { ...query, order: 'desc', subject_id } })
    const events = page.resources.map((event: Body) => ({
      number: event.number,
      type: event.type,
      created_at: event.created_at,
      subject: event.subject,
      actor: event.actor,
      changes: event.changes,
      data: event.data,
    }))
    const id = page.resources[0]?.workspace_id ?? context.workspace()
    const older = page.has_more ? ` Older ones: \`after\` ${page.next_after}.` : ''
    return {
      summary: `${countOf(events.length, 'event')}.${older}`,
      data: { events, next_after: page.next_after, has_more: page.has_more },
      page: id && `${id}/history`,
    }
  },
})

const listPreviews = tool({
  name: 'list_previews',
  title: 'List previews',
  description: 'Previews with their state and URL, and the commits of forks that wait for approval.',
  routes: ['GET /v2/previews'],
  query: ['state', 'branch_contains', 'limit', 'offset'],
  foreignText: 'A branch or commit message',
  run: async (_, query, { api, workspace }) => {
    const page = await api('GET /v2/previews', { query })
    const previews = page.resources.map((one: Body) => ({
      id: one.id,
      deployment: one.parent_name,
      kind: one.kind,
      number: one.number,
      state: one.state,
      problem: one.problem,
      branch: one.branch,
      url: one.url,
      head_sha: one.head_sha,
      commit: one.commit,
      fork: one.fork,
      approved_sha: one.approved_sha,
      revision_status: one.revision_status,
      pull_request_url: one.pull_request_url,
      expires_at: one.expires_at,
      preview_deployment_id: one.deployment_id,
    }))
    const id = workspace()
    return {
      summary: `${countOf(previews.length, 'preview')}.`,
      data: { previews, ...nextPage(page, query) },
      page: id && `${id}/previews`,
    }
  },
})

const listTemplates = tool({
  name: 'list_templates',
  title: 'List templates',
  description: 'Applications that can be deployed with the source `internal_template`.',
  routes: ['GET /v2/templates'],
  query: ['limit', 'offset'],
  run: async (_, query, { api }) => {
    const page = await api('GET /v2/templates', { query })
    const data = { templates: page.resources, ...nextPage(page, query) }
    return { summary: `${countOf(page.resources.length, 'template')}.`, data }
  },
})

const REPOSITORIES = 'GET /v1/integrations/forge/githost/{integration_id}/repos'
const INTEGRATIONS = 'GET /v1/integrations/forge/githost/install'
const listRepositories = tool({
  name: 'list_repositories',
  title: 'List repositories',
  description: 'Repositories of a connected git host.',
  routes: [REPOSITORIES],
  lookUps: [INTEGRATIONS],
  query: ['name_contains', 'limit'],
  own: z.object({
    integration_id: z.string().max(36).optional().meta({ description: 'Needed if there are several git hosts.' }),
  }),
  foreignText: 'The name of a repository',
  run: async ({ integration_id }, query, { api, workspace }) => {
    const id = integration_id ?? (await findOnlyIntegration(await api(INTEGRATIONS)))
    const repositories = await api(REPOSITORIES, {
      path: { integration_id: id },
      query: { limit: '100', ...query },
    })
    return {
      summary: `${repositories.length} repositories.`,
      data: { integration_id: id, repositories },
      page: workspace() && `${workspace()}/integrations/${id}`,
    }
  },
})

function findOnlyIntegration(integrations: Body[]): string {
  if (integrations.length === 1) return integrations[0].id
  if (integrations.length === 0)
    throw new ToolFailure('integration_missing', 'There is no git host. A person connects one in the dashboard.')
  const known = integrations.map(({ id, name, host, base_url }) => ({ id, name, host, base_url }))
  throw new ToolFailure('integration_needed', 'There are several git hosts. Pass `integration_id`.', {
    integrations: known,
  })
}

export const readingTools: Tool[] = [
  whoami,
  findDeployments,
  getDeployment,
  listRevisions,
  compareRevisions,
  readLogs,
  listEvents,
  listPreviews,
  listTemplates,
  listRepositories,
]
