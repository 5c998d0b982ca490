// The webhooks of repositories at Gitea and Forgejo: created, repaired and removed with the token of the account.
import * as z from 'zod'
import { fail } from '../../kernel/http/errors.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import type { Githost, RepositoryWebhook } from './githost.ts'
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

const isComplete = ({ active, config, events }: Webhook): boolean =>
  active && config.content_type === 'json' && NEEDED_EVENTS.every(event => events.includes(event))

export function giteaWebhooks({
  repositoryApi,
  get,
  write,
}: Pick<RestClient, 'repositoryApi' | 'get' | 'write'>): Pick<Githost, 'ensureWebhook' | 'removeWebhook'> {
  async function find(hooksUrl: string, url: string): Promise<Webhook | undefined> {
    const { status, body } = await get(`${hooksUrl}?limit=50`)
    if (status !== 200) throw fail('repository_not_found')
    return parseResponse(Webhooks, hooksUrl, body).find(({ config }) => config.url === url)
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
      const existing = await find(hooksUrl, webhook.url)
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
