// Verifies with the git host who owns an installation or an account, before it is connected.
import * as z from 'zod'
import type { GitHubApp } from '../../env.ts'
import type { Ctx, HostServices } from '../../kernel/http/context.ts'
import { fail } from '../../kernel/http/errors.ts'
import type { GuardedClient } from '../../kernel/http/guarded-fetch.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import { appJwt } from './app-jwt.ts'
import * as gitea from './gitea.ts'
import { type Integration, parseRepositoryUrl } from './githost.ts'
import * as github from './github.ts'
import * as gitlab from './gitlab.ts'
import { GitlabAccount } from './gitlab-responses.ts'
import { PathName } from './host-responses.ts'
import { basicHeaders, type GitLogin } from './plain-git.ts'
import { createGuardedHostClient, parseResponse, requestHost } from './request.ts'
import { listRefs } from './smart-http.ts'

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

type AccountRequest = { api: string; headers: Record<string, string>; listPath: string }

function requestsOf(host: Integration['host'], base_url: string, token: string): AccountRequest {
  if (host === 'gitlab')
    return {
      api: gitlab.apiUrlOf(base_url),
      headers: gitlab.headersFor(token),
      listPath: '/projects?membership=true&per_page=1',
    }
  return { api: gitea.apiUrlOf(base_url), headers: gitea.headersFor(token), listPath: '/user/repos?limit=1' }
}

/** Null where the URL has no API of this kind of host. */
export async function fetchAccount(
  client: GuardedClient,
  { host, base_url }: Pick<Integration, 'host' | 'base_url'>,
  login: GitLogin,
): Promise<ProvenAccount | null> {
  if (host === 'git') return fetchRepository(client, base_url, login)
  const token = login.token ?? ''
  const { api, headers, listPath } = requestsOf(host, base_url, token)
  const url = `${api}/user`
  const { status, body } = await requestHost(client, url, { headers })
  // Fails if the token lacks the permission to list repositories.
  await requestHost(client, api + listPath, { headers })
  if (status === 404) return null
  const answer = status === 200 ? body : undefined
  const { id, name } = host === 'gitlab' ? readGitlabAccount(url, answer) : readAccount(url, answer)
  const account_id = String(id)
  return { host, base_url, app_id: null, installation_id: account_id, account_id, name, state: 'active' }
}

async function fetchRepository(client: GuardedClient, base_url: string, login: GitLogin) {
  const refs = await listRefs({ client, url: base_url, headers: basicHeaders(login) }, ['HEAD'])
  return refs && describeRepository(base_url)
}

/** The repository stands for the account: its URL is all that is known of it. */
export function describeRepository(base_url: string): ProvenAccount {
  const { owner, name } = parseRepositoryUrl({ host: 'git', base_url }, base_url)!
  const account = { app_id: null, installation_id: base_url, account_id: base_url, name: `${owner}/${name}` }
  return { host: 'git', base_url, ...account, state: 'active' }
}

function readAccount(url: string, answer: unknown) {
  const { id, login } = parseResponse(Account, url, answer)
  return { id, name: login }
}

function readGitlabAccount(url: string, answer: unknown) {
  const { id, username } = parseResponse(GitlabAccount, url, answer)
  return { id, name: username }
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
