// What GitHub and Gitea say alike: listings in pages, statuses and comments.
import type * as z from 'zod'
import { fail } from '../kernel/errors.ts'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import { type Githost, type Integration, type ListingPage, parseRepositoryUrl } from './githost.ts'
import { CreatedComment, ListedComments, type ListedRepository, toRepository } from './host-responses.ts'
import {
  countPages,
  type HostResponse,
  mapConcurrently,
  parseResponse,
  requestHost,
  unusableResponse,
} from './request.ts'

type RestClientOptions = {
  row: Integration
  /** Where its API stands. */
  api: string
  way: () => GuardedClient
  headers: () => Promise<Record<string, string>>
}
type ListedPage = { total: number; listed: z.output<typeof ListedRepository>[] }

export function createRestClient({ row, api, way, headers }: RestClientOptions) {
  const at = (repo_url: string): string => {
    const repository = parseRepositoryUrl(row.base_url, repo_url)
    if (!repository) throw fail('repository_not_found')
    return `${api}/repos/${repository.owner}/${repository.name}`
  }
  const get = async (url: string): Promise<HostResponse> => requestHost(way(), url, { headers: await headers() })
  const write = async (method: string, url: string, json: object): Promise<HostResponse> =>
    requestHost(way(), url, { method, headers: await headers(), json })

  /** The first page, which tells how many there are, and then the others side by side. */
  async function pages(
    known: ListingPage[],
    urlOf: (number: number) => string,
    each: number,
    read: (asked: HostResponse) => ListedPage,
  ) {
    const out = way()
    const standing = await headers()
    async function page(number: number): Promise<{ page: ListingPage; pages: number }> {
      const before = known[number - 1]
      const conditional = before?.etag ? { 'If-None-Match': before.etag } : {}
      const asked = await requestHost(out, urlOf(number), { headers: { ...standing, ...conditional } })
      // The first page tells the total: while it stands, there are as many pages as before.
      if (asked.status === 304 && before) return { page: before, pages: known.length }
      if (asked.status !== 200) throw unusableResponse(api, `it answered ${asked.status}`)
      const { total, listed } = read(asked)
      const repositories = listed.map(one => toRepository(row.base_url, one))
      const etag = asked.headers.get('ETag')
      return { page: { etag, repositories }, pages: countPages(asked.headers, Math.min(each, listed.length), total) }
    }
    const first = await page(1)
    const rest = Array.from({ length: Math.max(0, first.pages - 1) }, (_, i) => i + 2)
    return [first.page, ...(await mapConcurrently(rest, async number => (await page(number)).page))]
  }

  const setStatus: Githost['setStatus'] = async (repo_url, sha, { state, url, description, context }) => {
    const wish = { state, description: description.slice(0, 140), context, ...(url !== null && { target_url: url }) }
    const { status } = await write('POST', `${at(repo_url)}/statuses/${encodeURIComponent(sha)}`, wish)
    if (status > 201) throw fail('repository_not_found')
  }

  /** One that was made before its id could be kept, known by the same first line, if that is a mark of ours. */
  async function earlier(comments: string, body: string): Promise<string | null> {
    const [mark = ''] = body.split('\n', 1)
    if (!mark.startsWith('<!--')) return null
    const { status, body: listed } = await get(`${comments}?per_page=100&limit=100`)
    const all = status === 200 ? (ListedComments.safeParse(listed).data ?? []) : []
    const found = all.find(one => one.body.startsWith(mark))
    return found ? String(found.id) : null
  }

  const comment: Githost['comment'] = async (repo_url, pull_number, body, comment_id) => {
    const issues = `${at(repo_url)}/issues`
    if (comment_id !== null) {
      const edited = await write('PATCH', `${issues}/comments/${encodeURIComponent(comment_id)}`, { body })
      if (edited.status === 200) return comment_id
    }
    const own = comment_id === null ? await earlier(`${issues}/${pull_number}/comments`, body) : null
    if (own !== null) {
      const edited = await write('PATCH', `${issues}/comments/${own}`, { body })
      if (edited.status === 200) return own
    }
    const made = await write('POST', `${issues}/${pull_number}/comments`, { body })
    if (made.status > 201) throw fail('repository_not_found')
    return String(parseResponse(CreatedComment, api, made.body).id)
  }

  return { at, get, pages, setStatus, comment }
}
