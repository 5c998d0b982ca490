// Requests of one integration to its host: conditional by ETag, and paged listings.
import { fail } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import type { Commit, Etags, Githost, HostedPull, ListingPage, Repository, Unchanged } from './githost.ts'
import { BranchResponses, CreatedComment, ListedComments } from './host-responses.ts'
import {
  countPages,
  type HostResponse,
  mapConcurrently,
  parseResponse,
  requestHost,
  unusableResponse,
} from './request.ts'

const MAX_ETAG_LENGTH = 200
/** A repository has at most 10 pages of open pull requests that count. */
const MAX_PULL_PAGES = 10
const MAX_LISTING_MS = 25_000
const MAX_BRANCH_PAGES = 40

type FetchHead = (repo_url: string, ref: string, etags: Etags) => Promise<Commit | null | Unchanged>
type RestClientOptions = {
  api: string
  client: () => GuardedClient
  headers: () => Promise<Record<string, string>>
}
type Listing = {
  urlOf: (page: number) => string
  pageSize: number
  parse: (response: HostResponse) => { total: number; listed: Repository[] }
}
type PullListing = {
  /** Ordered by the last change, newest first, so that a change of any pull request changes the first page. */
  urlOf: (page: number) => string
  pageSize: number
  parse: (response: HostResponse) => HostedPull[]
}

type CommentPlace = {
  listUrl: string
  pageQuery: string
  editMethod: 'PATCH' | 'PUT'
  editUrl: (id: string) => string
}

export type RestClient = ReturnType<typeof createRestClient>

export function createRestClient({ api, client, headers }: RestClientOptions) {
  const get = async (url: string, etags: Etags = {}): Promise<HostResponse> => {
    const condition = etags[url] === undefined ? {} : { 'If-None-Match': etags[url] }
    const response = await requestHost(client(), url, { headers: { ...(await headers()), ...condition } })
    const etag = response.headers.get('ETag')
    if (response.status === 200 && etag !== null && etag.length <= MAX_ETAG_LENGTH) etags[url] = etag
    return response
  }
  /** `passes`: statuses that are returned, too. */
  const write = async (method: string, url: string, json: object, passes: number[] = []): Promise<HostResponse> =>
    requestHost(client(), url, { method, headers: await headers(), json, passes })

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
      const page = { etag: response.headers.get('ETag'), repositories: listed }
      return { page, pageCount: countPages(response.headers, Math.min(pageSize, listed.length), total) }
    }
    const first = await fetchPage(1)
    const otherNumbers = Array.from({ length: Math.max(0, first.pageCount - 1) }, (_, i) => i + 2)
    return [first.page, ...(await mapConcurrently(otherNumbers, async number => (await fetchPage(number)).page))]
  }

  async function listPulls({ urlOf, pageSize, parse }: PullListing, etags: Etags = {}) {
    const pulls: HostedPull[] = []
    const deadline = Date.now() + MAX_LISTING_MS
    for (let page = 1; page <= MAX_PULL_PAGES; page++) {
      if (Date.now() > deadline) throw unusableResponse(api, 'it lists its pull requests too slowly')
      const response = await get(urlOf(page), page === 1 ? etags : {})
      if (response.status === 304) return 'unchanged' as const
      if (response.status !== 200) throw fail('repository_not_found')
      const listed = parse(response)
      pulls.push(...listed)
      if (listed.length < pageSize) break
    }
    return pulls
  }

  /**
   * Pages are ordered by name, so any of them can change. Each is asked for with its ETag: if one has changed, the
   * others are asked for again without. Behind a full page another one is asked for, though it is empty: a branch that
   * comes last changes no page before.
   */
  async function listBranches(
    { url, pageSize }: { url: string; pageSize: number },
    etags: Etags = {},
  ): Promise<Record<string, string> | Unchanged> {
    const deadline = Date.now() + MAX_LISTING_MS
    const urlOf = (page: number) => `${url}&page=${page}`
    const isKnown = etags[urlOf(1)] !== undefined
    // A branch can be called `__proto__`.
    const heads: [branch: string, sha: string][] = []
    for (let page = 1; page <= MAX_BRANCH_PAGES; page++) {
      if (Date.now() > deadline) throw unusableResponse(api, 'it lists its branches too slowly')
      const response = await get(urlOf(page), etags)
      if (response.status === 304) {
        if (etags[urlOf(page + 1)] === undefined) return 'unchanged'
        continue
      }
      if (response.status !== 200) throw fail('repository_not_found')
      if (isKnown) {
        for (const known of Object.keys(etags)) if (known.startsWith(`${url}&page=`)) delete etags[known]
        return listBranches({ url, pageSize }, etags)
      }
      const listed = parseResponse(BranchResponses, api, response.body)
      heads.push(...listed.map(({ name, commit }): [string, string] => [name, commit.sha]))
      // A host may be set to shorter pages than those asked for.
      if (listed.length < pageSize && !response.headers.get('Link')?.includes('rel="next"')) break
    }
    return Object.fromEntries(heads)
  }

  /** Finds a comment whose id was lost, by the marker in its first line. */
  async function findByMarker({ listUrl, pageQuery }: CommentPlace, body: string): Promise<string | null> {
    const [marker = ''] = body.split('\n', 1)
    if (!marker.startsWith('<!--')) return null
    const response = await get(`${listUrl}?${pageQuery}`)
    const comments = response.status === 200 ? (ListedComments.safeParse(response.body).data ?? []) : []
    const match = comments.find(comment => comment.body.startsWith(marker))
    return match ? String(match.id) : null
  }

  /** Edits the comment with this id, or with the same marker, else creates one. Returns its id. */
  async function writeComment(place: CommentPlace, body: string, comment_id: string | null): Promise<string> {
    const existing = comment_id ?? (await findByMarker(place, body))
    if (existing !== null) {
      const edited = await write(place.editMethod, place.editUrl(encodeURIComponent(existing)), { body })
      if (edited.status === 200) return existing
    }
    const created = await write('POST', place.listUrl, { body })
    if (created.status > 201) throw fail('repository_not_found')
    return String(parseResponse(CreatedComment, api, created.body).id)
  }

  /** Both requests for a head are one, with and without a condition. */
  const readHead = (fetchHead: FetchHead): Pick<Githost, 'commit' | 'head'> => ({
    commit: async (repo_url, ref) => (await fetchHead(repo_url, ref, {})) as Commit | null,
    head: fetchHead,
  })

  return { get, write, listPages, listPulls, listBranches, writeComment, readHead }
}
