// The API pages: content, content security policy and caching.
import { execFileSync } from 'node:child_process'
import { Script } from 'node:vm'
import { Hono } from 'hono'
import { describe, expect, test } from 'vitest'
import { toCurl } from '../../src/api-docs/client/curl.ts'
import { type OpenApiDocument, serveDocsPages } from '../../src/api-docs/docs-page.ts'
import { groupOperations, type Schema } from '../../src/api-docs/openapi-document.ts'
import { buildExample, describeField } from '../../src/api-docs/schema-fields.ts'
import { SegmentRouter } from '../../src/kernel/segment-router.ts'
import { fixture } from './fixtures/openapi.ts'

/** With the same router as the app. */
const createApp = (document: OpenApiDocument) => {
  const app = new Hono({ router: new SegmentRouter() })
  serveDocsPages(app, () => document)
  return app
}
const get = async (path = '/docs', document: OpenApiDocument = fixture, headers: Record<string, string> = {}) =>
  createApp(document).request(path, { headers })
const pageOf = async (document: OpenApiDocument) => (await get('/docs', document)).text()
const documentOf = (schemas: Record<string, unknown>, paths: object = {}): OpenApiDocument => ({
  openapi: '3.1.0',
  info: { title: 'T', version: '1' },
  paths,
  components: { schemas },
})
const countOf = (text: string, part: string) => text.split(part).length - 1

describe('the files of the API pages', () => {
  test.each([
    ['/docs', 'text/html'],
    ['/docs/docs.js', 'text/javascript'],
    ['/docs/docs.css', 'text/css'],
  ])('%s is served with a strict content security policy and an ETag', async (path, type) => {
    const first = await get(path)
    expect(first.status).toBe(200)
    expect(first.headers.get('content-type')).toContain(type)
    expect(first.headers.get('cache-control')).toBe('no-cache')
    const policy = first.headers.get('content-security-policy') ?? ''
    expect(policy).toContain("default-src 'none'")
    expect(policy).not.toContain('unsafe')
    const again = await get(path, fixture, { 'If-None-Match': first.headers.get('etag') ?? '' })
    expect(again.status).toBe(304)
    expect(await again.text()).toBe('')
  })

  test('concurrent first requests render the page once', async () => {
    let rendered = 0
    const app = new Hono({ router: new SegmentRouter() })
    serveDocsPages(app, () => {
      rendered++
      return fixture
    })
    const answers = await Promise.all(Array.from({ length: 5 }, () => app.request('/docs')))
    const tags = new Set(answers.map(answer => answer.headers.get('etag')))
    expect([tags.size, rendered]).toEqual([1, 1])
  })

  test('other routes do not get the headers of the page', async () => {
    const app = createApp(fixture).get('/other', c => c.text('other'))
    const other = await app.request('/other')
    expect(other.headers.has('content-security-policy')).toBe(false)
    expect(other.headers.has('etag')).toBe(false)
  })

  test('the script is valid JavaScript', async () => {
    const source = await (await get('/docs/docs.js')).text()
    expect(() => new Script(source)).not.toThrow()
  })

  test('the page contains nothing that its policy forbids', async () => {
    const page = await pageOf(fixture)
    expect(page).not.toMatch(/\sstyle=|\son\w+=|<style|<script(?! type="module" src="\/docs\/docs\.js"><\/script>)/)
    expect(page).not.toMatch(/(?:src|href)="(?:https?:)?\/\//)
  })
})

describe('the page', () => {
  const operations = groupOperations(fixture).flatMap(group => group.operations)

  test('shows every operation with a link in the navigation', async () => {
    const page = await pageOf(fixture)
    expect(operations).toHaveLength(11)
    for (const { id, permission } of operations) {
      expect(countOf(page, `<section class="operation" id="${id}"`)).toBe(1)
      expect(page).toContain(`<a href="#${id}" title=`)
      if (permission) expect(page).toContain(`<code>${permission}</code>`)
    }
  })

  test('has unique ids, a label for every input and no broken links', async () => {
    const page = await pageOf(fixture)
    const ids = [...page.matchAll(/\sid="([^"]+)"/g)].map(match => match[1])
    expect(new Set(ids).size).toBe(ids.length)
    for (const [, target] of page.matchAll(/\sfor="([^"]+)"/g)) expect(ids).toContain(target)
    for (const [, target] of page.matchAll(/\shref="#([^"]+)"/g)) expect(ids).toContain(target)
    for (const [, id] of page.matchAll(/<(?:input|select|textarea)[^>]*? id="([^"]+)"/g))
      expect(page).toContain(` for="${id}"`)
    expect(countOf(page, '<input ') + countOf(page, '<select ') + countOf(page, '<textarea ')).toBe(
      countOf(page, ' for="'),
    )
  })

  test('shows path parameters for each method, and no input for headers that apply to the whole page', async () => {
    const patch = operations.find(operation => operation.id === 'patchDeployment')
    expect(patch?.parameters.map(parameter => parameter.name)).toEqual(['deployment_id', 'X-Tenant-Id'])
    expect(await pageOf(fixture)).not.toContain('name="X-Tenant-Id"')
  })

  test('lists error codes that operations share once, by status', async () => {
    const answer = (description: string) => ({ description, content: { 'application/problem+json': {} } })
    const operation = { responses: { 404: { $ref: '#/components/responses/404' }, 418: answer('specific') } }
    const page = await pageOf({
      ...documentOf({}, { '/one': { get: operation }, '/two': { get: operation } }),
      components: { responses: { 404: answer('shared') } },
      'x-errors': [{ code: 'not_found', status: 404, detail: 'shared' }],
    })
    expect([countOf(page, 'id="errors-404"'), countOf(page, 'href="#errors-404"')]).toEqual([1, 2])
    expect([countOf(page, 'shared'), countOf(page, 'specific')]).toEqual([1, 2])
  })

  test('is rendered for an empty document', async () => {
    expect((await get('/docs', { openapi: '3.1.0', info: { title: 'T', version: '1' } })).status).toBe(200)
  })
})

test('HTML in a document is shown as text', async () => {
  const html = `"'></script></textarea><img src=x onerror=alert(1)>`
  const schema = {
    title: html,
    description: `\`${html}\``,
    type: 'object',
    properties: { [html]: { type: html, format: html, pattern: html, default: html, enum: [html], example: html } },
    required: [html],
  }
  const operation = {
    operationId: html,
    summary: html,
    description: html,
    tags: [html],
    'x-permission': html,
    parameters: ['path', 'query', 'header'].map(place => ({
      name: html,
      in: place,
      description: html,
      schema: { example: html },
    })),
    requestBody: { description: html, content: { [`json${html}`]: { schema, example: html } } },
    responses: {
      [html]: { description: html, headers: { [html]: { description: html } }, content: { [html]: { schema } } },
    },
  }
  const page = await pageOf({
    openapi: '3.1.0',
    info: { title: html, version: html, description: html },
    tags: [{ name: html, description: html }],
    paths: { [`/${html}`]: { get: operation, post: { ...operation, operationId: `${html}2` } } },
    components: {
      schemas: { [html]: schema },
      securitySchemes: { [html]: { type: 'apiKey', in: 'header', name: html } },
    },
  })
  expect(page).toContain('&lt;img src=x')
  expect(page).not.toContain('<img')
  expect(countOf(page, '</script>')).toBe(1)
  expect(countOf(page, '</textarea>')).toBe(countOf(page, '<textarea'))
})

describe('a schema', () => {
  const show = (schema: Schema, schemas = {}) => describeField(documentOf(schemas), schema)

  test.each<[string, Schema, string, string[]]>([
    ['nullable by type', { type: ['string', 'null'], format: 'date' }, 'string · date or null', []],
    [
      'nullable by choice',
      { anyOf: [{ type: 'string', maxLength: 3 }, { type: 'null' }] },
      'string or null',
      ['at most 3 characters'],
    ],
    ['several plain types', { anyOf: [{ type: 'string' }, { type: 'number' }] }, 'string or number', []],
    ['a range', { type: 'integer', minimum: 1, maximum: 100, default: 20 }, 'integer', ['1 to 100', 'default 20']],
    ['a safe integer', { type: 'integer', minimum: -(2 ** 53 - 1), maximum: 2 ** 53 - 1 }, 'integer', []],
    ['an enum', { type: 'string', enum: ['a', 'b'] }, 'string', ['one of "a", "b"']],
    ['a format with a pattern', { type: 'string', format: 'uuid', pattern: '^x$' }, 'string · uuid', []],
    [
      'a list',
      { type: 'array', maxItems: 2, items: { type: 'string', pattern: '^x$' } },
      'array of strings',
      ['at most 2 items', 'each matches ^x$'],
    ],
    ['any value', {}, 'any', []],
  ])('of the kind "%s" is described by its type and limits', (_, schema, type, limits) => {
    const field = show(schema)
    expect(field.type + (field.nullable ? ' or null' : '')).toBe(type)
    expect(field.limits).toEqual(limits)
  })

  test('shows the fields of allOf, records and alternatives', () => {
    const base = { type: 'object', properties: { id: { type: 'string' } }, required: ['id'] }
    const merged = show(
      { allOf: [{ $ref: '#/components/schemas/Base' }, { properties: { n: { type: 'number' } } }] },
      { Base: base },
    )
    expect(merged.fields.map(field => [field.name, field.required])).toEqual([
      ['id', true],
      ['n', false],
    ])
    expect(show({ type: 'object', additionalProperties: { type: 'string' } }).fields[0]?.type).toBe('string')
    const kinds = ['a', 'b'].map(kind => ({ type: 'object', properties: { kind: { type: 'string', const: kind } } }))
    expect(show({ oneOf: kinds }).fields.map(field => field.name)).toEqual(['kind = "a"', 'kind = "b"'])
  })

  test.each<[string, Record<string, unknown>]>([
    [
      'a member of itself',
      { A: { type: 'object', properties: { a: { $ref: '#/components/schemas/A' } }, required: ['a'] } },
    ],
    ['a list of itself', { A: { type: 'array', items: { $ref: '#/components/schemas/A' } } }],
    ['a choice of itself', { A: { anyOf: [{ $ref: '#/components/schemas/A' }, { type: 'string' }] } }],
    ['all of itself', { A: { allOf: [{ $ref: '#/components/schemas/A' }] } }],
    ['a circular reference', { A: { $ref: '#/components/schemas/B' }, B: { $ref: '#/components/schemas/A' } }],
    ['a missing reference', { A: { $ref: '#/components/schemas/constructor' } }],
  ])('that is %s gets a finite description and example', async (_, schemas) => {
    const document = documentOf(schemas)
    const schema = { $ref: '#/components/schemas/A' }
    for (const whole of [true, false]) expect(() => JSON.stringify(buildExample(document, schema, whole))).not.toThrow()
    expect(JSON.stringify(describeField(document, schema)).length).toBeLessThan(5000)
    expect((await get('/docs', document)).status).toBe(200)
  })

  test('links to a recursive schema', () => {
    const A = { type: 'object', properties: { list: { type: 'array', items: { $ref: '#/components/schemas/A' } } } }
    expect(show({ $ref: '#/components/schemas/A' }, { A }).fields[0]?.schemaName).toBe('A')
  })
})

test('a curl command passes user input to the shell as text', () => {
  const input = `it's "$HOME" $(id) \`id\` \\ !\n@x`
  const request = {
    method: 'POST',
    url: `http://h/${input}`,
    headers: [['X-A', input] satisfies [string, string]],
    body: input,
    keyHeader: 'X-Api-Key: ',
  }
  const shown = execFileSync('sh', ['-c', `curl() { printf '%s\\0' "$@"; }; ${toCurl(request)}`], {
    env: { API_KEY: 'k' },
    encoding: 'utf8',
  })
  expect(shown.split('\0')).toEqual([
    ...['-X', 'POST', `http://h/${input}`, '-H', 'X-Api-Key: k', '-H', `X-A: ${input}`, '--data-raw', input, ''],
  ])
})

test('a request example has the required members, and a response example has all members', () => {
  const schema: Schema = {
    type: 'object',
    properties: {
      id: { type: 'integer', minimum: 3 },
      name: { type: 'string', example: 'shop' },
      on: { type: 'boolean' },
    },
    required: ['id'],
  }
  const document = documentOf({})
  expect(buildExample(document, schema, false)).toEqual({ id: 3 })
  expect(buildExample(document, schema, true)).toEqual({ id: 3, name: 'shop', on: false })
  expect(buildExample(document, { ...schema, required: [] }, false)).toEqual({ id: 3, name: 'shop', on: false })
})
