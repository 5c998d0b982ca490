// Renders one operation: its permission, parameters and responses, the form that sends it, and examples.
import { html } from 'hono/html'
import type { ApiResponse, OpenApiDocument, Operation, Parameter, Schema } from './openapi-document.ts'
import { refName, slug } from './openapi-document.ts'
import { buildExample, describeField, type Field } from './schema-fields.ts'

export type Html = ReturnType<typeof html>

const inlineCode = (text: string) =>
  text.split(/`([^`]+)`/).map((part, index) => (index % 2 ? html`<code>${part}</code>` : part))

const LIST_ITEM = /^[-*] /

const renderBlock = (lines: string[]) =>
  lines.every(line => LIST_ITEM.test(line))
    ? html`<ul class="bullets">${lines.map(line => html`<li>${inlineCode(line.replace(LIST_ITEM, ''))}</li>`)}</ul>`
    : html`<p>${inlineCode(lines.join('\n'))}</p>`

/** Renders paragraphs, lists and `code`, but no other Markdown. */
export const renderProse = (text: string) =>
  text
    .split(/\n\s*\n/)
    .filter(paragraph => paragraph.trim())
    .map(paragraph => renderBlock(paragraph.trim().split('\n')))

export const methodBadge = (method: string) => html`<span class="method ${method.toLowerCase()}">${method}</span>`

// A break opportunity after each slash lets a long path wrap between its segments.
export const breakablePath = (path: string) => path.split(/(?<=\/)/).map(part => html`${part}<wbr>`)

export const SCHEMAS_PATH = '/docs/schemas'
export const schemaPath = (name: string) => `${SCHEMAS_PATH}/${slug(name)}`
export const schemaLink = (name: string) => html`<a href="${schemaPath(name)}">${name}</a>`

const hasChoices = (field: Field) => field.type.endsWith('these')

const fieldRow = (field: Field, choice: boolean): Html => html`<li>
<div class="field">${field.name && html`<span class="${choice ? 'choice' : 'name'}">${field.name}</span>`}
<span class="type">${field.schemaName ? schemaLink(field.schemaName) : field.type}${field.nullable && ' or null'}</span>
${field.required && html`<span class="required">required</span>`}
${field.deprecated && html`<span class="deprecated">deprecated</span>`}</div>
${renderProse(field.description)}
${field.limits.length > 0 && html`<ul class="limits">${field.limits.map(limit => html`<li>${limit}</li>`)}</ul>`}
${field.fields.length > 0 && nestedFields(field)}
</li>`

const nestedFields = (field: Field) => {
  const noun = hasChoices(field) ? 'alternative' : 'field'
  const count = `${field.fields.length} ${noun}${field.fields.length > 1 ? 's' : ''}`
  return html`<details><summary>${count}</summary>${fieldList(field)}</details>`
}

const fieldList = (field: Field): Html =>
  html`<ul class="fields">${field.fields.map(child => fieldRow(child, hasChoices(field)))}</ul>`

/** The fields of a schema, or one row if it has none. */
export const schemaSection = (document: OpenApiDocument, schema: Schema) => {
  const field = describeField(document, schema)
  if (field.fields.length === 0) return html`<ul class="fields">${fieldRow(field, false)}</ul>`
  const isPlainObject = field.type === 'object' && !field.nullable
  const type = html`<p class="type">${field.type}${field.nullable && ' or null'}</p>`
  return html`${isPlainObject ? '' : type}${fieldList(field)}`
}

const PARAMETER_PLACES: Record<string, string> = { path: 'Path', query: 'Query', header: 'Headers', cookie: 'Cookies' }

const parametersSection = (document: OpenApiDocument, operation: Operation) =>
  Object.entries(PARAMETER_PLACES).map(([place, title]) => {
    const parameters = operation.parameters.filter(parameter => parameter.in === place)
    const rows = parameters.map(({ name, schema, required, description }) => {
      const field = describeField(document, schema, name, required)
      return fieldRow({ ...field, description: description || field.description }, false)
    })
    return rows.length > 0 && html`<h2>${title}</h2><ul class="fields">${rows}</ul>`
  })

const responseRow = (document: OpenApiDocument, response: ApiResponse) => {
  const { status, description, media, headers } = response
  const isLong = /^[-*] |\n/.test(description)
  const inlineDescription = !isLong && html`<span>${inlineCode(description)}</span>`
  const head = html`<span class="status s${status[0]}">${status}</span> ${inlineDescription}`
  const below = isLong && renderProse(description)
  // Errors share a schema, so they link to it instead of repeating it.
  const ref = media?.schema.$ref
  if (ref && !isSuccess(response))
    return html`<li><div class="answer">${head} ${schemaLink(refName(ref))}</div>${below}</li>`
  if (!media && headers.length === 0) return html`<li><div class="answer">${head}</div>${below}</li>`
  return html`<li><details><summary class="answer">${head}</summary>
${headers.length > 0 && html`<ul class="fields">${headers.map(headerRow)}</ul>`}
${media && html`<p class="type">${media.type}</p>${schemaSection(document, media.schema)}`}
</details>${below}</li>`
}

const responsesSection = (document: OpenApiDocument, responses: ApiResponse[]) => {
  const list = (rows: ApiResponse[]) =>
    html`<ul class="answers">${rows.map(response => responseRow(document, response))}</ul>`
  const successes = responses.filter(isSuccess)
  const listedErrors = responses.filter(response => response.isListed)
  const otherErrors = responses.filter(response => !isSuccess(response) && !response.isListed)
  const codes = otherErrors.map(({ status }) => html` <span class="status s${status[0]}">${status}</span>`)
  const links = listedErrors.map(
    ({ status }) => html` <a class="status s${status[0]}" href="/docs#errors-${status}">${status}</a>`,
  )
  return html`<h2>Responses</h2>${list(successes)}
${
  otherErrors.length > 0 &&
  html`<details class="errors"><summary>Errors ${codes}</summary>
${list(otherErrors)}</details>`
}
${listedErrors.length > 0 && html`<p class="errors">Errors ${links}</p>`}`
}

const isSuccess = ({ status }: ApiResponse) => /^[123]/.test(status)

const headerRow = ({ name, description }: ApiResponse['headers'][number]) =>
  html`<li><div class="field"><span class="name">${name}</span> <span class="type">header</span></div>
${renderProse(description)}</li>`

const responseExamples = (document: OpenApiDocument, responses: ApiResponse[]) =>
  responses.map(response => {
    const { status, media } = response
    if (!media?.type.includes('json') || !isSuccess(response)) return ''
    const value = JSON.stringify(media.example ?? buildExample(document, media.schema, true), null, 2)
    return html`<div class="code"><div class="bar">Response <span class="status s${status[0]}">${status}</span></div>
<pre tabindex="0" aria-label="Example of the response ${status}">${value}</pre></div>`
  })

// The page has one input for each of these, or generates them.
const SHARED_HEADERS = ['x-api-key', 'authorization', 'x-tenant-id', 'idempotency-key']

const parameterInput = (document: OpenApiDocument, operation: Operation, parameter: Parameter) => {
  const { name, in: place, required, schema, repeats } = parameter
  const id = `${operation.id}-${place}-${slug(name)}`
  const { types, values } = inputKind(document, schema)
  const sample = schema.example ?? (Array.isArray(schema.examples) ? schema.examples[0] : schema.default)
  const isRequired = required && html`required`
  const repeat = repeats && html`data-repeats`
  // A browser removes dot segments from a path, so the request would reach another operation.
  const guard = place === 'path' && html`pattern="(?!\\.{1,2}$).+"`
  const hint = sample === undefined ? types : `e.g. ${typeof sample === 'string' ? sample : JSON.stringify(sample)}`
  const control =
    values.length > 0
      ? html`<select id="${id}" name="${name}" data-in="${place}" ${isRequired}><option value="">–</option>
${values.map(value => html`<option>${value}</option>`)}</select>`
      : html`<input id="${id}" name="${name}" data-in="${place}" placeholder="${hint}" ${isRequired} ${repeat} ${guard}
spellcheck="false" autocomplete="off" autocapitalize="off">`
  return html`<label for="${id}">${name}${required && html` <span class="required">required</span>`}</label>${control}`
}

const inputKind = (document: OpenApiDocument, schema: Schema) => {
  const field = describeField(document, schema)
  const values = field.type === 'boolean' ? ['true', 'false'] : (schema.enum ?? []).map(String)
  return { types: field.type, values }
}

const bodyInput = (document: OpenApiDocument, { id, body }: Operation) => {
  if (!body) return ''
  const label = html`<label for="${id}-body">Body <span class="type">${body.type}</span></label>`
  if (!body.type.includes('json')) return html`${label}<input id="${id}-body" type="file" data-in="body">`
  const value = JSON.stringify(body.example ?? buildExample(document, body.schema, false), null, 2)
  const rows = Math.min(16, value.split('\n').length + 1)
  return html`${label}<textarea id="${id}-body" data-in="body" rows="${rows}" spellcheck="false">
${value}</textarea>`
}

const idempotencyKeyInput = ({ id, method }: Operation) =>
  (method === 'POST' || method === 'PATCH') &&
  html`<label for="${id}-idempotency">Idempotency-Key <span class="type">a retry with it runs once</span></label>
<div class="line"><input id="${id}-idempotency" name="Idempotency-Key" data-in="header" data-fresh
spellcheck="false" autocomplete="off">
<button type="button" data-do="fresh">New</button></div>`

// Hidden until the script runs: the form does nothing without it.
const tryItForm = (document: OpenApiDocument, operation: Operation) => {
  const { method, path, open, body } = operation
  const parameters = operation.parameters.filter(
    ({ name, in: place }) => place !== 'cookie' && !SHARED_HEADERS.includes(name.toLowerCase()),
  )
  return html`<form class="try" hidden aria-label="Try: ${operation.summary}" data-method="${method}"
data-path="${path}" ${open && html`data-open`} ${body && html`data-type="${body.type}"`}>
${parameters.map(parameter => parameterInput(document, operation, parameter))}
${bodyInput(document, operation)}
${idempotencyKeyInput(operation)}
<div class="send"><button class="primary${method === 'DELETE' && ' danger'}">Send</button>
<span class="note" data-show="note"></span></div>
<div class="code" hidden data-show="answer"><div class="bar"><output data-show="status"></output></div>
<details><summary>Headers</summary><pre tabindex="0" data-show="headers"></pre></details>
<pre tabindex="0" aria-label="Response" data-show="body"></pre></div>
<div class="code"><div class="bar"><label class="unseen" for="language">Language</label>
<select id="language"></select><button type="button" data-do="copy">Copy</button></div>
<pre tabindex="0" aria-label="Code example" data-show="code"></pre></div>
</form>`
}

const bodySection = (document: OpenApiDocument, body: NonNullable<Operation['body']>) =>
  html`<h2>Body <span class="type">${body.type}</span>
${body.required && html`<span class="required">required</span>`}</h2>
${renderProse(body.description)}${schemaSection(document, body.schema)}`

const accessNote = ({ permission, open }: Operation) => {
  if (permission) return html`<p class="needs">Permission <code>${permission}</code></p>`
  return html`<p class="needs">${open ? 'Public: no key needed' : 'Any valid key'}</p>`
}

export const operationSection = (document: OpenApiDocument, operation: Operation, beforeForm: Html): Html => {
  const { id, method, path, summary, description, deprecated, parameters, body, responses } = operation
  return html`<section class="operation" id="${id}" aria-labelledby="${id}-title">
<div class="about">
<h1 id="${id}-title">${summary} ${deprecated && html`<span class="deprecated">deprecated</span>`}</h1>
<p class="route">${methodBadge(method)} <code>${breakablePath(path)}</code></p>
${accessNote(operation)}
${renderProse(description)}
${parameters.length > 0 && parametersSection(document, operation)}
${body && bodySection(document, body)}
${responses.length > 0 && responsesSection(document, responses)}
</div>
<div class="side">${beforeForm}${tryItForm(document, operation)}${responseExamples(document, responses)}</div>
</section>`
}
