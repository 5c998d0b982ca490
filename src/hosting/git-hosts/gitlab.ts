// The client of GitLab, in the cloud and self-managed, which authenticates with an account's access token.
import type { SealingServices } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { accountToken } from './credentials.ts'
import { type Githost, type Integration, parseRepositoryUrl, type StatusState } from './githost.ts'
import {
  Comparison,
  GitlabCommit,
  gitlabChangedFiles,
  ListedProject,
  ListedProjects,
  MergeRequest,
  MergeRequests,
  mergeRequestToPull,
  projectToHosted,
  projectToRepository,
  toGitlabCommit,
} from './gitlab-responses.ts'
import { gitlabWebhooks } from './gitlab-webhooks.ts'
import { createGuardedHostClient, parseResponse } from './request.ts'
import { createRestClient } from './rest-client.ts'

const PAGE_SIZE = 100
const MAX_DESCRIPTION_LENGTH = 255
/** GitLab does not count more than 10,000. */
const UNCOUNTED = 10_000
/** The role Reporter: without it nobody can read the code. */
const CAN_READ_CODE = 20

export const apiUrlOf = (base_url: string): string => `${base_url}/api/v4`
export const headersFor = (token: string) => ({ Accept: 'application/json', Authorization: `Bearer ${token}` })

const STATES: Record<StatusState, string> = {
  pending: 'pending',
  success: 'success',
  failure: 'failed',
  error: 'failed',
}

export function createGitlabHost(
  { config, platform, sealer }: SealingServices,
  origin: string,
  row: Integration,
): Githost {
  const api = apiUrlOf(row.base_url)
  const client = () => createGuardedHostClient({ config, platform }, origin)
  const token = accountToken(sealer, row)
  const rest = createRestClient({ api, client, headers: async () => headersFor(await token()) })
  const { get, write } = rest

  const projectUrl = (repo_url: string): string => {
    const repository = parseRepositoryUrl(row, repo_url)
    if (!repository) throw fail('repository_not_found')
    return `${api}/projects/${encodeURIComponent(`${repository.owner}/${repository.name}`)}`
  }

  return {
    repositories: stored =>
      rest.listPages(stored, {
        urlOf: number => {
          const filter = `membership=true&min_access_level=${CAN_READ_CODE}&order_by=id&sort=asc`
          return `${api}/projects?${filter}&per_page=${PAGE_SIZE}&page=${number}`
        },
        pageSize: PAGE_SIZE,
        parse: ({ headers, body }) => ({
          total: Number(/^\d{1,9}$/.exec(headers.get('X-Total') ?? '') ?? UNCOUNTED),
          listed: parseResponse(ListedProjects, api, body).map(one => projectToRepository(row.base_url, one)),
        }),
      }),

    ...rest.readHead(async (repo_url, ref, etags) => {
      const { status, body } = await get(
        `${projectUrl(repo_url)}/repository/commits/${encodeURIComponent(ref)}?stats=false`,
        etags,
      )
      if (status === 304) return 'unchanged'
      return status === 200 ? toGitlabCommit(parseResponse(GitlabCommit, api, body)) : null
    }),

    async repository(repo_url, id, etags) {
      const url = id === null ? projectUrl(repo_url) : `${api}/projects/${encodeURIComponent(id)}`
      const { status, body } = await get(url, etags)
      if (status === 304) return 'unchanged'
      return status === 200 ? projectToHosted(row.base_url, parseResponse(ListedProject, api, body)) : null
    },

    async changedFiles(repo_url, before, after) {
      const query = new URLSearchParams({ from: before, to: after, straight: 'true' })
      const { status, body } = await get(`${projectUrl(repo_url)}/repository/compare?${query}`)
      return status === 200 ? gitlabChangedFiles(parseResponse(Comparison, api, body)) : null
    },

    openPulls: async (repo_url, etags) => {
      const url = `${projectUrl(repo_url)}/merge_requests?state=opened&order_by=updated_at&sort=desc`
      const parse = ({ body }: { body: unknown }) =>
        parseResponse(MergeRequests, api, body).flatMap(one => mergeRequestToPull(one) ?? [])
      const urlOf = (page: number) => `${url}&per_page=${PAGE_SIZE}&page=${page}`
      return rest.listPulls({ urlOf, pageSize: PAGE_SIZE, parse }, etags)
    },

    async pull(repo_url, number) {
      const { status, body } = await get(`${projectUrl(repo_url)}/merge_requests/${number}`)
      return status === 200 ? mergeRequestToPull(parseResponse(MergeRequest, api, body)) : null
    },

    branches: async (repo_url, etags) => {
      const url = `${projectUrl(repo_url)}/repository/branches?per_page=${PAGE_SIZE}`
      return rest.listBranches({ url, pageSize: PAGE_SIZE }, etags)
    },

    /** GitLab cannot mint narrower tokens, so this is the integration's own. It ignores the username. */
    async credential(repo_url) {
      if (!parseRepositoryUrl(row, repo_url)) throw fail('repository_not_found')
      return { username: 'oauth2', password: await token(), expires_at: null }
    },

    async setStatus(repo_url, sha, { state, url, description, context }) {
      const text = description.slice(0, MAX_DESCRIPTION_LENGTH)
      const json = { state: STATES[state], description: text, name: context, ...(url !== null && { target_url: url }) }
      const answer = await write('POST', `${projectUrl(repo_url)}/statuses/${encodeURIComponent(sha)}`, json, [400])
      // A status that has ended stays, and one that is told again is refused: the host has it already.
      if (answer.status === 400 && !isTransitionRefused(answer.body)) throw fail('upstream_error')
      if (answer.status === 404) throw fail('repository_not_found')
    },

    showRevision: null,

    comment: async (repo_url, number, body, comment_id) => {
      const listUrl = `${projectUrl(repo_url)}/merge_requests/${number}/notes`
      const place = {
        listUrl,
        pageQuery: 'sort=asc&order_by=created_at&per_page=100',
        editMethod: 'PUT' as const,
        editUrl: (id: string) => `${listUrl}/${id}`,
      }
      return rest.writeComment(place, body, comment_id)
    },

    ...gitlabWebhooks(rest, projectUrl),
    mintedToken: () => null,
  }
}

const isTransitionRefused = (body: unknown): boolean => JSON.stringify(body ?? '').includes('Cannot transition status')
