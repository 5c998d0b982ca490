import { expect, it } from 'vitest'
import { loadOperations } from '../src/app.ts'
import { codes, statusOf } from '../src/kernel/http/codes.ts'
import { getApp, send } from './support/app.ts'

const operations = await loadOperations()

const document = async () => (await send('GET', '/openapi.json')).body

it('the OpenAPI document describes every route of the app and no other', async () => {
  const { paths } = await document()
  const described = Object.entries<object>(paths).flatMap(([path, methods]) =>
    Object.keys(methods).map(method => `${method} ${path}`),
  )
  const app = getApp()
  const preflight = (path: string) => app.fetch(new Request(`http://slipway.test${path}`, { method: 'OPTIONS' }))
  // The first request to a path mounts what serves it.
  for (const path of ['/docs', '/ui', '/sign-in', '/o', '/metrics', ...Object.keys(paths)]) await preflight(path)
  const routed = app.routes
    .filter(
      route =>
        route.method !== 'ALL' &&
        !/^\/(docs|ui|sign-in$|sign-in\/page|sign-in\/deployment|device$|device\/page|oauth\/authorize|o\/|public\/:1\/|$)/.test(
          route.path,
        ),
    )
    .map(route => `${route.method.toLowerCase()} ${route.path.replace(/:(\w+)\*?/g, '{$1}')}`)
  expect(described.sort()).toEqual([...new Set(routed)].sort())
})

it('the OpenAPI document has each operation once, with its permission', async () => {
  const ids = operations.map(operation => operation.id)
  expect(new Set(ids).size).toBe(ids.length)
  const { paths } = await document()
  for (const operation of operations) {
    const { method, path, kind } = operation
    const verb = operation.kind === 'open' ? undefined : operation.verb
    expect(paths[path][method]['x-permission']).toBe(verb?.permission ?? undefined)
    const isHeaderOnly = kind === 'passThrough' || (operation.kind === 'open' && operation.keyOnly)
    const others = verb ? undefined : []
    expect(paths[path][method].security).toEqual(isHeaderOnly ? [{ apiKey: [] }, { bearer: [] }] : others)
  }
})

it('the OpenAPI document declares each way to authenticate, as alternatives', async () => {
  const { security, components } = await document()
  expect(security).toEqual([{ apiKey: [] }, { bearer: [] }, { session: [] }])
  expect(components.securitySchemes.session).toMatchObject({ in: 'cookie', name: '__Host-slipway' })
})

it('the OpenAPI document has no broken references', async () => {
  const all = await document()
  const references = [...JSON.stringify(all).matchAll(/"\$ref":"#\/([^"]+)"/g)]
  expect(references.length).toBeGreaterThan(500)
  for (const [, reference] of references) {
    const target = reference!.split('/').reduce((at, name) => at?.[name], all)
    expect(target, reference).toBeTypeOf('object')
    expect(target.$ref, reference).not.toBe(`#/${reference}`)
  }
})

it('the OpenAPI document lists every error code with its status', async () => {
  const all = (await document())['x-errors']
  expect(all.map((one: { code: string }) => one.code)).toEqual(codes)
  for (const { code, status } of all) expect(status).toBe(statusOf(code))
})

const getPage = (path: string, headers: Record<string, string> = {}) =>
  getApp().fetch(new Request(`http://slipway.test${path}`, { headers, redirect: 'manual' }))

it('the page /docs has an anchor for every operation and every error code', async () => {
  const response = await getPage('/docs')
  const page = await response.text()
  expect(response.status).toBe(200)
  for (const { id } of operations) expect(page).toContain(`id="${id}"`)
  for (const code of codes) expect(page).toContain(`id="error-${code}"`)
})

it.each([
  '/docs',
  '/docs/operations/createDeployment',
  '/docs/schemas/Problem',
  '/docs/docs.js',
  '/docs/docs.css',
  '/openapi.json',
])('%s has a strong ETag, and answers 304 without a body if If-None-Match names it', async path => {
  const first = await getApp().fetch(new Request(`http://slipway.test${path}`))
  const tag = first.headers.get('ETag')!
  expect([first.status, first.headers.get('Cache-Control')]).toEqual([200, 'no-cache'])
  expect(tag).toMatch(/^"[0-9a-f]{64}"$/)
  expect((await first.arrayBuffer()).byteLength).toBeGreaterThan(1000)
  for (const known of [tag, `"other", W/${tag}`, '*']) {
    const request = new Request(`http://slipway.test${path}`, { headers: { 'If-None-Match': known } })
    const again = await getApp().fetch(request)
    expect([again.status, again.headers.get('ETag'), await again.text()]).toEqual([304, tag, ''])
  }
})
