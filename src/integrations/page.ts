// The page that a person sees on coming back from installing the App.
import { sentenceOf, titleOf } from '../kernel/codes.ts'
import { page } from '../kernel/page.ts'
import type { Arrival } from './install.ts'

export function setupPage({ name, changed, failure }: Arrival): string {
  const close = 'You can close this window and go back to where you came from.'
  if (changed) return page('The installation was changed', ['The repositories it reaches are looked up anew.', close])
  return failure === null
    ? page(`${name} is connected`, [close])
    : page('The installation is not connected', [`${titleOf(failure)}.`, sentenceOf(failure)])
}
