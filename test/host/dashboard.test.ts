// The page and the files of the dashboard, as `npm start` serves them, and the weight of the built files.
import { mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { brotliDecompressSync, gunzipSync } from 'node:zlib'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { filesOf, MAIN, type Manifest } from '../../src/dashboard/served/shell.ts'
import { createFolderFiles, DASHBOARD_FOLDER } from '../../src/host/dashboard-folder.ts'
import { createHost } from '../../src/host/host.ts'

const emptyFolder = mkdtempSync(join(tmpdir(), 'slipway-dashboard-'))
const settings = {
  DATABASE_URL: 'postgres://nobody@127.0.0.1:1/none',
  DATABASE_SYSTEM_URL: 'postgres://nobody@127.0.0.1:1/none',
  SEALING_KEYS: `first:${Buffer.alloc(32, 7).toString('base64url')}`,
  PUBLIC_URL: 'http://slipway.test',
}
const startHost = (folder: string) => createHost(settings, { assets: createFolderFiles(folder), log: () => {} })
const host = startHost(DASHBOARD_FOLDER)
const get = (path: string, headers: Record<string, string> = {}, { app } = host) =>
  app.request(`http://slipway.test${path}`, { headers })

let manifest: Manifest
beforeAll(() => {
  manifest = JSON.parse(readFileSync(join(DASHBOARD_FOLDER, 'manifest.json'), 'utf8'))
})
afterAll(async () => {
  rmSync(emptyFolder, { recursive: true })
  await host.close()
})

describe('the page of the dashboard', () => {
  it('is the same for every path below /ui, with nothing inline and a policy that allows only own files', async () => {
    const pages = await Promise.all(['/ui', '/ui/', '/ui/deployments/1?a=b', '/ui/a/b/c'].map(path => get(path)))
    const texts = await Promise.all(pages.map(page => page.text()))
    expect(new Set(texts).size).toBe(1)
    expect(pages.map(({ status }) => status)).toEqual([200, 200, 200, 200])
    expect(texts[0]).not.toMatch(/<style|style=|<script(?![^>]* src="\/ui\/assets\/[\w.-]+"><\/script>)|\son\w+=/)
    const { headers } = pages[0]!
    expect(headers.get('Content-Security-Policy')).toContain("require-trusted-types-for 'script'; trusted-types 'none'")
    expect(headers.get('Content-Security-Policy')).not.toMatch(/unsafe|https?:|\*/)
    expect(headers.get('Cross-Origin-Opener-Policy')).toBe('same-origin')
    expect(headers.get('Cross-Origin-Resource-Policy')).toBe('same-origin')
    expect((await get('/ui', { 'If-None-Match': headers.get('ETag')! })).status).toBe(304)
  })

  it('names files that exist', async () => {
    const page = await (await get('/ui')).text()
    const files = [...page.matchAll(/(?:src|href)="(\/ui\/[^"]+)"/g)].map(([, path]) => path!)
    expect(files.length).toBeGreaterThan(1)
    for (const file of files) expect((await get(file)).status, file).toBe(200)
  })

  it('without a build says how to make one, and the API answers', async () => {
    const unbuilt = startHost(emptyFolder)
    const page = await get('/ui/deployments', {}, unbuilt)
    expect(page.status).toBe(503)
    expect(await page.text()).toContain('npm run build:dashboard')
    expect((await get('/healthz', {}, unbuilt)).status).toBe(200)
    await unbuilt.close()
  })
})

describe('the root', () => {
  const CHROMIUM = 'text/html,application/xhtml+xml,application/xml;q=0.9,image/avif,image/webp,*/*;q=0.8'
  it.each([CHROMIUM, 'text/html', 'text/html, application/json;q=0.9'])('leads %s to the dashboard', async Accept => {
    const { status, headers } = await get('/', { Accept })
    expect([status, headers.get('Location'), headers.get('Vary')]).toEqual([302, '/ui/', 'Accept, Origin'])
  })

  it.each([undefined, '*/*', 'application/json', 'application/json, text/html;q=0.9', 'text/plain', 'text/html;q=0'])(
    'is an unknown path for %s',
    async Accept => {
      expect((await get('/', Accept ? { Accept } : {})).status).toBe(404)
    },
  )
})

describe('a link that a published client prints', () => {
  const [w, p, r, d, t] = [1, 2, 3, 4, 5].map(digit => `0000000${digit}-0000-4000-8000-000000000000`)
  it.each([
    [`/o/${w}/projects/p/${p}`, `/ui/${w}/traces/${p}`],
    [`/o/${w}/projects/p/${p}?tab=3&clusterJobId=${r}`, `/ui/${w}/traces/${p}/insights/${r}`],
    [`/o/${w}/projects/p/${p}?clusterJobId=..%2F..`, `/ui/${w}/traces/${p}`],
    [`/o/${w}/projects/p/${p}/r/${r}?trace_id=${r}&start_time=x`, `/ui/${w}/traces/run/${r}`],
    [`/o/${w}/projects/p/${p}/r/${r}?poll=true`, `/ui/${w}/traces/run/${r}`],
    [`/o/${w}/datasets/${d}`, `/ui/${w}/datasets/${d}`],
    [`/o/${w}/datasets/${d}/compare?selectedSessions=${p}`, `/ui/${w}/datasets/${d}`],
    [`/public/${t}/r`, `/public/${t}/run`],
    [`/public/${t}/d`, `/public/${t}/datasets`],
    [`/o/${w}/projects/p/%2F%2Fevil.test`, null],
    ['/public/..%2F..%2F/r', null],
  ])('%s leads to %s', async (link, target) => {
    const { status, headers } = await get(link)
    expect([status, headers.get('Location')]).toEqual([target ? 302 : 404, target])
  })
})

describe('a file of the dashboard', () => {
  it('is kept by browsers for good, and sent compressed to those that ask for it', async () => {
    const path = `/ui/${manifest[MAIN]!.file}`
    const plain = await get(path)
    const bytes = Buffer.from(await plain.arrayBuffer())
    expect(plain.headers.get('Content-Type')).toBe('text/javascript; charset=utf-8')
    expect(plain.headers.get('Cache-Control')).toBe('public, max-age=31536000, immutable')
    expect(plain.headers.get('Cross-Origin-Resource-Policy')).toBe('same-origin')
    const codings = [
      ['br, gzip', 'br', brotliDecompressSync],
      ['gzip;q=0.5, br;q=0', 'gzip', gunzipSync],
    ] as const
    for (const [accepted, sent, decompress] of codings) {
      const response = await get(path, { 'Accept-Encoding': accepted })
      const { headers } = response
      const packed = Buffer.from(await response.arrayBuffer())
      expect([headers.get('Content-Encoding'), headers.get('Vary')]).toEqual([sent, 'Accept-Encoding, Origin'])
      expect(decompress(packed).equals(bytes)).toBe(true)
      expect(headers.get('ETag')).not.toBe(plain.headers.get('ETag'))
    }
    expect((await get(path, { 'If-None-Match': plain.headers.get('ETag')! })).status).toBe(304)
  })

  it.each(['nothing.js', '..%2Fmanifest.json', '%2e%2e%2fsource-hash', 'main', '.js', '%00.js', 'a%5c..%5cb.js'])(
    '%s does not exist',
    async name => {
      expect((await get(`/ui/assets/${name}`)).status).toBe(404)
    },
  )
})

describe('the weight of the dashboard', () => {
  /** It opens every page but the first. */
  const SCREENS = 'screens/screens.tsx'
  const sizes = new Map<string, number>()
  const weigh = (files: Iterable<string>) => [...files].reduce((sum, file) => sum + sizes.get(file)!, 0) / 1024
  beforeAll(() => {
    const folder = join(DASHBOARD_FOLDER, 'assets')
    for (const name of readdirSync(folder).filter(name => name.endsWith('.gz')))
      sizes.set(`assets/${name.slice(0, -3)}`, readFileSync(join(folder, name)).length)
  })

  it('is at most 45 KB gzipped for the first load, and 80 KB for any page', () => {
    const first = filesOf(manifest, MAIN)
    const pages = Object.entries(manifest).filter(([, entry]) => entry.isDynamicEntry)
    expect(pages.map(([source]) => source)).toContain(SCREENS)
    const table = filesOf(manifest, SCREENS, new Set(first))
    const weights = pages.map(([source]) => [source, weigh(filesOf(manifest, source, new Set(table)))] as const)
    expect(Object.keys(manifest).filter(source => source.includes('deployments/list'))).toEqual([])
    expect(weigh(first), 'the first load: the shell and the list of deployments').toBeLessThanOrEqual(45)
    for (const [source, weight] of weights) expect(weight, source).toBeLessThanOrEqual(80)
  })
})
