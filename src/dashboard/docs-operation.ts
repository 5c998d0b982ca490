// Draws one operation: what it needs, takes and answers, and the form that sends it.
import { html } from 'hono/html'
import type { Answer, OpenApiDocument, Operation, Parameter, Schema } from './docs-document.ts'
import { refName, slug } from './docs-document.ts'
import { exampleOf, type Field, fieldOf } from './docs-schema.ts'

export type Html = ReturnType<typeof html>

const inline = (text: string) => text.split(/`([^`]+)`/).map((part, at) => (at % 2 ? html`<code>${part}</code>` : part))

const LISTED = /^[-*] /

const block = (lines: string[]) =>
  lines.every(line => LISTED.test(line))
    ? html`<ul class="bullets">${lines.map(line => html`<li>${inline(line.replace(LISTED, ''))}</li>`)}</ul>`
    : html`<p>${inline(lines.join('\n'))}</p>`

/** Paragraphs, lists and `code` of a description; every other character stands for itself. */
export const prose = (text: string) =>
  text
    .split(/\n\s*\n/)
    .filter(paragraph => paragraph.trim())
    .map(paragraph => block(paragraph.trim().split('\n')))

export const badge = (method: string) => html`<span class="method ${method.toLowerCase()}">${method}</span>`

// A break is offered after each slash, so that a long path wraps between its segments.
const pathOf = (path: string) => path.split(/(?<=\/)/).map(part => html`${part}<wbr>`)

const seeSchema = (name: string) => html`<a href="#schema-${slug(name)}">${name}</a>`

const isChoice = (field: Field) => field.type.endsWith('these')

const fieldRow = (field: Field, choice: boolean): Html => html`<li>
<div class="field">${field.name && html`<span class="${choice ? 'choice' : 'name'}">${field.name}</span>`}
<span class="type">${field.see ? seeSchema(field.see) : field.type}${field.nullable && ' or null'}</span>
${field.required && html`<span class="required">required</span>`}
${field.deprecated && html`<span class="deprecated">deprecated</span>`}</div>
${prose(field.description)}
${field.limits.length > 0 && html`<ul class="limits">${field.limits.map(limit => html`<li>${limit}</li>`)}</ul>`}
${field.fields.length > 0 && nested(field)}
</li>`

const nested = (field: Field) => {
  const noun = isChoice(field) ? 'alternative' : 'field'
  const count = `${field.fields.length} ${noun}${field.fields.length > 1 ? 's' : ''}`
  return html`<details><summary>${count}</summary>${fieldList(field)}</details>`
}

const fieldList = (field: Field): Html =>
  html`<ul class="fields">${field.fields.map(one => fieldRow(one, isChoice(field)))}</ul>`

/** A whole schema: its fields in place, or one row where it has none. */
export const schemaOf = (document: OpenApiDocument, schema: Schema) => {
  const field = fieldOf(document, schema)
  if (field.fields.length === 0) return html`<ul class="fields">${fieldRow(field, false)}</ul>`
  const whole = field.type === 'object' && !field.nullable
  return html`${whole ? '' : html`<p class="type">${field.type}${field.nullable && ' or null'}</p>`}${fieldList(field)}`
}

const PLACES: Record<string, string> = { path: 'Path', query: 'Query', header: 'Headers', cookie: 'Cookies' }

const parametersOf = (document: OpenApiDocument, operation: Operation) =>
  Object.entries(PLACES).map(([place, title]) => {
    const some = operation.parameters.filter(parameter => parameter.in === place)
    const rows = some.map(({ name, schema, required, description }) => {
      const field = fieldOf(document, schema, name, required)
      return fieldRow({ ...field, description: description || field.description }, false)
    })
    return rows.length > 0 && html`<h4>${title}</h4><ul class="fields">${rows}</ul>`
  })

const answerRow = (document: OpenApiDocument, answer: Answer) => {
  const { status, description, media, headers } = answer
  const long = /^[-*] |\n/.test(description)
  const head = html`<span class="status s${status[0]}">${status}</span> ${!long && html`<span>${inline(description)}</span>`}`
  const below = long && prose(description)
  // Errors share a schema: naming it once, with a link, keeps the page short.
  const ref = media?.schema.$ref
  if (ref && !isGood(answer)) return html`<li><div class="answer">${head} ${seeSchema(refName(ref))}</div>${below}</li>`
  if (!media && headers.length === 0) return html`<li><div class="answer">${head}</div>${below}</li>`
  return html`<li><details><summary class="answer">${head}</summary>
${headers.length > 0 && html`<ul class="fields">${headers.map(headerRow)}</ul>`}
${media && html`<p class="type">${media.type}</p>${schemaOf(document, media.schema)}`}
${media?.type.includes('json') && example(media.example ?? exampleOf(document, media.schema, true))}
</details>${below}</li>`
}

// Errors come after, folded: most operations share most of them.
const answersOf = (document: OpenApiDocument, answers: Answer[]) => {
  const rows = (some: Answer[]) => html`<ul class="answers">${some.map(answer => answerRow(document, answer))}</ul>`
  const good = answers.filter(isGood)
  const [listed, bad] = [answers.filter(one => one.listed), answers.filter(one => !isGood(one) && !one.listed)]
  const codes = bad.map(({ status }) => html` <span class="status s${status[0]}">${status}</span>`)
  const links = listed.map(
    ({ status }) => html` <a class="status s${status[0]}" href="#errors-${status}">${status}</a>`,
  )
  return html`<h4>Answers</h4>${rows(good)}${bad.length > 0 && html`<details class="errors"><summary>Errors ${codes}</summary>${rows(bad)}</details>`}${listed.length > 0 && html`<p class="errors">Errors ${links}</p>`}`
}

const isGood = ({ status }: Answer) => /^[123]/.test(status)

const headerRow = ({ name, description }: Answer['headers'][number]) =>
  html`<li><div class="field"><span class="name">${name}</span> <span class="type">header</span></div>${prose(description)}</li>`

const example = (value: unknown) =>
  html`<details><summary>Example</summary><pre tabindex="0"><code>${JSON.stringify(value, null, 2)}</code></pre></details>`

// The page asks for these once (or makes them), for all operations.
const SHARED = ['x-api-key', 'authorization', 'x-tenant-id', 'idempotency-key']

const inputOf = (document: OpenApiDocument, operation: Operation, parameter: Parameter) => {
  const { name, in: place, required, schema, repeats } = parameter
  const id = `${operation.id}-${place}-${slug(name)}`
  const { types, values } = inputKind(document, schema)
  const shown = schema.example ?? (Array.isArray(schema.examples) ? schema.examples[0] : schema.default)
  const must = required && html`required`
  const repeat = repeats && html`data-repeats`
  // A browser would take a dot segment out of the path, and the request would hit another operation.
  const guard = place === 'path' && html`pattern="(?!\\.{1,2}$).+"`
  const hint = shown === undefined ? types : `e.g. ${typeof shown === 'string' ? shown : JSON.stringify(shown)}`
  const control =
    values.length > 0
      ? html`<select id="${id}" name="${name}" data-in="${place}" ${must}><option value="">–</option>${values.map(value => html`<option>${value}</option>`)}</select>`
      : html`<input id="${id}" name="${name}" data-in="${place}" placeholder="${hint}" ${must} ${repeat} ${guard} spellcheck="false" autocomplete="off" autocapitalize="off">`
  return html`<label for="${id}">${name}${required && html` <span class="required">required</span>`}</label>${control}`
}

const inputKind = (document: OpenApiDocument, schema: Schema) => {
  const field = fieldOf(document, schema)
  const values = field.type === 'boolean' ? ['true', 'false'] : (schema.enum ?? []).map(String)
  return { types: field.type, values }
}

const bodyInput = (document: OpenApiDocument, { id, body }: Operation) => {
  if (!body) return ''
  const label = html`<label for="${id}-body">Body <span class="type">${body.type}</span></label>`
  if (!body.type.includes('json')) return html`${label}<input id="${id}-body" type="file" data-in="body">`
  const value = JSON.stringify(body.example ?? exampleOf(document, body.schema, false), null, 2)
  const rows = Math.min(16, value.split('\n').length + 1)
  return html`${label}<textarea id="${id}-body" data-in="body" rows="${rows}" spellcheck="false">
${value}</textarea>`
}

const repeatable = ({ id, method }: Operation) =>
  (method === 'POST' || method === 'PATCH') &&
  html`<label for="${id}-idempotency">Idempotency-Key <span class="type">sent twice, done once</span></label>
<div class="line"><input id="${id}-idempotency" name="Idempotency-Key" data-in="header" data-fresh spellcheck="false" autocomplete="off">
<button type="button" data-do="fresh">New</button></div>`

// Hidden until the script takes over: without it there is nothing here to press.
const formOf = (document: OpenApiDocument, operation: Operation) => {
  const { method, path, open, body } = operation
  const asked = operation.parameters.filter(
    ({ name, in: place }) => place !== 'cookie' && !SHARED.includes(name.toLowerCase()),
  )
  return html`<form class="try" hidden aria-label="Try: ${operation.summary}" data-method="${method}" data-path="${path}" ${open && html`data-open`} ${body && html`data-type="${body.type}"`}>
${asked.map(parameter => inputOf(document, operation, parameter))}
${bodyInput(document, operation)}
${repeatable(operation)}
<div class="send"><button class="primary${method === 'DELETE' && ' danger'}">Send</button><span class="note" data-show="note"></span></div>
<div class="code" hidden data-show="answer"><div class="bar"><output data-show="status"></output></div>
<details><summary>Headers</summary><pre tabindex="0" data-show="headers"></pre></details><pre tabindex="0" aria-label="Answer" data-show="body"></pre></div>
<div class="code"><div class="bar"><span>curl</span><button type="button" data-do="copy">Copy</button></div><pre tabindex="0" aria-label="curl command" data-show="curl"></pre></div>
</form>`
}

const needs = ({ permission, open }: Operation) => {
  if (permission) return html`<p class="needs">Permission <code>${permission}</code></p>`
  return html`<p class="needs">${open ? 'Open to everyone: no key needed' : 'Any valid key'}</p>`
}

export const operationSection = (document: OpenApiDocument, operation: Operation): Html => {
  const { id, method, path, summary, description, deprecated, parameters, body, answers } = operation
  return html`<section class="operation" id="${id}" aria-labelledby="${id}-title">
<div class="about">
<h3 id="${id}-title"><a href="#${id}">${summary}</a>${deprecated && html` <span class="deprecated">deprecated</span>`}</h3>
<p class="route">${badge(method)} <code>${pathOf(path)}</code></p>
${needs(operation)}
${prose(description)}
${parameters.length > 0 && parametersOf(document, operation)}
${body && html`<h4>Body <span class="type">${body.type}</span>${body.required && html` <span class="required">required</span>`}</h4>${prose(body.description)}${schemaOf(document, body.schema)}`}
${answers.length > 0 && answersOf(document, answers)}
</div>
${formOf(document, operation)}
</section>`
}
