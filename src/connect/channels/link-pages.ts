// Pages behind the links of e-mails. To open one changes nothing, because mail servers open links: its button does.
import { html } from 'hono/html'
import { readOpenRequest } from '../../kernel/http/caller.ts'
import { detailOf, statusOf, titleOf } from '../../kernel/http/codes.ts'
import { Failure } from '../../kernel/http/errors.ts'
import { readForm } from '../../kernel/http/input.ts'
import type { OpenOperation } from '../../kernel/http/routes.ts'
import { formPageHeaders, readSingleParameter, renderContentPage, renderPage } from '../../kernel/pages/html-page.ts'
import { type LinkAction, useLink } from './confirmation.ts'

type OpenHandler = OpenOperation['open']

const ASKS = {
  confirm: {
    title: 'Confirm this address',
    sentence: 'A workspace of Slipway wants to send notices of incidents and deployments to your address.',
    button: 'Confirm',
    done: 'The address is confirmed',
    after: 'Notices are sent to it from now on. Each has a link that ends them.',
  },
  unsubscribe: {
    title: 'Stop these e-mails',
    sentence: 'No more notices of this channel are sent to your address.',
    button: 'Stop them',
    done: 'The e-mails have ended',
    after: 'Nothing more is sent. Only a new confirmation by you can change that.',
  },
} as const satisfies Record<LinkAction, object>

const tokenOf = (url: string): string => readSingleParameter(new URL(url).searchParams, 'token') ?? ''

export const showLinkPage =
  (action: LinkAction): OpenHandler =>
  async c => {
    const { title, sentence, button } = ASKS[action]
    const path = `/channel-links/${action}?token=${encodeURIComponent(tokenOf(c.req.url))}`
    const form = html`<p>${sentence}</p><form method="post" action="${path}"><button>${button}</button></form>`
    return c.body(renderContentPage(title, String(await form)), 200, await formPageHeaders())
  }

export const useLinkPage =
  (action: LinkAction): OpenHandler =>
  async (c, services, operation) => {
    // A mail client sends `List-Unsubscribe=One-Click`, a browser an empty form. Neither says anything more.
    await readForm(c.req)
    const { done, after } = ASKS[action]
    const proof = { route: 'channel-links', refusal: 'channel_link_invalid' } as const
    const work = () => useLink(services, action, readOpenRequest(c, operation, services), tokenOf(c.req.url))
    const headers = await formPageHeaders()
    try {
      await c.var.limits.prove(c, proof, work)
      return c.body(renderPage(done, [after]), 200, headers)
    } catch (error) {
      if (!(error instanceof Failure)) throw error
      c.get('requestInfo').code = error.code
      const page = renderPage(titleOf(error.code), [detailOf(error.code)])
      return c.body(page, statusOf(error.code) as 404, { ...headers, ...error.extra.headers })
    }
  }
