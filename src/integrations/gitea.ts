// Gitea and Forgejo: an account, by its access token.
import { fail } from '../kernel/errors.ts'
import type { Services } from '../kernel/routes.ts'
import { arrayOf } from '../kernel/wire.ts'
import { hostWay, shaped } from './asking.ts'
import { credentialsOf } from './credentials.ts'
import type { Githost, Integration } from './githost.ts'
import { repositoryAt } from './githost.ts'
import { CommitBody, commitOf, ListedRepository } from './host-answers.ts'
import { tongue } from './tongue.ts'

/** As many as it gives at once unless it was told otherwise. */
const EACH = 50
const Repositories = arrayOf(ListedRepository, 1000)
const Commits = arrayOf(CommitBody, 100)

export const apiOf = (base_url: string): string => `${base_url}/api/v1`
export const headersFor = (token: string) => ({ Accept: 'application/json', Authorization: `token ${token}` })

export function giteaHost(
  { config, sealer }: Pick<Services, 'config' | 'sealer'>,
  origin: string,
  row: Integration,
): Githost {
  const api = apiOf(row.base_url)
  const way = () => hostWay(config, origin)
  let opened: Promise<string> | undefined
  async function open(): Promise<string> {
    const { token } = (await credentialsOf(sealer, row)) ?? {}
    if (!token) throw fail('integration_revoked')
    return token
  }
  function token() {
    opened ??= open()
    return opened
  }
  const headers = async () => headersFor(await token())
  const { at, get, pages, setStatus, comment } = tongue({ row, api, way, headers })

  return {
    repositories: known =>
      pages(
        known,
        number => `${api}/user/repos?limit=${EACH}&page=${number}`,
        EACH,
        ({ headers, body }) => {
          const listed = shaped(Repositories, api, body)
          return { total: Number(/^\d{1,9}$/.exec(headers.get('X-Total-Count') ?? '') ?? listed.length), listed }
        },
      ),

    async commit(repo_url, ref) {
      const query = new URLSearchParams({ sha: ref, limit: '1', stat: 'false', verification: 'false', files: 'false' })
      const { status, body } = await get(`${at(repo_url)}/commits?${query}`)
      const [found] = status === 200 ? shaped(Commits, api, body) : []
      return found ? commitOf(found) : null
    },

    /** Its own token: such a host gives none that is narrower or shorter-lived, and does not mind the name. */
    async credential(repo_url) {
      if (!repositoryAt(row.base_url, repo_url)) throw fail('repository_not_found')
      return { username: 'oauth2', password: await token(), expires_at: null }
    },

    setStatus,
    comment,
    minted: () => null,
  }
}
