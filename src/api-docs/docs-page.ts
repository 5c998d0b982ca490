// The API pages: one server-rendered page for any OpenAPI document, with its script and its style.
import type { Env, Hono } from 'hono'
import { html } from 'hono/html'
import { serveStaticPage } from '../kernel/static-page.ts'
import { clientScript, clientStyle } from './client-bundle.ts'
import {
  documentInfo,
  groupOperations,
  keyHeader,
  listErrorCodes,
  listSchemas,
  type OpenApiDocument,
  slug,
} from './openapi-document.ts'
import { methodBadge, operationSection, renderProse, schemaSection } from './operation-section.ts'

export type { OpenApiDocument } from './openapi-document.ts'

const CONTENT_SECURITY_POLICY = [
  "default-src 'none'",
  "script-src 'self'",
  "style-src 'self'",
  "connect-src 'self'",
  "img-src 'self' data:",
  "base-uri 'none'",
  "form-action 'none'",
  "frame-ancestors 'none'",
].join('; ')

const ICON =
  "data:image/svg+xml,%3Csvg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 16 16'%3E%3Cpath fill='%233b5bdb' " +
  "d='M1 9h14l-2.5 5h-9zM7.2 1.5 7.2 8 2 8zM8.6 3.5 13 8H8.6z'/%3E%3C/svg%3E"

const navigation = (document: OpenApiDocument) => html`<details class="menu" open><summary>Operations</summary>
<div class="filter"><label for="filter" class="unseen">Filter operations</label>
<input id="filter" type="search" placeholder="Filter" autocomplete="off" spellcheck="false">
<kbd aria-hidden="true">/</kbd></div>
<p id="found" class="unseen" role="status"></p>
<nav aria-label="Operations">
<ul>
<li><a href="#introduction">Introduction</a></li>
<li><a href="#authentication">Authentication</a></li>
<li><a href="#errors">Errors</a></li>
</ul>
${groupOperations(document).map(
  ({ name, operations }) =>
    html`<h2>${name}</h2><ul>${operations.map(
      ({ id, method, path, summary }) =>
        html`<li data-find="${method} ${path} ${id}">
<a href="#${id}" title="${method} ${path}"><span>${summary}</span>${methodBadge(method)}</a></li>`,
    )}</ul>`,
)}
${listSchemas(document).length > 0 && html`<h2>Reference</h2><ul><li><a href="#schemas">Schemas</a></li></ul>`}
</nav></details>`

const introduction = ({
  title,
  version,
  description,
}: ReturnType<typeof documentInfo>) => html`<section id="introduction">
<h1>${title} <span class="version">${version}</span></h1>
${renderProse(description)}
</section>`

const authentication = (document: OpenApiDocument) => {
  const { name, prefix } = keyHeader(document)
  return html`<section id="authentication"><h2>Authentication</h2>
<p>Send your key with each request, as <code>X-Api-Key: &lt;key&gt;</code> or
<code>Authorization: Bearer &lt;key&gt;</code>. A workspace key works in its workspace only. With an organization key,
name the workspace in <code>X-Tenant-Id</code>.</p>
<form id="key" class="card" hidden data-header="${name}" data-prefix="${prefix}" aria-label="Your key">
<div><label for="api-key">API key</label>
<div class="line">
<input id="api-key" type="password" autocomplete="off" spellcheck="false" placeholder="Paste it here">
<button type="button" data-do="reveal" aria-pressed="false">Show</button></div></div>
<div><label for="tenant">Workspace <span class="type">X-Tenant-Id, for organization keys</span></label>
<input id="tenant" autocomplete="off" spellcheck="false" placeholder="Optional"></div>
<p class="note">Stored in this tab until you close it.
<button type="button" data-do="forget">Forget</button></p>
</form>
<p>The curl commands on this page read the key from your shell: <code>export API_KEY=…</code></p>
</section>`
}

const errors = (document: OpenApiDocument) => html`<section id="errors"><h2>Errors</h2>
<p>Every error has the same body, <code>application/problem+json</code> (RFC 9457): <code>title</code> and
<code>status</code>, a <code>detail</code> for people, a <code>code</code> for programs and the <code>request_id</code>
to quote in a support request. A <code>422</code> lists all faults of the request in <code>errors</code>. After a
<code>429</code> or <code>503</code>, retry after the time in <code>Retry-After</code>.</p>
${[...Map.groupBy(listErrorCodes(document), ({ status }) => status)]
  .sort(([a], [b]) => a - b)
  .map(
    ([status, errors]) =>
      html`<details class="schema" id="errors-${status}"><summary>${status}</summary><dl>${errors.map(
        ({ code, detail }) => html`<dt id="error-${code}"><code>${code}</code></dt><dd>${renderProse(detail)}</dd>`,
      )}</dl></details>`,
  )}
</section>`

const renderPage = (document: OpenApiDocument) => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${documentInfo(document).title} API</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="/docs/docs.css">
<script type="module" src="/docs/docs.js"></script>
</head>
<body>
<a class="skip" href="#introduction">Skip to content</a>
<header><a class="brand" href="#introduction">${documentInfo(document).title}</a>${navigation(document)}</header>
<main>
${introduction(documentInfo(document))}${authentication(document)}${errors(document)}
${groupOperations(document).map(
  ({
    name,
    description,
    operations,
  }) => html`<section class="group" id="tag-${slug(name)}"><h2>${name}</h2>${renderProse(description)}
${operations.map(operation => operationSection(document, operation))}</section>`,
)}
${
  listSchemas(document).length > 0 &&
  html`<section id="schemas"><h2>Schemas</h2>${listSchemas(document).map(
    ({ name, schema }) =>
      html`<details class="schema" id="schema-${slug(name)}"><summary>${name}</summary>
${renderProse(schema.description ?? '')}${schemaSection(document, schema)}</details>`,
  )}</section>`
}
</main>
</body>
</html>`

const HEADERS = {
  'Content-Security-Policy': CONTENT_SECURITY_POLICY,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
}

export function serveDocsPages<E extends Env>(app: Hono<E>, document: () => OpenApiDocument): void {
  const render = async () => String(await renderPage(document()))
  app.get('/docs', serveStaticPage('text/html; charset=UTF-8', render, HEADERS))
  app.get(
    '/docs/docs.js',
    serveStaticPage('text/javascript; charset=utf-8', () => clientScript, HEADERS),
  )
  app.get(
    '/docs/docs.css',
    serveStaticPage('text/css; charset=utf-8', () => clientStyle, HEADERS),
  )
}
