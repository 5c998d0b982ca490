// The router's page at a protected deployment. It takes the grant or the secret of a share link from the fragment, that
// no server and no log sees, exchanges it for a cookie, and goes on to the path that was asked for.
import { createHash } from 'node:crypto'

const STYLE = `:root { color-scheme: light dark }
body {
  font: 1rem/1.5 system-ui, sans-serif;
  max-width: 26rem;
  margin: 12vh auto;
  padding: 0 1.5rem;
  color: light-dark(#1a2029, #e4e8ee);
  background: light-dark(#ffffff, #101318);
  overflow-wrap: anywhere;
}
h1 { font-size: 1.4rem }
a { color: light-dark(#2f4bc4, #9db0ff) }
:focus-visible { outline: 3px solid light-dark(#2f4bc4, #9db0ff); outline-offset: 2px }`

const SCRIPT = `const find = id => document.getElementById(id)
const given = new URLSearchParams(location.hash.slice(1))
history.replaceState(null, '', location.pathname)
const start = location.pathname.replace(/\\.well-known\\/slipway\\/access$/, '')
const path = given.get('path') || start
const isPath = path.startsWith('/') && URL.canParse(path, location.origin)
const next = isPath ? new URL(path, location.origin) : null
const goOn = () => location.replace(next && next.origin === location.origin ? next.href : start)
find('start').href = start
async function exchange() {
  const body = JSON.stringify({ grant: given.get('grant') ?? undefined, token: given.get('token') ?? undefined })
  const headers = { 'Content-Type': 'application/json' }
  const reply = await fetch(location.pathname, { method: 'POST', headers, body })
  if (reply.ok) return goOn()
  find('title').textContent = 'No access'
  find('text').textContent = (await reply.json()).detail
  find('again').hidden = false
}
exchange().catch(() => {
  find('title').textContent = 'No connection'
  find('text').textContent = 'The page could not be reached. Try again.'
  find('again').hidden = false
})`

const digest = (text: string) => `'sha256-${createHash('sha256').update(text).digest('base64')}'`

export const ACCESS_PAGE = `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width">
<meta name="robots" content="noindex">
<title>Protected deployment</title>
<style>${STYLE}</style>
<main>
<h1 id="title">Protected deployment</h1>
<p id="text" role="status">One moment.</p>
<p id="again" hidden><a id="start" href="/">Open it and sign in</a></p>
</main>
<noscript><p>This page needs JavaScript.</p></noscript>
<script>${SCRIPT}</script>
</html>
`

export const ACCESS_PAGE_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Referrer-Policy': 'no-referrer',
  'X-Content-Type-Options': 'nosniff',
  'Content-Security-Policy': [
    "default-src 'none'",
    `script-src ${digest(SCRIPT)}`,
    `style-src ${digest(STYLE)}`,
    "connect-src 'self'",
    "base-uri 'none'",
    "form-action 'none'",
    "frame-ancestors 'none'",
  ].join('; '),
}
