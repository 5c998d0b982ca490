// The page that loads the dashboard, and its files. It is the same for everyone: its script calls the API.
import type { Context, Env, Hono } from 'hono'
import { accepts } from 'hono/accepts'
import { sha256 } from '../../kernel/crypto/digest.ts'
import { fail } from '../../kernel/http/errors.ts'
import { matchesEtag } from '../../kernel/http/etag.ts'
import { FILES_POLICY, ICON } from '../../kernel/pages/html-page.ts'
import type { BuiltFiles, Platform } from '../../platform.ts'

const CONTENT_SECURITY_POLICY = [...FILES_POLICY, "require-trusted-types-for 'script'", "trusted-types 'none'"].join(
  '; ',
)

const PAGE_HEADERS = {
  'Content-Type': 'text/html; charset=utf-8',
  'Content-Security-Policy': CONTENT_SECURITY_POLICY,
  'Cross-Origin-Opener-Policy': 'same-origin',
  'Cross-Origin-Resource-Policy': 'same-origin',
}

/** Names of files by the path of their source, as Vite writes it. */
export type Manifest = Record<
  string,
  { file: string; css?: string[]; imports?: string[]; isEntry?: boolean; isDynamicEntry?: boolean }
>

export const MAIN = 'main.tsx'
const THEME = 'theme.ts'

/** The source and those that it imports at once. */
export function filesOf(manifest: Manifest, source: string, found = new Set<string>()): Set<string> {
  const entry = manifest[source]
  if (!entry || found.has(entry.file)) return found
  found.add(entry.file)
  for (const style of entry.css ?? []) found.add(style)
  for (const imported of entry.imports ?? []) filesOf(manifest, imported, found)
  return found
}

const renderHtml = (head: string[], body: string[] = []): string => `<!doctype html>
<html lang="en">
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1, viewport-fit=cover">
<meta name="robots" content="noindex">
<meta name="color-scheme" content="light dark">
<title>Slipway</title>
<link rel="icon" href="${ICON}">
${head.join('\n')}
<body>
${body.join('\n')}
</body>
</html>
`

function renderShell(manifest: Manifest): string {
  const [script, ...others] = [...filesOf(manifest, MAIN)]
  const styles = others.filter(file => file.endsWith('.css'))
  const modules = others.filter(file => !file.endsWith('.css'))
  return renderHtml(
    [
      `<script src="/ui/${manifest[THEME]!.file}"></script>`,
      ...styles.map(file => `<link rel="stylesheet" href="/ui/${file}">`),
      ...modules.map(file => `<link rel="modulepreload" href="/ui/${file}">`),
      `<script type="module" src="/ui/${script}"></script>`,
    ],
    ['<div id="app"></div>', '<noscript><p>The dashboard needs JavaScript.</p></noscript>'],
  )
}

const NOT_BUILT = renderHtml(
  [],
  [
    '<h1>The dashboard is not built</h1>',
    '<p>Run <code>npm run build:dashboard</code> in the folder of Slipway. <code>npm run dev</code> does it when it',
    'starts. This page reloads by itself. The API works without it: see <a href="/docs">its pages</a>.</p>',
  ],
)

async function serveShell(c: Context, files: BuiltFiles | undefined): Promise<Response> {
  const manifest = await files?.get('manifest.json')
  if (!manifest) return c.body(NOT_BUILT, 503, { ...PAGE_HEADERS, 'Cache-Control': 'no-store', Refresh: '2' })
  const page = renderShell((await manifest.json()) as Manifest)
  const tag = `"${sha256().update(page).digest('hex')}"`
  const headers = { ...PAGE_HEADERS, 'Cache-Control': 'no-cache', ETag: tag }
  return matchesEtag(c.req.header('If-None-Match'), tag) ? c.body(null, 304, headers) : c.body(page, 200, headers)
}

/** Cloudflare serves files that exist without the Worker: there, the route only answers for those that do not. */
async function serveAsset(c: Context, files: BuiltFiles | undefined): Promise<Response> {
  const file = await files?.get(`assets/${c.req.param('name')}`, c.req.header('Accept-Encoding'))
  if (!file) throw fail('route_not_found')
  const tag = file.headers.get('ETag')
  if (!tag || !matchesEtag(c.req.header('If-None-Match'), tag)) return file
  await file.body?.cancel()
  return c.body(null, 304, Object.fromEntries(file.headers))
}

export function serveDashboard<E extends Env>(app: Hono<E>, { assets: files }: Pick<Platform, 'assets'>): void {
  app.get('/', c => {
    const supports = ['application/problem+json', 'application/json', 'text/html']
    if (accepts(c, { header: 'Accept', supports, default: 'application/json' }) !== 'text/html') return c.notFound()
    return c.body(null, 302, { Location: '/ui/', Vary: 'Accept' })
  })
  app.get('/ui', c => serveShell(c, files))
  app.get('/ui/*', c => serveShell(c, files))
  app.get('/ui/assets/:name', c => serveAsset(c, files))
}
