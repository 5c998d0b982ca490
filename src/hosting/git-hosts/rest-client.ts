// The part of the REST API that GitHub and Gitea share: paged listings, commit statuses and comments.
import type * as z from 'zod'
import { fail } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import {
  type Commit,
  type Etags,
  type Githost,
  type HostedPull,
  type Integration,
  type ListingPage,
  parseRepositoryUrl,
  type Unchanged,
} from './githost.ts'
import {
  CreatedComment,
  ListedComments,
  ListedRepository,
  PullResponse,
  PullResponses,
  toHostedPull,
  toHostedRepository,
  toRepository,
} from './host-responses.ts'
import {
  countPages,
  type HostResponse,
  mapConcurrently,
  parseResponse,
  requestHost,
  unusableResponse,
} from './request.ts'

const MAX_DESCRIPTION_LENGTH = 140
/** Hosts list at most 50 or 100 on a page. A repository has at most 10 pages of open pull requests that count. */
const MAX_PULL_PAGES = 10
const MAX_PULLS_MS = 25_000

const PULL_PAGE_SIZES = { github: 100, gitea: 50 } as const
const MAX_ETAG_LENGTH = 200

type FetchHead = (repo_url: string, ref: string, etags: Etags) => Promise<Commit | null | Unchanged>
type RestClientOptions = {
  row: Integration
  api: string
  client: () => GuardedClient
  headers: () => Promise<Record<string, string>>
}
type Listing = {
  urlOf: (page: number) => string
  pageSize: number
  parse: (response: HostResponse) => { total: number; listed: z.output<typeof ListedRepository>[] }
}

export type RestClient = ReturnType<typeof createRestClient>

export function createRestClient({ row, api, client, headers }: RestClientOptions) {
  const repositoryApi = (repo_url: string): string => {
    const repository = parseRepositoryUrl(row.base_url, repo_url)
    if (!repository) throw fail('repository_not_found')
    return `${api}/repos/${repository.owner}/${repository.name}`
  }
  const get = async (url: string, etags: Etags = {}): Promise<HostResponse> => {
    const condition = etags[url] === undefined ? {} : { 'If-None-Match': etags[url] }
    const response = await requestHost(client(), url, { headers: { ...(await headers()), ...condition } })
    const etag = response.headers.get('ETag')
    if (response.status === 200 && etag !== null && etag.length <= MAX_ETAG_LENGTH) etags[url] = etag
    return response
  }
  const write = async (method: string, url: string, json: object): Promise<HostResponse> =>
    requestHost(client(), url, { method, headers: await headers(), json })

  /** Fetches the first page, which tells how many there are, then the others concurrently. */
  async function listPages(stored: ListingPage[], { urlOf, pageSize, parse }: Listing): Promise<ListingPage[]> {
    const listingClient = client()
    const commonHeaders = await headers()
    async function fetchPage(number: number): Promise<{ page: ListingPage; pageCount: number }> {
      const storedPage = stored[number - 1]
      const condition = storedPage?.etag ? { 'If-None-Match': storedPage.etag } : {}
      const response = await requestHost(listingClient, urlOf(number), { headers: { ...commonHeaders, ...condition } })
      // The first page includes the total: while it is unchanged, so is the number of pages.
      if (response.status === 304 && storedPage) return { page: storedPage, pageCount: stored.length }
      if (response.status !== 200) throw unusableResponse(api, `it answered ${response.status}`)
      const { total, listed } = parse(response)
      const repositories = listed.map(repository => toRepository(row.base_url, repository))
      const page = { etag: response.headers.get('ETag'), repositories }
      return { page, pageCount: countPages(response.headers, Math.min(pageSize, listed.length), total) }
    }
    const first = await fetchPage(1)
    const otherNumbers = Array.from({ length: Math.max(0, first.pageCount - 1) }, (_, i) => i + 2)
    return [first.page, ...(await mapConcurrently(otherNumbers, async number => (await fetchPage(number)).page))]
  }

  const repository: Githost['repository'] = async (repo_url, id, etags) => {
    const url = id === null ? repositoryApi(repo_url) : `${api}/repositories/${encodeURIComponent(id)}`
    const { status, body } = await get(url, etags)
    if (status === 304) return 'unchanged'
    return status === 200 ? toHostedRepository(row.base_url, parseResponse(ListedRepository, api, body)) : null
  }

  const openPulls: Githost['openPulls'] = async (repo_url, etags) => {
    const pulls: HostedPull[] = []
    const deadline = Date.now() + MAX_PULLS_MS
    for (let page = 1; page <= MAX_PULL_PAGES; page++) {
      const query = `state=open&sort=updated&direction=desc&limit=50&per_page=100&page=${page}`
      if (Date.now() > deadline) throw unusableResponse(api, 'it lists its pull requests too slowly')
      // Pages are ordered by the last change, so a change of any pull request changes the first one.
      const response = await get(`${repositoryApi(repo_url)}/pulls?${query}`, page === 1 ? etags : {})
      if (response.status === 304) return 'unchanged'
      if (response.status !== 200) throw fail('repository_not_found')
      const listed = parseResponse(PullResponses, api, response.body)
      pulls.push(...listed.map(toHostedPull))
      if (listed.length < PULL_PAGE_SIZES[row.host]) break
    }
    return pulls
  }

  const pull: Githost['pull'] = async (repo_url, number) => {
    const { status, body } = await get(`${repositoryApi(repo_url)}/pulls/${number}`)
    return status === 200 ? toHostedPull(parseResponse(PullResponse, api, body)) : null
  }

  const setStatus: Githost['setStatus'] = async (repo_url, sha, { state, url, description, context }) => {
    const text = description.slice(0, MAX_DESCRIPTION_LENGTH)
    const json = { state, description: text, context, ...(url !== null && { target_url: url }) }
    const { status } = await write('POST', `${repositoryApi(repo_url)}/statuses/${encodeURIComponent(sha)}`, json)
    if (status > 201) throw fail('repository_not_found')
  }

  /** Finds a comment whose id was lost, by the marker in its first line. */
  async function findByMarker(commentsUrl: string, body: string): Promise<string | null> {
    const [marker = ''] = body.split('\n', 1)
    if (!marker.startsWith('<!--')) return null
    const response = await get(`${commentsUrl}?per_page=100&limit=100`)
    const comments = response.status === 200 ? (ListedComments.safeParse(response.body).data ?? []) : []
    const match = comments.find(comment => comment.body.startsWith(marker))
    return match ? String(match.id) : null
  }

  const comment: Githost['comment'] = async (repo_url, pull_number, body, comment_id) => {
    const issuesUrl = `${repositoryApi(repo_url)}/issues`
    const commentsUrl = `${issuesUrl}/${pull_number}/comments`
    const existing = comment_id ?? (await findByMarker(commentsUrl, body))
    if (existing !== null) {
      const edited = await write('PATCH', `${issuesUrl}/comments/${encodeURIComponent(existing)}`, { body })
      if (edited.status === 200) return existing
    }
    const created = await write('POST', commentsUrl, { body })
    if (created.status > 201) throw fail('repository_not_found')
    return String(parseResponse(CreatedComment, api, created.body).id)
  }

  /** Both requests for a head are one, with and without a condition. */
  const readHead = (fetchHead: FetchHead): Pick<Githost, 'commit' | 'head'> => ({
    commit: async (repo_url, ref) => (await fetchHead(repo_url, ref, {})) as Commit | null,
    head: fetchHead,
  })

  return { repositoryApi, get, write, listPages, repository, openPulls, pull, readHead, setStatus, comment }
}
