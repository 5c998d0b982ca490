// The page that a person sees after installing the App at GitHub.
import { detailOf, titleOf } from '../../kernel/http/codes.ts'
import { renderPage } from '../../kernel/pages/html-page.ts'
import type { SetupResult } from './install.ts'

export function setupPage({ name, changed, failure }: SetupResult): string {
  const close = 'You can close this window.'
  const back = { href: '/ui/integrations', text: 'Open the git hosts' }
  if (changed)
    return renderPage('The installation was changed', ['Its repositories are updated within a minute.', close], back)
  return failure === null
    ? renderPage(`${name} is connected`, [close], back)
    : renderPage('The installation is not connected', [`${titleOf(failure)}.`, detailOf(failure)])
}
