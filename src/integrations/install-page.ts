// The page that a person sees on coming back from installing the App.
import { detailOf, titleOf } from '../kernel/codes.ts'
import { renderPage } from '../kernel/html-page.ts'
import type { SetupResult } from './install.ts'

export function setupPage({ name, changed, failure }: SetupResult): string {
  const close = 'You can close this window and go back to where you came from.'
  if (changed)
    return renderPage('The installation was changed', ['The repositories it reaches are looked up anew.', close])
  return failure === null
    ? renderPage(`${name} is connected`, [close])
    : renderPage('The installation is not connected', [`${titleOf(failure)}.`, detailOf(failure)])
}
