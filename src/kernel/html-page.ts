// The page that a person sees after returning from another site. It has no script.
const STYLE = `
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: 15vh auto; padding: 0 1.5rem }
h1 { font-size: 1.4rem }
`

let cachedPolicy: Promise<string> | undefined
const pagePolicy = (): Promise<string> =>
  (cachedPolicy ??= crypto.subtle
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
const escapeHtml = (text: string) => text.replace(/[&<>"']/g, character => ENTITIES[character]!)

export const pageHeaders = async (): Promise<Record<string, string>> => ({
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-store',
  'Content-Security-Policy': await pagePolicy(),
})

export const renderPage = (title: string, sentences: string[]): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>
<h1>${escapeHtml(title)}</h1>
${sentences.map(sentence => `<p>${escapeHtml(sentence)}</p>`).join('\n')}
</html>
`

/** Ignores a parameter that occurs twice: the second one may be an attacker's. */
export const readSingleParameter = (parameters: URLSearchParams, name: string): string | undefined => {
  const [value, ...others] = parameters.getAll(name)
  return others.length > 0 ? undefined : value
}
