// Pages for a person: the one after returning from another site has no script, others have one of this installation.
const STYLE = `
:root { color-scheme: light dark }
body { font: 1rem/1.5 system-ui, sans-serif; max-width: 32rem; margin: min(15vh, 6rem) auto 3rem; padding: 0 1.5rem }
h1 { font-size: 1.4rem }
button, input, select { font: inherit; max-width: 100%; box-sizing: border-box }
button { padding: 0.3rem 1rem }
label, legend { display: block; padding: 0 }
fieldset { border: 0; margin: 0; padding: 0 }
dl { display: grid; grid-template-columns: auto 1fr; gap: 0.2rem 1rem }
dd { margin: 0; overflow-wrap: anywhere }
.code { font: 1.6rem ui-monospace, monospace; letter-spacing: 0.1em }
.warning { border-left: 0.3rem solid #d97706; padding-left: 0.8rem }
`

const SCRIPT_POLICY = ["script-src 'self'", "connect-src 'self'"]

const createPolicy = async (more: string[] = []): Promise<string> => {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(STYLE))
  return [
    "default-src 'none'",
    ...more,
    `style-src 'sha256-${Buffer.from(hash).toString('base64')}'`,
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; ')
}
let cachedPolicy: Promise<string> | undefined
const pagePolicy = (): Promise<string> => (cachedPolicy ??= createPolicy())

const ENTITIES: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' }
const escapeHtml = (text: string) => text.replace(/[&<>"']/g, character => ENTITIES[character]!)

export const pageHeaders = async (): Promise<Record<string, string>> => ({
  'Content-Type': 'text/html; charset=utf-8',
  'Cache-Control': 'no-store',
  'Content-Security-Policy': await pagePolicy(),
})

const renderHtml = (title: string, content: string, head = ''): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>${escapeHtml(title)}</title>
<style>${STYLE}</style>${head}
<h1>${escapeHtml(title)}</h1>
${content}
</html>
`

export const renderPage = (title: string, sentences: string[]): string =>
  renderHtml(title, sentences.map(sentence => `<p>${escapeHtml(sentence)}</p>`).join('\n'))

/** `content` is HTML, and `script` the path of a module. */
export const renderScriptPage = (title: string, content: string, script: string): string =>
  renderHtml(title, content, `\n<script type="module" src="${script}"></script>`)

export const scriptPageHeaders = async (): Promise<Record<string, string>> => ({
  'Content-Security-Policy': await createPolicy(SCRIPT_POLICY),
})

/** Ignores a parameter that occurs twice: the second one may be an attacker's. */
export const readSingleParameter = (parameters: URLSearchParams, name: string): string | undefined => {
  const [value, ...others] = parameters.getAll(name)
  return others.length > 0 ? undefined : value
}
