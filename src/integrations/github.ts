// GitHub, in the cloud and as an Enterprise Server: an App's installation, by tokens that last an hour.
import * as z from 'zod'
import { fail } from '../kernel/errors.ts'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import type { Services } from '../kernel/routes.ts'
import { boundedText } from '../protocol/wire.ts'
import { appJwt } from './app-jwt.ts'
import { openCredentials, openStoredToken } from './credentials.ts'
import type { Githost, HostToken, Integration } from './githost.ts'
import { parseRepositoryUrl } from './githost.ts'
import { CommitResponse, RepositoryListing, toCommit } from './host-responses.ts'
import { createGuardedHostClient, parseResponse, requestHost } from './request.ts'
import { createRestClient } from './rest-client.ts'

const PAGE_SIZE = 100

/** The cloud's API has a host of its own, for companies of their own too; an Enterprise Server's is a path. */
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

/** A token of an installation, perhaps narrowed to less than the App may. */
export async function createInstallationToken(
  way: GuardedClient,
  api: string,
  app: App,
  installation_id: string,
  narrowed?: object,
): Promise<HostToken> {
  const url = `${api}/app/installations/${encodeURIComponent(installation_id)}/access_tokens`
  const headers = headersFor(appJwt(app.id, app.privateKey))
  const { status, body } = await requestHost(way, url, { method: 'POST', headers, json: narrowed ?? {} })
  if (status === 404) throw fail('integration_revoked')
  if (status === 422) throw fail('repository_not_found')
  return parseResponse(InstallationToken, url, body)
}

export function createGithubHost(
  { config, sealer }: Pick<Services, 'config' | 'sealer'>,
  origin: string,
  row: Integration,
): Githost {
  const api = apiUrlOf(row.base_url)
  const way = () => createGuardedHostClient(config, origin)
  let minted: HostToken | null = null
  let token: Promise<HostToken> | undefined

  async function app(): Promise<App> {
    const { private_key } = (await openCredentials(sealer, row)) ?? {}
    if (private_key && row.app_id) return { id: row.app_id, privateKey: private_key }
    const { github } = config
    if (github?.baseUrl !== row.base_url) throw fail('githost_app_missing')
    return { id: github.appId, privateKey: github.privateKey }
  }
  async function fresh(): Promise<HostToken> {
    const kept = await openStoredToken(sealer, row)
    if (kept) return kept
    minted = await createInstallationToken(way(), api, await app(), row.installation_id)
    return minted
  }
  async function headers() {
    token ??= fresh()
    return headersFor((await token).token)
  }
  const { at, get, pages, setStatus, comment } = createRestClient({ row, api, way, headers })

  return {
    repositories: known =>
      pages(
        known,
        number => `${api}/installation/repositories?per_page=${PAGE_SIZE}&page=${number}`,
        PAGE_SIZE,
        ({ body }) => {
          const { total_count, repositories } = parseResponse(RepositoryListing, api, body)
          return { total: total_count, listed: repositories }
        },
      ),

    async commit(repo_url, ref) {
      const named = ref
        .replace(/^refs\//, '')
        .split('/')
        .map(encodeURIComponent)
        .join('/')
      const { status, body } = await get(`${at(repo_url)}/commits/${named}`)
      return status === 200 ? toCommit(parseResponse(CommitResponse, api, body)) : null
    },

    async credential(repo_url) {
      const { name } = parseRepositoryUrl(row.base_url, repo_url) ?? {}
      if (name === undefined) throw fail('repository_not_found')
      const narrowed = { repositories: [name], permissions: { contents: 'read' } }
      const { token, expires_at } = await createInstallationToken(
        way(),
        api,
        await app(),
        row.installation_id,
        narrowed,
      )
      return { username: 'x-access-token', password: token, expires_at }
    },

    setStatus,
    comment,
    mintedToken: () => minted,
  }
}
