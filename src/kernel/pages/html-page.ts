// Pages for a person: the one after returning from another site has no script, others have one of this installation.
const STYLE = `
:root {
  color-scheme: light dark;
  --paper: light-dark(#ffffff, #101318);
  --ink: light-dark(#1a2029, #e4e8ee);
  --field: light-dark(#ffffff, #0d1014);
  --edge: light-dark(#8a94a3, #5d6878);
  --link: light-dark(#2f4bc4, #9db0ff);
  --red: light-dark(#b3261e, #ff9d95);
  --amber: light-dark(#b45309, #f5b44c);
}
body {
  font: 1rem/1.5 system-ui, sans-serif;
  max-width: 26rem;
  margin: 12vh auto;
  padding: 0 1.5rem;
  color: var(--ink);
  background: var(--paper);
  overflow-wrap: anywhere;
}
h1 { font-size: 1.4rem }
a { color: var(--link) }
label { display: block; font-weight: 600 }
input:not([type=radio]), select, button, .button {
  box-sizing: border-box;
  width: 100%;
  margin: 0.25rem 0 0.5rem;
  padding: 0.6rem 0.75rem;
  font: inherit;
  border: 1px solid var(--edge);
  border-radius: 0.375rem;
}
input, select { color: inherit; background: var(--field) }
button, .button {
  display: block;
  font-weight: 600;
  text-align: center;
  text-decoration: none;
  color: var(--paper);
  background: var(--link);
  border-color: var(--link);
  cursor: pointer;
}
:focus-visible { outline: 3px solid var(--link); outline-offset: 2px }
[role='status']:not(:empty) { padding-left: 0.75rem; border-left: 4px solid var(--red) }
fieldset { margin: 0; padding: 0; border: 0 }
fieldset label { font-weight: normal }
legend { padding: 0; font-weight: 600 }
dl { display: grid; grid-template-columns: auto 1fr; gap: 0.25rem 1rem }
dt { font-weight: 600 }
dd { margin: 0 }
.code { font: 1.5rem ui-monospace, monospace; letter-spacing: 0.1em }
.warning { padding-left: 0.75rem; border-left: 4px solid var(--amber) }
.second { color: inherit; background: var(--field); border-color: var(--edge) }
`

/** For pages whose styles and scripts are files of this installation. */
export const FILES_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
]

export const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%233b5bdb' " +
  "d='M1 9h14l-2.5 5h-9zM7.2 1.5 7.2 8 2 8zM8.6 3.5 13 8H8.6z'/%3E%3C/svg%3E"

const SCRIPT_POLICY = ["script-src 'self'", "connect-src 'self'"]

const createPolicy = async (more: string[] = [], formAction = "form-action 'none'"): Promise<string> => {
  const hash = await crypto.subtle.digest('SHA-256', new TextEncoder().encode(STYLE))
  return [
    "default-src 'none'",
    ...more,
    `style-src 'sha256-${Buffer.from(hash).toString('base64')}'`,
    "base-uri 'none'",
    formAction,
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
<main>
<h1>${escapeHtml(title)}</h1>
${content}
</main>
</html>
`

type PageLink = { href: string; text: string }

export function renderPage(title: string, sentences: string[], link?: PageLink): string {
  const paragraphs = sentences.map(sentence => `<p>${escapeHtml(sentence)}</p>`)
  if (link) paragraphs.push(`<p><a href="${escapeHtml(link.href)}">${escapeHtml(link.text)}</a></p>`)
  return renderHtml(title, paragraphs.join('\n'))
}

/** `content` is HTML. */
export const renderContentPage = (title: string, content: string): string => renderHtml(title, content)

/** For pages whose form is sent to this installation. */
export const formPageHeaders = async (): Promise<Record<string, string>> => ({
  ...(await pageHeaders()),
  'Content-Security-Policy': await createPolicy([], "form-action 'self'"),
})

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
