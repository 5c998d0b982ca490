// The page that a person sees after the redirect from a provider.
import { detailOf, titleOf } from '../../kernel/http/codes.ts'
import { renderPage } from '../../kernel/pages/html-page.ts'
import type { CallbackResult } from './flow.ts'

export function callbackPage({ provider, failure }: CallbackResult): string {
  const name = provider ?? 'The provider'
  return failure === null
    ? renderPage(`${name} is connected`, ['You can close this window and return to the application.'])
    : renderPage(`${name} is not connected`, [`${titleOf(failure)}.`, detailOf(failure)])
}
