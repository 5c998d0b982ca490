// The page that a person sees on coming back from a provider: what happened, and what to do. It has no script and repeats nothing of its address.
import { sentenceOf, titleOf } from '../kernel/errors.ts'
import type { Arrival } from './flow.ts'

const STYLE = `:root{color-scheme:light dark}body{font:1rem/1.5 system-ui,sans-serif;max-width:32rem;margin:15vh auto;padding:0 1.5rem}h1{font-size:1.4rem}`

let policy: Promise<string> | undefined
/** Only the one style, known by its hash. */
export const pagePolicy = (): Promise<string> =>
  (policy ??= crypto.subtle
    .digest('SHA-256', new TextEncoder().encode(STYLE))
    .then(hash =>
      [
        "default-src 'none'",
        `style-src 'sha256-${Buffer.from(hash).toString('base64')}'`,
        "base-uri 'none'",
        "form-action 'none'",
        "frame-ancestors 'none'",
      ].join('; '),
    ))

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escaped = (text: string) => text.replace(/[&<>"']/g, character => ENTITIES[character]!)

export function page({ provider, failure }: Arrival): string {
  const name = provider ?? 'The provider'
  const title = failure === null ? `${name} is connected` : `${name} is not connected`
  const told =
    failure === null
      ? ['You can close this window and go back to where you came from.']
      : [`${titleOf(failure)}.`, sentenceOf(failure)]
  return `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${escaped(title)}</title>
<style>${STYLE}</style>
<h1>${escaped(title)}</h1>
${told.map(sentence => `<p>${escaped(sentence)}</p>`).join('\n')}
</html>
`
}
