// The client of GitHub, in the cloud and as an Enterprise Server: an App's installation, with tokens that last an hour.
import * as z from 'zod'
import type { SealingServices } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { boundedText } from '../../protocol/wire.ts'
import { appJwt } from './app-jwt.ts'
import { openCredentials, openStoredToken } from './credentials.ts'
import { type Githost, type HostToken, type Integration, parseRepositoryUrl } from './githost.ts'
import { githubDeployments } from './github-deployments.ts'
import {
  CommitResponse,
  GithubComparison,
  githubChangedFiles,
  RepositoryListing,
  toCommit,
  toRepository,
} from './host-responses.ts'
import { createRepositoryApi } from './repository-api.ts'
import { createGuardedHostClient, parseResponse, requestHost } from './request.ts'
import { createRestClient } from './rest-client.ts'

const PAGE_SIZE = 100

/** github.com and tenants on ghe.com have an API host. An Enterprise Server has an API path. */
export function apiUrlOf(base_url: string): string {
  const { protocol, host, pathname } = new URL(base_url)
  if (host === 'github.com' || host.endsWith('.ghe.com')) return `${protocol}//api.${host}`
  return `${protocol}//${host}${pathname.replace(/\/$/, '')}/api/v3`
}

export const headersFor = (token: string) => ({
  Accept: 'application/vnd.github+json',
  'X-GitHub-Api-Version': '2022-11-28',
  Authorization: `Bearer ${token}`,
})

const InstallationToken = z.object({
  token: boundedText(1000).regex(/^[\x21-\x7e]+$/),
  expires_at: z.iso.datetime({ offset: true }),
})

export type App = { id: string; privateKey: string }

/** `limits` narrows the token to some repositories or permissions of the installation. */
export async function createInstallationToken(
  client: GuardedClient,
  api: string,
  app: App,
  installation_id: string,
  limits: object = {},
): Promise<HostToken> {
  const url = `${api}/app/installations/${encodeURIComponent(installation_id)}/access_tokens`
  const headers = headersFor(await appJwt(app.id, app.privateKey))
  const { status, body } = await requestHost(client, url, { method: 'POST', headers, json: limits })
  if (status === 404) throw fail('integration_revoked')
  if (status === 422) throw fail('repository_not_found')
  return parseResponse(InstallationToken, url, body)
}

export function createGithubHost(
  { config, platform, sealer }: SealingServices,
  origin: string,
  row: Integration,
): Githost {
  const api = apiUrlOf(row.base_url)
  const client = () => createGuardedHostClient({ config, platform }, origin)
  let minted: HostToken | null = null
  let token: Promise<HostToken> | undefined

  async function app(): Promise<App> {
    const { private_key } = (await openCredentials(sealer, row)) ?? {}
    if (private_key && row.app_id) return { id: row.app_id, privateKey: private_key }
    const { github } = config
    if (github?.baseUrl !== row.base_url) throw fail('githost_app_missing')
    return { id: github.appId, privateKey: github.privateKey }
  }
  async function reuseOrMintToken(): Promise<HostToken> {
    const stored = await openStoredToken(sealer, row)
    if (stored) return stored
    minted = await createInstallationToken(client(), api, await app(), row.installation_id)
    return minted
  }
  async function headers() {
    token ??= reuseOrMintToken()
    return headersFor((await token).token)
  }
  const rest = createRestClient({ api, client, headers })
  const requests = createRepositoryApi(rest, { row, api, pageSize: PAGE_SIZE })
  const { repositoryApi, repository, openPulls, pull, branches, setStatus, comment } = requests

  return {
    repositories: stored =>
      rest.listPages(stored, {
        urlOf: number => `${api}/installation/repositories?per_page=${PAGE_SIZE}&page=${number}`,
        pageSize: PAGE_SIZE,
        parse: ({ body }) => {
          const { total_count, repositories } = parseResponse(RepositoryListing, api, body)
          return { total: total_count, listed: repositories.map(one => toRepository(row.base_url, one)) }
        },
      }),

    ...rest.readHead(async (repo_url, ref, etags) => {
      const segments = ref.replace(/^refs\//, '').split('/')
      const path = segments.map(encodeURIComponent).join('/')
      const { status, body } = await rest.get(`${repositoryApi(repo_url)}/commits/${path}`, etags)
      if (status === 304) return 'unchanged'
      return status === 200 ? toCommit(parseResponse(CommitResponse, api, body)) : null
    }),

    async changedFiles(repo_url, before, after) {
      const { status, body } = await rest.get(`${repositoryApi(repo_url)}/compare/${before}...${after}`)
      return status === 200 ? githubChangedFiles(parseResponse(GithubComparison, api, body)) : null
    },

    repository,
    openPulls,
    pull,
    branches,

    async credential(repo_url) {
      const { name } = parseRepositoryUrl(row, repo_url) ?? {}
      if (name === undefined) throw fail('repository_not_found')
      const limits = { repositories: [name], permissions: { contents: 'read' } }
      const narrow = await createInstallationToken(client(), api, await app(), row.installation_id, limits)
      return { username: 'x-access-token', password: narrow.token, expires_at: narrow.expires_at }
    },

    setStatus,
    showRevision: githubDeployments({ ...rest, repositoryApi }),
    comment,
    // An App has one webhook, for all repositories of its installations.
    ensureWebhook: async () => null,
    removeWebhook: async () => {},
    mintedToken: () => minted,
  }
}
