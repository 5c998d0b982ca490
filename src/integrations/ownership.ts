// Whose an integration is: what a host says of an installation or an account, to whoever can prove to be of it.
import * as z from 'zod'
import type { GitHubApp } from '../env.ts'
import type { Ctx } from '../kernel/context.ts'
import { fail } from '../kernel/errors.ts'
import type { GuardedClient } from '../kernel/guarded-fetch.ts'
import { arrayOf, boundedText } from '../protocol/wire.ts'
import { appJwt } from './app-jwt.ts'
import * as gitea from './gitea.ts'
import type { Integration } from './githost.ts'
import * as github from './github.ts'
import { PathName } from './host-responses.ts'
import { createGuardedHostClient, parseResponse, requestHost } from './request.ts'

/** Who it is at the host, and whether the host answers for it now. */
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

/** As the App itself sees it: it has to be its own. */
export async function fetchInstallation(
  way: GuardedClient,
  base_url: string,
  app: github.App,
  installation_id: string,
): Promise<Omit<ProvenAccount, 'app_id'> | null> {
  const url = `${github.apiUrlOf(base_url)}/app/installations/${encodeURIComponent(installation_id)}`
  const headers = github.headersFor(appJwt(app.id, app.privateKey))
  const { status, body } = await requestHost(way, url, { headers })
  if (status === 404) return null
  const { id, account, suspended_at } = parseResponse(Installation, url, status === 200 ? body : undefined)
  const state = suspended_at == null ? 'active' : 'suspended'
  return {
    host: 'github',
    base_url,
    installation_id: String(id),
    account_id: String(account.id),
    name: account.login,
    state,
  }
}

/** The account that a token is of; that it may list is seen by listing. */
export async function fetchAccount(way: GuardedClient, base_url: string, token: string): Promise<ProvenAccount | null> {
  const api = gitea.apiUrlOf(base_url)
  const headers = gitea.headersFor(token)
  const url = `${api}/user`
  const [{ status, body }] = [
    await requestHost(way, url, { headers }),
    await requestHost(way, `${api}/user/repos?limit=1`, { headers }),
  ]
  if (status === 404) return null
  const { id, login } = parseResponse(z.object({ id: Id, login: PathName }), url, status === 200 ? body : undefined)
  const known = { installation_id: String(id), account_id: String(id), name: login }
  return { host: 'gitea', base_url, app_id: null, ...known, state: 'active' }
}

// ---- a person who installed the operator's App

const UserTokenResponse = z.object({ access_token: boundedText(1000).regex(/^[\x21-\x7e]+$/) })
const InstallationListing = z.object({ total_count: Id, installations: arrayOf(z.object({ id: Id }), 1000) })
const RepositoryCount = z.object({ total_count: Id })
const [PAGE_SIZE, MAX_PAGES] = [100, 10]

/** What people may say to be theirs by this code: the host knows the person, and what the App gave them. */
export async function proveInstallation(
  { config, origin }: Pick<Ctx, 'config' | 'origin'>,
  app: GitHubApp,
  installation_id: string,
  code: string,
): Promise<ProvenAccount> {
  const way = createGuardedHostClient(config, origin)
  const api = github.apiUrlOf(app.baseUrl)
  const person = github.headersFor(await exchangeUserCode(way, app, code))
  if (!(await isInstallationListed(way, api, person, installation_id))) throw fail('installation_unproven')
  const own = { id: app.appId, privateKey: app.privateKey }
  const found = await fetchInstallation(way, app.baseUrl, own, installation_id)
  if (!found) throw fail('installation_unproven')
  if (found.state === 'suspended') throw fail('integration_suspended')
  // A member of an organisation sees its installation, though not all that it reaches: whoever connects it may see no less.
  const { token } = await github.createInstallationToken(way, api, own, installation_id)
  const [theirs, all] = [
    await countRepositories(way, `${api}/user/installations/${installation_id}/repositories?per_page=1`, person),
    await countRepositories(way, `${api}/installation/repositories?per_page=1`, github.headersFor(token)),
  ]
  if (theirs < all) throw fail('installation_unproven')
  return { ...found, app_id: null }
}

async function exchangeUserCode(
  way: GuardedClient,
  { baseUrl, clientId, clientSecret }: GitHubApp,
  code: string,
): Promise<string> {
  const form = { client_id: clientId, client_secret: clientSecret, code }
  const url = `${baseUrl}/login/oauth/access_token`
  const { status, body } = await requestHost(way, url, {
    method: 'POST',
    headers: { Accept: 'application/json' },
    form,
  })
  // It refuses a code by an answer that is well.
  const granted = UserTokenResponse.safeParse(body)
  if (status !== 200 || !granted.success) throw fail('installation_unproven')
  return granted.data.access_token
}

async function isInstallationListed(
  way: GuardedClient,
  api: string,
  headers: Record<string, string>,
  installation_id: string,
) {
  for (let number = 1, pages = 1; number <= Math.min(pages, MAX_PAGES); number++) {
    const url = `${api}/user/installations?per_page=${PAGE_SIZE}&page=${number}`
    const { status, body } = await requestHost(way, url, { headers })
    const { total_count, installations } = parseResponse(InstallationListing, url, status === 200 ? body : undefined)
    if (installations.some(({ id }) => String(id) === installation_id)) return true
    pages = Math.ceil(total_count / PAGE_SIZE)
  }
  return false
}

async function countRepositories(way: GuardedClient, url: string, headers: Record<string, string>): Promise<number> {
  const { status, body } = await requestHost(way, url, { headers })
  if (status === 404) throw fail('installation_unproven')
  return parseResponse(RepositoryCount, url, status === 200 ? body : undefined).total_count
}
