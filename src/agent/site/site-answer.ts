// Decides the answer of a site: the file, its encoding and range, or a redirect. Pure.
import type { IncomingHttpHeaders } from 'node:http'
import { ENCODINGS, type Encoding, type OpenSite, type SiteFile } from './site-manifest.ts'
import { decodePath, findFile, isImmutable } from './site-paths.ts'
import { fillTarget, headersFor, isRedirection, matchPath } from './site-rules.ts'

export type SiteRequest = { method: string; url: string; headers: IncomingHttpHeaders }
/** `end` is the last byte, as in a Range header. */
type SiteBody = { content: string; encoding: Encoding | undefined; start: number; end: number }
export type SiteAnswer = {
  status: number
  headers: Record<string, string | string[]>
  body: SiteBody | null
  /** Without a body: the sentence of a problem document. */
  problem?: string
}
type Choice = { status: number; file: string } | { status: number; location: string } | { status: 404 }

const METHODS = 'GET, HEAD, OPTIONS'
const REVALIDATE = 'public, max-age=0, must-revalidate'
const IMMUTABLE = 'public, max-age=31536000, immutable'
/** A path with such an ending asks for a file, so a page would be a wrong answer. */
const FILE_ENDING = /\.[a-z][a-z\d]{0,9}$/i
const NOT_FOUND_PAGE = '/404.html'

export function answerSite(site: OpenSite, request: SiteRequest): SiteAnswer {
  const [encodedPath = '', query] = splitUrl(request.url)
  const path = decodePath(encodedPath)
  if (!path) return problem(400, 'The path is not valid. Use percent-encoded UTF-8, without `.`, `..` or NUL.')
  const isOptions = request.method === 'OPTIONS'
  if (!isOptions && request.method !== 'GET' && request.method !== 'HEAD')
    return problem(405, 'A static site answers GET and HEAD only.', { Allow: METHODS })
  if (isOptions) return withRules(site, path, { status: 204, headers: { Allow: METHODS }, body: null })
  const choice = choose(site, path, encodedPath.endsWith('/'), query)
  if ('location' in choice) {
    // A redirect of a path that gets a page of its own must not stay in caches.
    const headers = { Location: choice.location, 'Cache-Control': REVALIDATE, 'Content-Length': '0' }
    return { status: choice.status, headers, body: null }
  }
  const file = 'file' in choice ? choice.file : NOT_FOUND_PAGE
  const found = site.files.get(file)
  if (!found) return withRules(site, path, problem(404, 'This site has no file at this path.'))
  return withRules(site, path, answerFile(site, file, found, choice.status, request))
}

function splitUrl(url: string): [path: string, query: string | undefined] {
  const whole = url.split('#', 1)[0]!
  const mark = whole.indexOf('?')
  return mark < 0 ? [whole, undefined] : [whole.slice(0, mark), whole.slice(mark)]
}

/** Files first, then rules in their order, as on Netlify: only a forced rule comes before a file. */
function choose(site: OpenSite, path: string[], isFolder: boolean, query = ''): Choice {
  const has = (file: string) => site.files.has(file)
  const found = findFile(has, path, isFolder)
  for (const rule of site.redirects) {
    if (found && !rule.forced) continue
    const values = matchPath(rule.from, path)
    if (!values) continue
    const to = fillTarget(rule.to, values)
    if (isRedirection(rule.status)) return { status: rule.status, location: withQuery(to, query) }
    return chooseRewrite(has, to, rule.status)
  }
  if (found && 'redirect' in found) return { status: 308, location: found.redirect + query }
  if (found) return { status: 200, file: found.file }
  const { fallback } = site
  if (fallback !== null && fallback !== '404.html' && !FILE_ENDING.test(path.at(-1) ?? ''))
    return { status: 200, file: `/${fallback}` }
  return { status: 404 }
}

function withQuery(to: string, query: string): string {
  if (query === '' || to.includes('?')) return to
  const [address, fragment] = to.split('#', 2)
  return `${address}${query}${fragment === undefined ? '' : `#${fragment}`}`
}

/** A target that is a folder without its final slash is still that page. */
function chooseRewrite(has: (file: string) => boolean, to: string, status: number): Choice {
  const [address = ''] = splitUrl(to)
  const path = decodePath(address)
  if (!path) return { status: 404 }
  const found = findFile(has, path, address.endsWith('/'))
  const again = found && 'redirect' in found ? findFile(has, path, !address.endsWith('/')) : found
  return again && 'file' in again ? { status, file: again.file } : { status: 404 }
}

function answerFile(
  site: OpenSite,
  path: string,
  file: SiteFile,
  status: number,
  { method, headers }: SiteRequest,
): SiteAnswer {
  const isOk = status === 200
  const wantsRange = isOk && method === 'GET' && headers.range !== undefined
  const encoding = wantsRange ? undefined : chooseEncoding(file, headers['accept-encoding'])
  const size = encoding ? file.encoded[encoding]! : file.size
  const etag = `"${encoding ? `${file.content}-${encoding}` : file.content}"`
  // The time of the build, because build tools give files of different content the same time.
  const modified = new Date(site.built_at).toUTCString()
  const common = {
    'Content-Type': file.type,
    'Cache-Control': isOk && isImmutable(path) ? IMMUTABLE : REVALIDATE,
    'X-Content-Type-Options': 'nosniff',
    ...(Object.keys(file.encoded).length > 0 && { Vary: 'Accept-Encoding' }),
    ...(isOk && { ETag: etag, 'Last-Modified': modified, 'Accept-Ranges': 'bytes' }),
  }
  if (isOk && isUnchanged(headers, etag, modified)) return { status: 304, headers: common, body: null }
  const range =
    wantsRange && isRangeOfThis(headers['if-range'], etag, modified) ? readRange(headers.range!, size) : null
  if (range === 'unsatisfiable') return problem(416, 'The file is shorter.', { 'Content-Range': `bytes */${size}` })
  const [start, end] = range ?? [0, size - 1]
  return {
    status: range ? 206 : status,
    headers: {
      ...common,
      'Content-Length': String(end - start + 1),
      ...(encoding && { 'Content-Encoding': encoding }),
      ...(range && { 'Content-Range': `bytes ${start}-${end}/${size}` }),
    },
    body: { content: file.content, encoding, start, end },
  }
}

/** The one with the highest quality, and the smallest form if several have it. */
function chooseEncoding({ encoded }: SiteFile, accepted = ''): Encoding | undefined {
  const qualities = new Map<string, number>()
  for (const part of accepted.toLowerCase().split(',', 20)) {
    const [name = '', ...parameters] = part.split(';').map(text => text.trim())
    const q = parameters.find(parameter => parameter.startsWith('q='))
    qualities.set(name, q === undefined ? 1 : Number(q.slice(2)) || 0)
  }
  const qualityOf = (name: string, otherwise: number) => qualities.get(name) ?? qualities.get('*') ?? otherwise
  const best = ENCODINGS.filter(name => encoded[name] !== undefined && qualityOf(name, 0) > 0).sort(
    (a, b) => qualityOf(b, 0) - qualityOf(a, 0) || encoded[a]! - encoded[b]!,
  )[0]
  // `identity` without a quality is the last choice.
  return best && qualityOf(best, 0) >= (qualities.get('identity') ?? 0) ? best : undefined
}

/** Compares the time for equality: after a rollback the present file is the older one. */
function isUnchanged(headers: IncomingHttpHeaders, etag: string, modified: string): boolean {
  const tags = headers['if-none-match']
  if (tags === undefined) return headers['if-modified-since'] === modified
  return tags.split(',').some(tag => ['*', etag].includes(tag.trim().replace(/^W\//, '')))
}

const isRangeOfThis = (condition: string | string[] | undefined, etag: string, modified: string): boolean =>
  condition === undefined || condition === etag || condition === modified

/** Null for several ranges or another unit: then the whole file is the answer. */
function readRange(header: string, size: number): [start: number, end: number] | 'unsatisfiable' | null {
  const [, first = '', last = ''] = /^bytes=(\d{0,15})-(\d{0,15})$/i.exec(header.trim()) ?? []
  if (first === '' && last === '') return null
  if (first === '') {
    const length = Math.min(Number(last), size)
    return length === 0 ? 'unsatisfiable' : [size - length, size - 1]
  }
  const start = Number(first)
  if (last !== '' && Number(last) < start) return null
  if (start >= size) return 'unsatisfiable'
  return [start, last === '' ? size - 1 : Math.min(Number(last), size - 1)]
}

const problem = (status: number, detail: string, headers: SiteAnswer['headers'] = {}): SiteAnswer => ({
  status,
  headers,
  body: null,
  problem: detail,
})

function withRules(site: OpenSite, path: string[], answer: SiteAnswer): SiteAnswer {
  const headers = { ...answer.headers }
  for (const [lower, { name, values }] of headersFor(site.headers, path)) {
    const own = Object.keys(headers).find(key => key.toLowerCase() === lower)
    const present = own === 'Vary' ? [String(headers[own])] : []
    if (own) delete headers[own]
    const all = values.length > 0 ? [...present, ...values] : []
    if (all.length > 0) headers[own ?? name] = lower === 'set-cookie' ? all : all.join(', ')
  }
  return { ...answer, headers }
}
