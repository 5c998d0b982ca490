// Verifies with the git host who owns an installation or an account, before it is connected.
import * as z from 'zod'
import type { GitHubApp } from '../../env.ts'
import type { Ctx, HostServices } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import { appJwt } from './app-jwt.ts'
import * as gitea from './gitea.ts'
import type { Integration } from './githost.ts'
import * as github from './github.ts'
import { PathName } from './host-responses.ts'
import { createGuardedHostClient, parseResponse, requestHost } from './request.ts'

export type ProvenAccount = Pick<
  Integration,
  'host' | 'base_url' | 'app_id' | 'installation_id' | 'account_id' | 'name'
> & {
  state: 'active' | 'suspended'
}

const Id = z.int().min(0)
const Installation = z.object({
  id: Id,
  account: z.object({ id: Id, login: PathName }),
  suspended_at: z.string().nullish(),
})
const Account = z.object({ id: Id, login: PathName })

export async function fetchInstallation(
  client: GuardedClient,
  base_url: string,
  app: github.App,
  installation_id: string,
): Promise<Omit<ProvenAccount, 'app_id'> | null> {
  const url = `${github.apiUrlOf(base_url)}/app/installations/${encodeURIComponent(installation_id)}`
  const headers = github.headersFor(await appJwt(app.id, app.privateKey))
  const { status, body } = await requestHost(client, url, { headers })
  if (status === 404) return null
  const { id, account, suspended_at } = parseResponse(Installation, url, status === 200 ? body : undefined)
  return {
    host: 'github',
    base_url,
    installation_id: String(id),
    account_id: String(account.id),
    name: account.login,
    state: suspended_at == null ? 'active' : 'suspended',
  }
}

/** Null where the URL has no API of Gitea. */
export async function fetchAccount(
  client: GuardedClient,
  base_url: string,
  token: string,
): Promise<ProvenAccount | null> {
  const api = gitea.apiUrlOf(base_url)
  const headers = gitea.headersFor(token)
  const url = `${api}/user`
  const { status, body } = await requestHost(client, url, { headers })
  // Fails if the token lacks the permission to list repositories.
  await requestHost(client, `${api}/user/repos?limit=1`, { headers })
  if (status === 404) return null
  const { id, login } = parseResponse(Account, url, status === 200 ? body : undefined)
  return {
    host: 'gitea',
    base_url,
    app_id: null,
    installation_id: String(id),
    account_id: String(id),
    name: login,
    state: 'active',
  }
}

// ---- a person who installed the operator's App

const UserTokenResponse = z.object({ access_token: boundedText(1000).regex(/^[\x21-\x7e]+$/) })
const InstallationListing = z.object({ total_count: Id, installations: arrayOf(z.object({ id: Id }), 1000) })
const RepositoryCount = z.object({ total_count: Id })
const [PAGE_SIZE, MAX_PAGES] = [100, 10]

/** `code` is the OAuth code with which GitHub sent the person back. */
export async function proveInstallation(
  { config, platform, origin }: HostServices & Pick<Ctx, 'origin'>,
  app: GitHubApp,
  installation_id: string,
  code: string,
): Promise<ProvenAccount> {
  const client = createGuardedHostClient({ config, platform }, origin)
  const api = github.apiUrlOf(app.baseUrl)
  const userHeaders = github.headersFor(await exchangeUserCode(client, app, code))
  if (!(await isInstallationListed(client, api, userHeaders, installation_id))) throw fail('installation_unproven')
  const appCredentials = { id: app.appId, privateKey: app.privateKey }
  const installation = await fetchInstallation(client, app.baseUrl, appCredentials, installation_id)
  if (!installation) throw fail('installation_unproven')
  if (installation.state === 'suspended') throw fail('integration_suspended')
  // A member of an organization can see its installation without access to all its repositories. To connect it, the
  // person must see as many as the App does.
  const { token } = await github.createInstallationToken(client, api, appCredentials, installation_id)
  const userUrl = `${api}/user/installations/${installation_id}/repositories?per_page=1`
  const appUrl = `${api}/installation/repositories?per_page=1`
  const userCount = await countRepositories(client, userUrl, userHeaders)
  const appCount = await countRepositories(client, appUrl, github.headersFor(token))
  if (userCount < appCount) throw fail('installation_unproven')
  return { ...installation, app_id: null }
}

async function exchangeUserCode(
  client: GuardedClient,
  { baseUrl, clientId, clientSecret }: GitHubApp,
  code: string,
): Promise<string> {
  const url = `${baseUrl}/login/oauth/access_token`
  const { status, body } = await requestHost(client, url, {
    method: 'POST',
    headers: { Accept: 'application/json' },
    form: { client_id: clientId, client_secret: clientSecret, code },
  })
  // GitHub rejects a code with status 200 and a body without a token.
  const response = UserTokenResponse.safeParse(body)
  if (status !== 200 || !response.success) throw fail('installation_unproven')
  return response.data.access_token
}

async function isInstallationListed(
  client: GuardedClient,
  api: string,
  headers: Record<string, string>,
  installation_id: string,
) {
  for (let page = 1, pageCount = 1; page <= Math.min(pageCount, MAX_PAGES); page++) {
    const url = `${api}/user/installations?per_page=${PAGE_SIZE}&page=${page}`
    const { status, body } = await requestHost(client, url, { headers })
    const { total_count, installations } = parseResponse(InstallationListing, url, status === 200 ? body : undefined)
    if (installations.some(({ id }) => String(id) === installation_id)) return true
    pageCount = Math.ceil(total_count / PAGE_SIZE)
  }
  return false
}

async function countRepositories(client: GuardedClient, url: string, headers: Record<string, string>): Promise<number> {
  const { status, body } = await requestHost(client, url, { headers })
  if (status === 404) throw fail('installation_unproven')
  return parseResponse(RepositoryCount, url, status === 200 ? body : undefined).total_count
}
