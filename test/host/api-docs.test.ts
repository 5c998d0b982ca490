// The API pages: content, content security policy and caching.
import { execFile, spawnSync } from 'node:child_process'
import { once } from 'node:events'
import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { Script } from 'node:vm'
import { Hono } from 'hono'
import { afterAll, describe, expect, test } from 'vitest'
import { codeExamples, type HttpRequest } from '../../src/api-docs/client/code-examples.ts'
import { type OpenApiDocument, serveDocsPages } from '../../src/api-docs/docs-page.ts'
import { groupOperations, listSchemas, type Schema, slug } from '../../src/api-docs/openapi-document.ts'
import { buildExample, describeField } from '../../src/api-docs/schema-fields.ts'
import { SegmentRouter } from '../../src/kernel/http/segment-router.ts'
import { fixture } from './fixtures/openapi.ts'

const folder = mkdtempSync(join(tmpdir(), 'slipway-api-docs-'))
afterAll(() => rmSync(folder, { recursive: true }))
const ENVIRONMENT = { PATH: process.env.PATH, API_KEY: 'the-key' }

/** Uses the same router as the app. */
const createApp = (document: OpenApiDocument) => {
  const app = new Hono({ router: new SegmentRouter() })
  serveDocsPages(app, async () => document)
  return app
}
const get = async (path = '/docs', document: OpenApiDocument = fixture, headers: Record<string, string> = {}) =>
  createApp(document).request(path, { headers })
const pageOf = async (document: OpenApiDocument, path = '/docs') => (await get(path, document)).text()
/** Every page of the document, by path. */
const pagesOf = async (document: OpenApiDocument) => {
  const operations = groupOperations(document).flatMap(group => group.operations)
  const paths = [
    '/docs',
    ...operations.map(({ id }) => `/docs/operations/${id}`),
    ...listSchemas(document).map(({ name }) => `/docs/schemas/${slug(name)}`),
  ]
  return new Map(await Promise.all(paths.map(async path => [path, await pageOf(document, path)] as const)))
}
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
    ['/docs/operations/createDeployment', 'text/html'],
    ['/docs/schemas/Problem', 'text/html'],
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

  test('concurrent first requests build the document and render the page once', async () => {
    let rendered = 0
    const app = new Hono({ router: new SegmentRouter() })
    serveDocsPages(app, async () => {
      rendered++
      return fixture
    })
    const all = await Promise.all(Array.from({ length: 5 }, () => app.request('/docs')))
    const tags = new Set(all.map(answer => answer.headers.get('etag')))
    expect([tags.size, rendered]).toEqual([1, 1])
  })

  test('other routes do not get its headers', async () => {
    const app = createApp(fixture).get('/other', c => c.text('other'))
    const other = await app.request('/other')
    expect(other.headers.has('content-security-policy')).toBe(false)
    expect(other.headers.has('etag')).toBe(false)
  })

  test('the script is valid JavaScript', async () => {
    const source = await (await get('/docs/docs.js')).text()
    expect(() => new Script(source)).not.toThrow()
  })

  test('no page contains what its policy forbids', async () => {
    const pages = await pagesOf(fixture)
    expect(pages.size).toBeGreaterThan(11)
    for (const [path, page] of pages) {
      expect(page, path).not.toMatch(
        /\sstyle=|\son\w+=|<style|<script(?! type="module" src="\/docs\/docs\.js"><\/script>)/,
      )
      expect(page, path).not.toMatch(/(?:src|href)="(?:https?:)?\/\//)
    }
  })

  test.each(['/docs/operations/none', '/docs/schemas/none', '/docs/operations/', '/docs/operations/constructor'])(
    '%s does not exist',
    async path => {
      expect((await get(path)).status).toBe(404)
    },
  )
})

describe('the pages', () => {
  const operations = groupOperations(fixture).flatMap(group => group.operations)

  test('for the operations are linked from the overview and from every menu', async () => {
    const pages = await pagesOf(fixture)
    expect(operations).toHaveLength(11)
    for (const { id, permission } of operations) {
      const path = `/docs/operations/${id}`
      expect(countOf(pages.get('/docs')!, `<li id="${id}"><a href="${path}">`)).toBe(1)
      for (const page of pages.values()) expect(page).toContain(`<a href="${path}"\n`)
      const page = pages.get(path)!
      expect(countOf(page, '<section class="operation"')).toBe(1)
      expect(page).toMatch(new RegExp(`<a href="${path}"\\naria-current="page">`))
      if (permission) expect(page).toContain(`<code>${permission}</code>`)
    }
  })

  test('name operations in the menu by few words', async () => {
    expect(await pageOf(fixture)).toMatch(/>Create deployment<span/)
  })

  test('have unique ids, a label for every input and no broken links', async () => {
    const pages = await pagesOf(fixture)
    const idsOf = (page: string) => [...page.matchAll(/\sid="([^"]+)"/g)].map(match => match[1])
    for (const [path, page] of pages) {
      const ids = idsOf(page)
      expect(new Set(ids).size, path).toBe(ids.length)
      for (const [, target] of page.matchAll(/\sfor="([^"]+)"/g)) expect(ids, path).toContain(target)
      for (const [, to, fragment] of page.matchAll(/\shref="([^"#]*)(?:#([^"]+))?"/g)) {
        if (to!.startsWith('data:') || to === '/docs/docs.css') continue
        expect([...pages.keys()], path).toContain(to || path)
        if (fragment) expect(idsOf(pages.get(to || path)!), `${path} to ${to}`).toContain(fragment)
      }
      for (const [, id] of page.matchAll(/<(?:input|select|textarea)[^>]*? id="([^"]+)"/g))
        expect(page).toContain(` for="${id}"`)
      expect(countOf(page, '<input ') + countOf(page, '<select ') + countOf(page, '<textarea '), path).toBe(
        countOf(page, ' for="'),
      )
    }
  })

  test('send the key in its header, where a cookie is another way to authenticate', async () => {
    expect(await pageOf(fixture)).toContain('data-header="X-Api-Key" data-prefix=""')
  })

  test('show an example of each successful response', async () => {
    const page = await pageOf(fixture, '/docs/operations/createDeployment')
    const { responses } = operations.find(({ id }) => id === 'createDeployment')!
    const { status, media } = responses.find(one => one.status.startsWith('2'))!
    const example = JSON.stringify(buildExample(fixture, media!.schema, true), null, 2)
    expect(page).toContain(`aria-label="Example of the response ${status}">${example.replaceAll('"', '&quot;')}</pre>`)
  })

  test('leave out headers that all pages share, and apply the parameters of a path to each method', async () => {
    const patch = operations.find(operation => operation.id === 'patchDeployment')
    expect(patch?.parameters.map(parameter => parameter.name)).toEqual(['deployment_id', 'X-Tenant-Id'])
    const page = await pageOf(fixture, '/docs/operations/patchDeployment')
    expect([page.includes('name="deployment_id"'), page.includes('name="X-Tenant-Id"')]).toEqual([true, false])
  })

  test('list error codes that operations share once, by status', async () => {
    const answer = (description: string) => ({ description, content: { 'application/problem+json': {} } })
    const refused = { responses: { 404: { $ref: '#/components/responses/404' }, 418: answer('specific') } }
    const pages = await pagesOf({
      ...documentOf({}, { '/one': { get: refused }, '/two': { get: refused } }),
      components: { responses: { 404: answer('shared') } },
      'x-errors': [{ code: 'not_found', status: 404, detail: 'shared' }],
    })
    const [overview, ...others] = pages.values()
    expect([countOf(overview!, 'id="errors-404"'), countOf(overview!, 'shared')]).toEqual([1, 1])
    const counts = others.map(page =>
      ['href="/docs#errors-404"', 'shared', 'specific'].map(part => countOf(page, part)),
    )
    expect(counts).toEqual([
      [1, 0, 1],
      [1, 0, 1],
    ])
  })

  test('for an empty document are an overview', async () => {
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
  const pages = await pagesOf({
    openapi: '3.1.0',
    info: { title: html, version: html, description: html },
    tags: [{ name: html, description: html }],
    paths: { [`/${html}`]: { get: operation, post: { ...operation, operationId: `${html}2` } } },
    components: {
      schemas: { [html]: schema },
      securitySchemes: { [html]: { type: 'apiKey', in: 'header', name: html } },
    },
  })
  expect(pages.size).toBe(4)
  for (const page of pages.values()) {
    expect(page).toContain('&lt;img src=x')
    expect(page).not.toContain('<img')
    expect(countOf(page, '</script>')).toBe(1)
    expect(countOf(page, '</textarea>')).toBe(countOf(page, '<textarea'))
  }
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
    ['some plain types', { anyOf: [{ type: 'string' }, { type: 'number' }] }, 'string or number', []],
    ['a range', { type: 'integer', minimum: 1, maximum: 100, default: 20 }, 'integer', ['1 to 100', 'default 20']],
    ['a safe integer', { type: 'integer', minimum: -(2 ** 53 - 1), maximum: 2 ** 53 - 1 }, 'integer', []],
    ['an enum', { type: 'string', enum: ['a', 'b'] }, 'string', ['one of "a", "b"']],
    ['a format over its pattern', { type: 'string', format: 'uuid', pattern: '^x$' }, 'string · uuid', []],
    [
      'a list',
      { type: 'array', maxItems: 2, items: { type: 'string', pattern: '^x$' } },
      'array of strings',
      ['at most 2 items', 'each matches ^x$'],
    ],
    ['anything', {}, 'any', []],
  ])('%s', (_, schema, type, limits) => {
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
      'inside itself',
      { A: { type: 'object', properties: { a: { $ref: '#/components/schemas/A' } }, required: ['a'] } },
    ],
    ['a list of itself', { A: { type: 'array', items: { $ref: '#/components/schemas/A' } } }],
    ['a choice of itself', { A: { anyOf: [{ $ref: '#/components/schemas/A' }, { type: 'string' }] } }],
    ['all of itself', { A: { allOf: [{ $ref: '#/components/schemas/A' }] } }],
    ['a circle', { A: { $ref: '#/components/schemas/B' }, B: { $ref: '#/components/schemas/A' } }],
    ['nothing', { A: { $ref: '#/components/schemas/constructor' } }],
  ])('that is %s is described in finite space', async (_, schemas) => {
    const document = documentOf(schemas)
    const schema = { $ref: '#/components/schemas/A' }
    for (const whole of [true, false]) expect(() => JSON.stringify(buildExample(document, schema, whole))).not.toThrow()
    expect(JSON.stringify(describeField(document, schema)).length).toBeLessThan(5000)
    expect((await get('/docs/schemas/A', document)).status).toBe(200)
  })

  test('links to a recursive schema', () => {
    const A = { type: 'object', properties: { list: { type: 'array', items: { $ref: '#/components/schemas/A' } } } }
    expect(show({ $ref: '#/components/schemas/A' }, { A }).fields[0]?.schemaName).toBe('A')
  })
})

describe('a code example', () => {
  const typed = `it's "$HOME" $(id) \`id\` \${1} %7B \\ \\n ! ''' """ ü\n@x`
  const keyHeaders: HttpRequest['keyHeader'][] = [
    undefined,
    { name: 'X-Api-Key', prefix: '' },
    { name: 'Authorization', prefix: 'Bearer ' },
  ]
  const run = promisify(execFile)
  const runners: [string, (code: string) => Promise<{ stdout: string }>][] = [
    ['curl', code => run('sh', ['-c', `curl() { command curl -s "$@"; }; ${code}`], { env: ENVIRONMENT })],
    ['JavaScript', code => run('node', ['--input-type=module', '-e', code], { env: ENVIRONMENT })],
    ['Python', code => run('python3', ['-c', code], { env: ENVIRONMENT })],
  ]

  test.for(runners)(
    'in %s sends user input unchanged, and prints the response',
    async ([language, execute], { skip }) => {
      // A machine that runs the tests may lack it.
      if (language === 'Python' && spawnSync('python3', ['--version']).error) skip('python3 is not installed')
      const server = createServer(async (request, response) => {
        const { method, url, headers } = request
        const body = Buffer.concat(await request.toArray()).toString()
        response.statusCode = 422
        response.end(
          JSON.stringify({ method, url, a: headers['x-a'], key: headers['x-api-key'] ?? headers.authorization, body }),
        )
      })
      server.listen(0, '127.0.0.1')
      await once(server, 'listening')
      try {
        const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/a?b='%22$HOME`
        const file = join(folder, 'a file')
        writeFileSync(file, 'of a file')
        for (const keyHeader of keyHeaders)
          for (const body of [undefined, typed, new File(['of a file'], file)]) {
            const method = body === undefined ? 'GET' : 'POST'
            const headers: HttpRequest['headers'] = [['X-A', `it's "$HOME" \`id\` \\`]]
            const { stdout } = await execute(codeExamples[language]!({ method, url, headers, body, keyHeader }))
            const { url: path, ...received } = JSON.parse(stdout.replace(/^422 /, ''))
            // The URL parser of JavaScript encodes an apostrophe.
            expect({ path: decodeURIComponent(path), ...received }).toEqual({
              method,
              path: `/a?b='"$HOME`,
              a: headers[0]![1],
              ...(keyHeader && { key: `${keyHeader.prefix}the-key` }),
              body: body instanceof File ? 'of a file' : (body ?? ''),
            })
          }
      } finally {
        server.close()
      }
    },
  )

  test.each(runners)('in %s does not contain the key', language => {
    const request = { method: 'GET', url: 'http://h/', headers: [], body: undefined, keyHeader: keyHeaders[1] }
    expect(codeExamples[language]!(request)).toContain('API_KEY')
  })
})

test('a request example has the required members, a response example all', () => {
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
