// The requests about a repository that are the same at GitHub, Gitea and Forgejo.
import { fail } from '../../kernel/http/errors.ts'
import { type Githost, type Integration, parseRepositoryUrl } from './githost.ts'
import { ListedRepository, PullResponse, PullResponses, toHostedPull, toHostedRepository } from './host-responses.ts'
import { parseResponse } from './request.ts'
import type { RestClient } from './rest-client.ts'

const MAX_DESCRIPTION_LENGTH = 140

export type RepositoryApi = ReturnType<typeof createRepositoryApi>

/** `pageSize`: how many pull requests or branches the host lists on a page. */
export function createRepositoryApi(
  { get, write, listPulls, listBranches, writeComment }: RestClient,
  { row, api, pageSize }: { row: Integration; api: string; pageSize: number },
) {
  const repositoryApi = (repo_url: string): string => {
    const repository = parseRepositoryUrl(row, repo_url)
    if (!repository) throw fail('repository_not_found')
    return `${api}/repos/${repository.owner}/${repository.name}`
  }

  const repository: Githost['repository'] = async (repo_url, id, etags) => {
    const url = id === null ? repositoryApi(repo_url) : `${api}/repositories/${encodeURIComponent(id)}`
    const { status, body } = await get(url, etags)
    if (status === 304) return 'unchanged'
    return status === 200 ? toHostedRepository(row.base_url, parseResponse(ListedRepository, api, body)) : null
  }

  const openPulls: Githost['openPulls'] = async (repo_url, etags) => {
    const url = `${repositoryApi(repo_url)}/pulls?state=open&sort=updated&direction=desc&limit=50&per_page=100`
    const parse = ({ body }: { body: unknown }) => parseResponse(PullResponses, api, body).map(toHostedPull)
    return listPulls({ urlOf: page => `${url}&page=${page}`, pageSize, parse }, etags)
  }

  const pull: Githost['pull'] = async (repo_url, number) => {
    const { status, body } = await get(`${repositoryApi(repo_url)}/pulls/${number}`)
    return status === 200 ? toHostedPull(parseResponse(PullResponse, api, body)) : null
  }

  const branches: Githost['branches'] = (repo_url, etags) =>
    listBranches({ url: `${repositoryApi(repo_url)}/branches?limit=50&per_page=100`, pageSize }, etags)

  const setStatus: Githost['setStatus'] = async (repo_url, sha, { state, url, description, context }) => {
    const text = description.slice(0, MAX_DESCRIPTION_LENGTH)
    const json = { state, description: text, context, ...(url !== null && { target_url: url }) }
    const { status } = await write('POST', `${repositoryApi(repo_url)}/statuses/${encodeURIComponent(sha)}`, json)
    if (status > 201) throw fail('repository_not_found')
  }

  const comment: Githost['comment'] = async (repo_url, pull_number, body, comment_id) => {
    const issuesUrl = `${repositoryApi(repo_url)}/issues`
    const place = {
      listUrl: `${issuesUrl}/${pull_number}/comments`,
      pageQuery: 'per_page=100&limit=100',
      editMethod: 'PATCH' as const,
      editUrl: (id: string) => `${issuesUrl}/comments/${id}`,
    }
    return writeComment(place, body, comment_id)
  }

  return { repositoryApi, repository, openPulls, pull, branches, setStatus, comment }
}
