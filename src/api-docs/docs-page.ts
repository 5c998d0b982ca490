// The API pages: an overview of any OpenAPI document and a page for each operation and schema, rendered by the server.
import type { Env, Hono } from 'hono'
import { html } from 'hono/html'
import { loadOnce } from '../kernel/http/load-once.ts'
import { FILES_POLICY, ICON } from '../kernel/pages/html-page.ts'
import { serveStaticPage } from '../kernel/pages/static-page.ts'
import { clientScript, clientStyle } from './client-bundle.ts'
import {
  documentInfo,
  type Group,
  groupOperations,
  keyHeader,
  listErrorCodes,
  listSchemas,
  type OpenApiDocument,
  type Operation,
  type Schema,
  slug,
} from './openapi-document.ts'
import {
  breakablePath,
  type Html,
  methodBadge,
  operationSection,
  renderProse,
  SCHEMAS_PATH,
  schemaLink,
  schemaPath,
  schemaSection,
} from './operation-section.ts'

export type { OpenApiDocument } from './openapi-document.ts'

const CONTENT_SECURITY_POLICY = FILES_POLICY.join('; ')

const OPERATIONS_PATH = '/docs/operations'

/** The menu names an operation by its id, because summaries are sentences: `listTagKeys` becomes “List tag keys”. */
const shortTitle = (id: string) => {
  const words = id.replace(/[A-Z]/g, capital => ` ${capital.toLowerCase()}`)
  return words.charAt(0).toUpperCase() + words.slice(1)
}

const navigation = (groups: Group[], current: string) => html`<details class="menu" open><summary>Menu</summary>
<div class="filter"><label for="filter" class="unseen">Filter operations</label>
<input id="filter" type="search" placeholder="Filter" autocomplete="off" spellcheck="false">
<kbd aria-hidden="true">/</kbd></div>
<p id="found" class="unseen" role="status"></p>
<nav aria-label="Operations">
<ul>
<li><a href="/docs#introduction">Introduction</a></li>
<li><a href="/docs#authentication">Authentication</a></li>
<li><a href="/docs#errors">Errors</a></li>
<li><a href="/docs#schemas">Schemas</a></li>
</ul>
${groups.map(
  ({ name, operations }) =>
    html`<h2>${name}</h2><ul>${operations.map(
      ({ id, method, path, summary }) =>
        html`<li data-find="${method} ${path} ${summary}"><a href="${OPERATIONS_PATH}/${id}"
${id === current && html`aria-current="page"`}>${shortTitle(id)}${methodBadge(method)}</a></li>`,
    )}</ul>`,
)}
</nav></details>`

const introduction = ({
  title,
  version,
  description,
}: ReturnType<typeof documentInfo>) => html`<section id="introduction">
<h1>${title} <span class="version">${version}</span></h1>
${renderProse(description)}
</section>`

const keyForm = (document: OpenApiDocument) => {
  const { name, prefix } = keyHeader(document)
  return html`<form id="key" class="card" hidden data-header="${name}" data-prefix="${prefix}" aria-label="Your key">
<div><label for="api-key">API key</label>
<div class="line">
<input id="api-key" type="password" autocomplete="off" spellcheck="false" placeholder="Paste it here">
<button type="button" data-do="reveal" aria-pressed="false">Show</button></div></div>
<div><label for="tenant">Workspace <span class="type">X-Tenant-Id, for organization keys</span></label>
<input id="tenant" autocomplete="off" spellcheck="false" placeholder="Optional"></div>
<p class="note">Stored in this tab until you close it.
<button type="button" data-do="forget">Forget</button></p>
</form>`
}

const authentication = (document: OpenApiDocument) => html`<section id="authentication"><h2>Authentication</h2>
<p>Send your key with each request, as <code>X-Api-Key: &lt;key&gt;</code> or
<code>Authorization: Bearer &lt;key&gt;</code>. A workspace key works in its workspace only. With an organization key,
name the workspace in <code>X-Tenant-Id</code>.</p>
${keyForm(document)}
<p>The code examples on these pages read the key from the environment: <code>export API_KEY=…</code></p>
</section>`

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

const overview = (document: OpenApiDocument, groups: Group[]) => html`${introduction(documentInfo(document))}
${authentication(document)}${errors(document)}
${groups.map(
  ({ name, description, operations }) => html`<section class="group" id="tag-${slug(name)}"><h2>${name}</h2>
${renderProse(description)}
<ul class="index">${operations.map(
    ({ id, method, path, summary }) => html`<li id="${id}"><a href="${OPERATIONS_PATH}/${id}">${summary}</a>
<p class="route">${methodBadge(method)} <code>${breakablePath(path)}</code></p></li>`,
  )}</ul></section>`,
)}
<section id="schemas"><h2>Schemas</h2><ul class="columns">${listSchemas(document).map(
  ({ name }) => html`<li id="schema-${slug(name)}">${schemaLink(name)}</li>`,
)}</ul></section>`

const operationPage = (document: OpenApiDocument, operation: Operation) => html`<p class="crumb">
<a href="/docs#tag-${slug(operation.tag)}">${operation.tag}</a></p>
${operationSection(
  document,
  operation,
  html`<details id="authentication" hidden><summary>API key</summary>${keyForm(document)}</details>`,
)}`

const schemaPage = (document: OpenApiDocument, name: string, schema: Schema) => html`<p class="crumb">
<a href="/docs#schemas">Schemas</a></p>
<section><h1>${name}</h1>${renderProse(schema.description ?? '')}${schemaSection(document, schema)}</section>`

const renderPage = (
  document: OpenApiDocument,
  groups: Group[],
  content: Html,
  title = '',
  current = '',
) => html`<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<meta name="color-scheme" content="light dark">
<title>${title && `${title} · `}${documentInfo(document).title} API</title>
<link rel="icon" href="${ICON}">
<link rel="stylesheet" href="/docs/docs.css">
<script type="module" src="/docs/docs.js"></script>
</head>
<body>
<a class="skip" href="#content">Skip to content</a>
<header><a class="brand" href="/docs">${documentInfo(document).title}</a>${navigation(groups, current)}</header>
<main id="content">
${content}
</main>
</body>
</html>`

const HEADERS = {
  'Content-Security-Policy': CONTENT_SECURITY_POLICY,
  'X-Content-Type-Options': 'nosniff',
  'Referrer-Policy': 'no-referrer',
}

type Page = ReturnType<typeof serveStaticPage>

/** Pages by path. Each is rendered at its first request. */
function listPages(document: OpenApiDocument): Map<string, Page> {
  const groups = groupOperations(document)
  const page = (content: () => Html, title?: string, current?: string) =>
    serveStaticPage(
      'text/html; charset=UTF-8',
      async () => String(await renderPage(document, groups, content(), title, current)),
      HEADERS,
    )
  const operations = groups.flatMap(group => group.operations)
  return new Map([
    ['/docs', page(() => overview(document, groups))],
    ...operations.map((operation): [string, Page] => [
      `${OPERATIONS_PATH}/${operation.id}`,
      page(() => operationPage(document, operation), shortTitle(operation.id), operation.id),
    ]),
    ...listSchemas(document).map(({ name, schema }): [string, Page] => [
      schemaPath(name),
      page(() => schemaPage(document, name, schema), name),
    ]),
  ])
}

export function serveDocsPages<E extends Env>(app: Hono<E>, buildDocument: () => Promise<OpenApiDocument>): void {
  const loadPages = loadOnce(async () => listPages(await buildDocument()))
  for (const path of ['/docs', `${OPERATIONS_PATH}/:name`, `${SCHEMAS_PATH}/:name`])
    app.get(path, async c => {
      const pages = await loadPages()
      return pages.get(c.req.path)?.(c) ?? c.notFound()
    })
  app.get(
    '/docs/docs.js',
    serveStaticPage('text/javascript; charset=utf-8', () => clientScript, HEADERS),
  )
  app.get(
    '/docs/docs.css',
    serveStaticPage('text/css; charset=utf-8', () => clientStyle, HEADERS),
  )
}
