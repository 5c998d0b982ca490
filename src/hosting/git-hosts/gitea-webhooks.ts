// The webhooks of repositories at Gitea and Forgejo: created, repaired and removed with the token of the account.
import * as z from 'zod'
import { fail } from '../../kernel/http/errors.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import type { Githost, RepositoryWebhook } from './githost.ts'
import type { RepositoryApi } from './repository-api.ts'
import { parseResponse } from './request.ts'
import type { RestClient } from './rest-client.ts'

/** `pull_request` in a request would switch on comments, labels and reviews, too. */
const ASKED_EVENTS = ['push', 'delete', 'pull_request_only', 'pull_request_sync']
/** The names of the same events in an answer. */
const NEEDED_EVENTS = ['push', 'delete', 'pull_request', 'pull_request_sync']

const Webhook = z.object({
  id: z.int().min(0),
  active: z.boolean(),
  config: z.object({ url: boundedText(2048), content_type: boundedText(20).nullish() }),
  events: arrayOf(boundedText(100), 100),
})
const Webhooks = arrayOf(Webhook, 1000)
type Webhook = z.output<typeof Webhook>
/** A host may put fewer on a page than it was asked for. */
const PAGE_SIZE = 50
const MAX_PAGES = 20

const isComplete = ({ active, config, events }: Webhook): boolean =>
  active && config.content_type === 'json' && NEEDED_EVENTS.every(event => events.includes(event))

export function giteaWebhooks({
  repositoryApi,
  get,
  write,
}: Pick<RestClient, 'get' | 'write'> & Pick<RepositoryApi, 'repositoryApi'>): Pick<
  Githost,
  'ensureWebhook' | 'removeWebhook'
> {
  /** One that is not found is made again each time, so the list is read to its end. */
  async function find(hooksUrl: string, { id, url }: RepositoryWebhook): Promise<Webhook | undefined> {
    const known = id === null ? null : await get(`${hooksUrl}/${encodeURIComponent(id)}`)
    const webhook = known?.status === 200 ? parseResponse(Webhook, hooksUrl, known.body) : undefined
    if (webhook?.config.url === url) return webhook
    for (let page = 1; page <= MAX_PAGES; page++) {
      const { status, body } = await get(`${hooksUrl}?limit=${PAGE_SIZE}&page=${page}`)
      if (status !== 200) throw fail('repository_not_found')
      const listed = parseResponse(Webhooks, hooksUrl, body)
      const found = listed.find(({ config }) => config.url === url)
      if (found || listed.length === 0) return found
    }
    throw fail('repository_not_found')
  }

  async function store(hooksUrl: string, existing: Webhook | undefined, { url, secret }: RepositoryWebhook) {
    const members = { active: true, events: ASKED_EVENTS, config: { url, content_type: 'json', secret } }
    const { status, body } = existing
      ? await write('PATCH', `${hooksUrl}/${existing.id}`, members)
      : await write('POST', hooksUrl, { type: 'gitea', ...members })
    if (status > 201) throw fail('repository_not_found')
    return parseResponse(Webhook, hooksUrl, body).id
  }

  return {
    async ensureWebhook(repo_url, webhook) {
      const hooksUrl = `${repositoryApi(repo_url)}/hooks`
      const existing = await find(hooksUrl, webhook)
      if (existing && String(existing.id) === webhook.id && isComplete(existing)) return webhook.id
      // The secret of a webhook that a person made cannot be read, so it is set with the rest.
      const id = await store(hooksUrl, existing, webhook)
      // The delivery that this causes proves that the host reaches us. A host may refuse to test, which proves nothing.
      await write('POST', `${hooksUrl}/${id}/tests`, {}).catch(() => {})
      return String(id)
    },

    async removeWebhook(repo_url, id) {
      // 404: the webhook, or the repository, is gone already.
      await write('DELETE', `${repositoryApi(repo_url)}/hooks/${encodeURIComponent(id)}`, {})
    },
  }
}
