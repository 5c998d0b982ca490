// Gitea and Forgejo: an account, by its access token.
import { fail } from '../kernel/errors.ts'
import type { Services } from '../kernel/routes.ts'
import { arrayOf } from '../protocol/wire.ts'
import { openCredentials } from './credentials.ts'
import type { Githost, Integration } from './githost.ts'
import { parseRepositoryUrl } from './githost.ts'
import { CommitResponse, ListedRepository, toCommit } from './host-responses.ts'
import { createGuardedHostClient, parseResponse } from './request.ts'
import { createRestClient } from './rest-client.ts'

/** As many as it gives at once unless it was told otherwise. */
const PAGE_SIZE = 50
const Repositories = arrayOf(ListedRepository, 1000)
const Commits = arrayOf(CommitResponse, 100)

export const apiUrlOf = (base_url: string): string => `${base_url}/api/v1`
export const headersFor = (token: string) => ({ Accept: 'application/json', Authorization: `token ${token}` })

export function createGiteaHost(
  { config, sealer }: Pick<Services, 'config' | 'sealer'>,
  origin: string,
  row: Integration,
): Githost {
  const api = apiUrlOf(row.base_url)
  const way = () => createGuardedHostClient(config, origin)
  let opened: Promise<string> | undefined
  async function open(): Promise<string> {
    const { token } = (await openCredentials(sealer, row)) ?? {}
    if (!token) throw fail('integration_revoked')
    return token
  }
  function token() {
    opened ??= open()
    return opened
  }
  const headers = async () => headersFor(await token())
  const { at, get, pages, setStatus, comment } = createRestClient({ row, api, way, headers })

  return {
    repositories: known =>
      pages(
        known,
        number => `${api}/user/repos?limit=${PAGE_SIZE}&page=${number}`,
        PAGE_SIZE,
        ({ headers, body }) => {
          const listed = parseResponse(Repositories, api, body)
          return { total: Number(/^\d{1,9}$/.exec(headers.get('X-Total-Count') ?? '') ?? listed.length), listed }
        },
      ),

    async commit(repo_url, ref) {
      const query = new URLSearchParams({ sha: ref, limit: '1', stat: 'false', verification: 'false', files: 'false' })
      const { status, body } = await get(`${at(repo_url)}/commits?${query}`)
      const [found] = status === 200 ? parseResponse(Commits, api, body) : []
      return found ? toCommit(found) : null
    },

    /** Its own token: such a host gives none that is narrower or shorter-lived, and does not mind the name. */
    async credential(repo_url) {
      if (!parseRepositoryUrl(row.base_url, repo_url)) throw fail('repository_not_found')
      return { username: 'oauth2', password: await token(), expires_at: null }
    },

    setStatus,
    comment,
    mintedToken: () => null,
  }
}
