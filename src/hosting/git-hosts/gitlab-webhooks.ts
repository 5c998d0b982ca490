// The webhooks of projects at GitLab: created, repaired and removed with the token of the account.
import * as z from 'zod'
import { fail } from '../../kernel/http/errors.ts'
import { arrayOf, boundedText } from '../../protocol/wire.ts'
import type { Githost, RepositoryWebhook } from './githost.ts'
import { parseResponse } from './request.ts'
import type { RestClient } from './rest-client.ts'

const Webhook = z.object({
  id: z.int().min(0),
  url: boundedText(2048),
  push_events: z.boolean(),
  merge_requests_events: z.boolean(),
  /** A filter leaves branches out. */
  push_events_branch_filter: boundedText(5000).nullish(),
  /** GitLab disables a webhook whose deliveries fail again and again. */
  alert_status: boundedText(40).nullish(),
})
const Webhooks = arrayOf(Webhook, 1000)
type Webhook = z.output<typeof Webhook>
const PAGE_SIZE = 100
const MAX_PAGES = 10

const isComplete = ({ push_events, merge_requests_events, push_events_branch_filter, alert_status }: Webhook) =>
  push_events && merge_requests_events && !push_events_branch_filter && (alert_status ?? 'executable') === 'executable'

export function gitlabWebhooks(
  { get, write }: Pick<RestClient, 'get' | 'write'>,
  projectUrl: (repo_url: string) => string,
): Pick<Githost, 'ensureWebhook' | 'removeWebhook'> {
  /** One that is not found is made again each time, so the list is read to its end. */
  async function find(hooksUrl: string, { id, url }: RepositoryWebhook): Promise<Webhook | undefined> {
    const known = id === null ? null : await get(`${hooksUrl}/${encodeURIComponent(id)}`)
    const webhook = known?.status === 200 ? parseResponse(Webhook, hooksUrl, known.body) : undefined
    if (webhook?.url === url) return webhook
    for (let page = 1; page <= MAX_PAGES; page++) {
      const { status, body } = await get(`${hooksUrl}?per_page=${PAGE_SIZE}&page=${page}`)
      if (status !== 200) throw fail('repository_not_found')
      const listed = parseResponse(Webhooks, hooksUrl, body)
      const found = listed.find(one => one.url === url)
      if (found || listed.length === 0) return found
    }
    throw fail('repository_not_found')
  }

  async function store(hooksUrl: string, existing: Webhook | undefined, { url, secret }: RepositoryWebhook) {
    const members = {
      url,
      token: secret,
      push_events: true,
      merge_requests_events: true,
      branch_filter_strategy: 'all_branches',
      push_events_branch_filter: '',
    }
    const { status, body } = existing
      ? await write('PUT', `${hooksUrl}/${existing.id}`, members)
      : await write('POST', hooksUrl, members)
    if (status > 201) throw fail('repository_not_found')
    return parseResponse(Webhook, hooksUrl, body).id
  }

  return {
    async ensureWebhook(repo_url, webhook) {
      const hooksUrl = `${projectUrl(repo_url)}/hooks`
      const existing = await find(hooksUrl, webhook)
      if (existing && String(existing.id) === webhook.id && isComplete(existing)) return webhook.id
      // The secret of a webhook that a person made cannot be read, so it is set with the rest.
      const id = await store(hooksUrl, existing, webhook)
      // The delivery that this causes proves that the host reaches us, and enables a webhook that GitLab disabled. An
      // empty repository has nothing to test with.
      await write('POST', `${hooksUrl}/${id}/test/push_events`, {}).catch(() => {})
      return String(id)
    },

    async removeWebhook(repo_url, id) {
      // 404: the webhook, or the project, is gone already.
      await write('DELETE', `${projectUrl(repo_url)}/hooks/${encodeURIComponent(id)}`, {})
    },
  }
}
