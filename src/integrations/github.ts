// GitHub, in the cloud and as an Enterprise Server: an App's installation, by tokens that last an hour.
import * as z from 'zod'
import { fail } from '../kernel/errors.ts'
import type { Outside } from '../kernel/guarded-fetch.ts'
import type { Services } from '../kernel/routes.ts'
import { text } from '../kernel/wire.ts'
import { appWord } from './app-key.ts'
import { ask, hostWay, shaped } from './asking.ts'
import { credentialsOf, keptToken } from './credentials.ts'
import type { Githost, Integration, Token } from './githost.ts'
import { repositoryAt } from './githost.ts'
import { CommitBody, commitOf, Listed } from './host-answers.ts'
import { tongue } from './tongue.ts'

const EACH = 100

/** The cloud's API has a host of its own, for companies of their own too; an Enterprise Server's is a path. */
export function apiOf(base_url: string): string {
  const { protocol, host, pathname } = new URL(base_url)
  if (host === 'github.com' || host.endsWith('.ghe.com')) return `${protocol}//api.${host}`
  return `${protocol}//${host}${pathname.replace(/\/$/, '')}/api/v3`
}

export const headersFor = (token: string) => ({
  Accept: 'application/vnd.github+json',
  'X-GitHub-Api-Version': '2022-11-28',
  Authorization: `Bearer ${token}`,
})

const Minted = z.object({
  token: text(1000).regex(/^[\x21-\x7e]+$/),
  expires_at: z.iso.datetime({ offset: true }),
})

export type App = { id: string; privateKey: string }

/** A token of an installation, perhaps narrowed to less than the App may. */
export async function mint(
  way: Outside,
  api: string,
  app: App,
  installation_id: string,
  narrowed?: object,
): Promise<Token> {
  const url = `${api}/app/installations/${encodeURIComponent(installation_id)}/access_tokens`
  const headers = headersFor(await appWord(app.id, app.privateKey))
  const { status, body } = await ask(way, url, { method: 'POST', headers, json: narrowed ?? {} })
  if (status === 404) throw fail('integration_revoked')
  if (status === 422) throw fail('repository_not_found')
  return shaped(Minted, url, body)
}

export function githubHost(
  { config, sealer }: Pick<Services, 'config' | 'sealer'>,
  origin: string,
  row: Integration,
): Githost {
  const api = apiOf(row.base_url)
  const way = () => hostWay(config, origin)
  let minted: Token | null = null
  let token: Promise<Token> | undefined

  async function app(): Promise<App> {
    const { private_key } = (await credentialsOf(sealer, row)) ?? {}
    if (private_key && row.app_id) return { id: row.app_id, privateKey: private_key }
    const { github } = config
    if (github?.baseUrl !== row.base_url) throw fail('githost_app_missing')
    return { id: github.appId, privateKey: github.privateKey }
  }
  async function fresh(): Promise<Token> {
    const kept = await keptToken(sealer, row)
    if (kept) return kept
    minted = await mint(way(), api, await app(), row.installation_id)
    return minted
  }
  async function headers() {
    token ??= fresh()
    return headersFor((await token).token)
  }
  const { at, get, pages, setStatus, comment } = tongue({ row, api, way, headers })

  return {
    repositories: known =>
      pages(
        known,
        number => `${api}/installation/repositories?per_page=${EACH}&page=${number}`,
        EACH,
        ({ body }) => {
          const { total_count, repositories } = shaped(Listed, api, body)
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
      return status === 200 ? commitOf(shaped(CommitBody, api, body)) : null
    },

    async credential(repo_url) {
      const { name } = repositoryAt(row.base_url, repo_url) ?? {}
      if (name === undefined) throw fail('repository_not_found')
      const narrowed = { repositories: [name], permissions: { contents: 'read' } }
      const { token, expires_at } = await mint(way(), api, await app(), row.installation_id, narrowed)
      return { username: 'x-access-token', password: token, expires_at }
    },

    setStatus,
    comment,
    minted: () => minted,
  }
}
