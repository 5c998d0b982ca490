// The page that a person sees on coming back from a provider.
import { sentenceOf, titleOf } from '../kernel/codes.ts'
import { page } from '../kernel/page.ts'
import type { Arrival } from './flow.ts'

export function arrivalPage({ provider, failure }: Arrival): string {
  const name = provider ?? 'The provider'
  return failure === null
    ? page(`${name} is connected`, ['You can close this window and go back to where you came from.'])
    : page(`${name} is not connected`, [`${titleOf(failure)}.`, sentenceOf(failure)])
}
