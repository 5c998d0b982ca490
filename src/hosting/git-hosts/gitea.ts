// The client of Gitea and Forgejo, which authenticates with an account's access token.
import type { SealingServices } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import { arrayOf } from '../../protocol/wire.ts'
import { accountToken } from './credentials.ts'
import { giteaWebhooks } from './gitea-webhooks.ts'
import { type Githost, type Integration, parseRepositoryUrl } from './githost.ts'
import {
  CommitResponse,
  GiteaComparison,
  giteaChangedFiles,
  ListedRepository,
  toCommit,
  toRepository,
} from './host-responses.ts'
import { createRepositoryApi } from './repository-api.ts'
import { createGuardedHostClient, parseResponse } from './request.ts'
import { createRestClient } from './rest-client.ts'

/** Gitea's default maximum. */
const PAGE_SIZE = 50
const Repositories = arrayOf(ListedRepository, 1000)
const Commits = arrayOf(CommitResponse, 100)

export const apiUrlOf = (base_url: string): string => `${base_url}/api/v1`
export const headersFor = (token: string) => ({ Accept: 'application/json', Authorization: `token ${token}` })

export function createGiteaHost(
  { config, platform, sealer }: SealingServices,
  origin: string,
  row: Integration,
): Githost {
  const api = apiUrlOf(row.base_url)
  const client = () => createGuardedHostClient({ config, platform }, origin)
  const token = accountToken(sealer, row)
  const headers = async () => headersFor(await token())
  const rest = createRestClient({ api, client, headers })
  const requests = createRepositoryApi(rest, { row, api, pageSize: PAGE_SIZE })
  const { repositoryApi, repository, openPulls, pull, branches, setStatus, comment } = requests

  return {
    repositories: stored =>
      rest.listPages(stored, {
        urlOf: number => `${api}/user/repos?limit=${PAGE_SIZE}&page=${number}`,
        pageSize: PAGE_SIZE,
        parse: ({ headers, body }) => {
          const listed = parseResponse(Repositories, api, body)
          const total = Number(/^\d{1,9}$/.exec(headers.get('X-Total-Count') ?? '') ?? listed.length)
          return { total, listed: listed.map(one => toRepository(row.base_url, one)) }
        },
      }),

    ...rest.readHead(async (repo_url, ref, etags) => {
      const query = new URLSearchParams({ sha: ref, limit: '1', stat: 'false', verification: 'false', files: 'false' })
      const { status, body } = await rest.get(`${repositoryApi(repo_url)}/commits?${query}`, etags)
      if (status === 304) return 'unchanged'
      const [commit] = status === 200 ? parseResponse(Commits, api, body) : []
      return commit ? toCommit(commit) : null
    }),

    async changedFiles(repo_url, before, after) {
      const compare = async (range: string) => {
        const { status, body } = await rest.get(`${repositoryApi(repo_url)}/compare/${range}`)
        return status === 200 ? parseResponse(GiteaComparison, api, body) : null
      }
      // It compares with the merge base, so the other way round there must be nothing.
      const back = await compare(`${after}...${before}`)
      const comparison = back?.total_commits === 0 ? await compare(`${before}...${after}`) : null
      return comparison && giteaChangedFiles(comparison)
    },

    repository,
    openPulls,
    pull,
    branches,

    /** Gitea cannot mint narrower tokens, so this is the integration's own. It ignores the username. */
    async credential(repo_url) {
      if (!parseRepositoryUrl(row, repo_url)) throw fail('repository_not_found')
      return { username: 'oauth2', password: await token(), expires_at: null }
    },

    setStatus,
    showRevision: null,
    comment,
    ...giteaWebhooks({ ...rest, repositoryApi }),
    mintedToken: () => null,
  }
}
