// Whose an integration is: what a host says of an installation or an account, to whoever can prove to be of it.
import * as z from 'zod'
import type { GitHubApp } from '../env.ts'
import type { Ctx } from '../kernel/context.ts'
import { fail } from '../kernel/errors.ts'
import type { Outside } from '../kernel/guarded-fetch.ts'
import { arrayOf, text } from '../kernel/wire.ts'
import { appWord } from './app-key.ts'
import { ask, hostWay, shaped } from './asking.ts'
import * as gitea from './gitea.ts'
import type { Integration } from './githost.ts'
import * as github from './github.ts'
import { Name } from './host-answers.ts'

/** Who it is at the host, and whether the host answers for it now. */
export type Found = Pick<Integration, 'host' | 'base_url' | 'app_id' | 'installation_id' | 'account_id' | 'name'> & {
  state: 'active' | 'suspended'
}

const Id = z.int().min(0)
const Installation = z.object({
  id: Id,
  account: z.object({ id: Id, login: Name }),
  suspended_at: z.string().nullish(),
})

/** As the App itself sees it: it has to be its own. */
export async function installationOf(
  way: Outside,
  base_url: string,
  app: github.App,
  installation_id: string,
): Promise<Omit<Found, 'app_id'> | null> {
  const url = `${github.apiOf(base_url)}/app/installations/${encodeURIComponent(installation_id)}`
  const headers = github.headersFor(await appWord(app.id, app.privateKey))
  const { status, body } = await ask(way, url, { headers })
  if (status === 404) return null
  const { id, account, suspended_at } = shaped(Installation, url, status === 200 ? body : undefined)
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
export async function accountOf(way: Outside, base_url: string, token: string): Promise<Found | null> {
  const api = gitea.apiOf(base_url)
  const headers = gitea.headersFor(token)
  const url = `${api}/user`
  const [{ status, body }] = [
    await ask(way, url, { headers }),
    await ask(way, `${api}/user/repos?limit=1`, { headers }),
  ]
  if (status === 404) return null
  const { id, login } = shaped(z.object({ id: Id, login: Name }), url, status === 200 ? body : undefined)
  const known = { installation_id: String(id), account_id: String(id), name: login }
  return { host: 'gitea', base_url, app_id: null, ...known, state: 'active' }
}

// ---- a person who installed the operator's App

const Granted = z.object({ access_token: text(1000).regex(/^[\x21-\x7e]+$/) })
const Installations = z.object({ total_count: Id, installations: arrayOf(z.object({ id: Id }), 1000) })
const Count = z.object({ total_count: Id })
const [EACH, MOST] = [100, 10]

/** What people may say to be theirs by this code: the host knows the person, and what the App gave them. */
export async function provenBy(
  { config, origin }: Pick<Ctx, 'config' | 'origin'>,
  app: GitHubApp,
  installation_id: string,
  code: string,
): Promise<Found> {
  const way = hostWay(config, origin)
  const api = github.apiOf(app.baseUrl)
  const person = github.headersFor(await personBy(way, app, code))
  if (!(await listed(way, api, person, installation_id))) throw fail('installation_unproven')
  const own = { id: app.appId, privateKey: app.privateKey }
  const found = await installationOf(way, app.baseUrl, own, installation_id)
  if (!found) throw fail('installation_unproven')
  if (found.state === 'suspended') throw fail('integration_suspended')
  // A member of an organisation sees its installation, though not all that it reaches: whoever connects it may see no less.
  const { token } = await github.mint(way, api, own, installation_id)
  const [theirs, all] = [
    await countOf(way, `${api}/user/installations/${installation_id}/repositories?per_page=1`, person),
    await countOf(way, `${api}/installation/repositories?per_page=1`, github.headersFor(token)),
  ]
  if (theirs < all) throw fail('installation_unproven')
  return { ...found, app_id: null }
}

async function personBy(way: Outside, { baseUrl, clientId, clientSecret }: GitHubApp, code: string): Promise<string> {
  const form = { client_id: clientId, client_secret: clientSecret, code }
  const url = `${baseUrl}/login/oauth/access_token`
  const { status, body } = await ask(way, url, { method: 'POST', headers: { Accept: 'application/json' }, form })
  // It refuses a code by an answer that is well.
  const granted = Granted.safeParse(body)
  if (status !== 200 || !granted.success) throw fail('installation_unproven')
  return granted.data.access_token
}

async function listed(way: Outside, api: string, headers: Record<string, string>, installation_id: string) {
  for (let number = 1, pages = 1; number <= Math.min(pages, MOST); number++) {
    const url = `${api}/user/installations?per_page=${EACH}&page=${number}`
    const { status, body } = await ask(way, url, { headers })
    const { total_count, installations } = shaped(Installations, url, status === 200 ? body : undefined)
    if (installations.some(({ id }) => String(id) === installation_id)) return true
    pages = Math.ceil(total_count / EACH)
  }
  return false
}

async function countOf(way: Outside, url: string, headers: Record<string, string>): Promise<number> {
  const { status, body } = await ask(way, url, { headers })
  if (status === 404) throw fail('installation_unproven')
  return shaped(Count, url, status === 200 ? body : undefined).total_count
}
