// The URLs that a call of a model may address (pure). URLs are compared once they are parsed, never as text.
import { fail } from '../../kernel/http/errors.ts'

export type AllowedUrls = { mode: 'configurations' | 'all' | 'none' | 'list'; patterns: readonly string[] }

/** Characters that a parser, a server or a proxy could read differently. */
const AMBIGUOUS = /[\p{Cc}\p{Cf}\p{Z}\\#]/u
/** A URL without userinfo and query. */
const HTTP_URL = /^https?:\/\/[^/?@]+(\/[^?]*)?$/i
const MEANINGFUL = /[/\\\p{Cc}]/u
/** Matches also before a character that a decoding server takes for a parameter, query or fragment, or cuts off. */
const DOT_SEGMENT = /^\s*\.{1,2}\s*([;?#].*)?$/s
const MAX_DECODINGS = 4

/**
 * A segment stays one segment, and no dot segment, however often a server decodes it and whichever characters it takes
 * for the same.
 */
function isPlainSegment(segment: string): boolean {
  let text = segment
  for (let decodings = 0; decodings <= MAX_DECODINGS; decodings++) {
    const folded = text.normalize('NFKC')
    if (MEANINGFUL.test(folded) || DOT_SEGMENT.test(folded)) return false
    const decoded = decode(text)
    // Only the first decoding must succeed: `%25` is a percent sign.
    if (decoded === null) return decodings > 0
    if (decoded === text) return true
    text = decoded
  }
  return false
}

function decode(text: string): string | null {
  try {
    return decodeURIComponent(text)
  } catch {
    return null
  }
}

/** Empty segments are refused, except for a last one: servers treat them differently. */
const isPlainPath = (path: string): boolean =>
  path
    .split('/')
    .every((segment, i, all) => (segment === '' ? i === 0 || i === all.length - 1 : isPlainSegment(segment)))

function parsePlainUrl(text: string): URL | null {
  if (AMBIGUOUS.test(text) || !HTTP_URL.test(text) || !URL.canParse(text)) return null
  const path = text.slice(text.indexOf('//') + 2).replace(/^[^/]*/, '')
  const url = new URL(text)
  return isPlainPath(path) && !url.hostname.endsWith('.') ? url : null
}

/** The base of a configuration, without a slash at the end. Null: it is none. */
export function parseBaseUrl(text: string): URL | null {
  const url = parsePlainUrl(text)
  if (url) url.pathname = url.pathname.replace(/\/$/, '')
  return url
}

const basePath = ({ pathname }: URL): string => pathname.replace(/\/$/, '')

/** `rest`: the path below the base as the caller sent it, and its query. Null: it may address something else. */
export function joinUrl(baseUrl: string, rest: string): URL | null {
  const base = parseBaseUrl(baseUrl)
  if (!base || AMBIGUOUS.test(rest)) return null
  const [path = '', ...query] = rest.replace(/^\//, '').split('?')
  const url = parsePlainUrl(`${base.origin}${basePath(base)}${path === '' ? '' : `/${path}`}`)
  if (!url) return null
  if (query.length > 0) url.search = query.join('?')
  return url.origin === base.origin && isBelow(url.pathname, basePath(base)) ? url : null
}

const isBelow = (path: string, base: string): boolean => path === base || path.startsWith(`${base}/`)

type Pattern = { protocol: string; host: string; anyLabel: boolean; path: string; anySuffix: boolean }

/** Parses `https://host[:port]/path`, where `*` is the whole first label of the host, or the end of the path. */
export function parsePattern(text: string): Pattern | null {
  const anyLabel = /^https?:\/\/\*\./i.test(text)
  const anySuffix = text.endsWith('*')
  const plain = (anySuffix ? text.slice(0, -1) : text).replace('://*.', '://')
  const url = plain.includes('*') ? null : parsePlainUrl(plain)
  const hasPath = /^https?:\/\/[^/]+\//i.test(plain)
  if (!url || !hasPath) return null
  if (anyLabel && !isDomainName(url.hostname)) return null
  return { protocol: url.protocol, host: url.host, anyLabel, path: url.pathname, anySuffix }
}

/** A name needs two labels or more: `*.com` would be everybody's. */
const isDomainName = (hostname: string): boolean => hostname.includes('.') && /[a-z]/.test(hostname)

/** The text by which the database compares it. Null: it is no pattern. */
export function normalizePattern(text: string): string | null {
  const pattern = parsePattern(text)
  if (!pattern) return null
  const { protocol, host, anyLabel, path, anySuffix } = pattern
  return `${protocol}//${anyLabel ? '*.' : ''}${host}${path}${anySuffix ? '*' : ''}`
}

/** Normalized patterns for the host of the URL begin with one of these. */
export const originsOfPatterns = ({ protocol, host }: URL): string[] => [
  `${protocol}//${host}`,
  `${protocol}//*.${withoutFirstLabel(host)}`,
]

const withoutFirstLabel = (host: string): string => host.replace(/^[^.]+\./, '')

function matchesHost({ protocol, host, anyLabel }: Pattern, url: URL): boolean {
  if (protocol !== url.protocol) return false
  return anyLabel ? withoutFirstLabel(url.host) === host : url.host === host
}

const matches = (pattern: Pattern, url: URL): boolean =>
  matchesHost(pattern, url) &&
  (pattern.anySuffix ? url.pathname.startsWith(pattern.path) : url.pathname === pattern.path)

/** Takes URLs that `joinUrl()` returned. */
export function isAllowedUrl(url: URL, { mode, patterns }: AllowedUrls): boolean {
  if (mode !== 'list') return mode !== 'none'
  return patterns.some(text => {
    const pattern = parsePattern(text)
    return pattern !== null && matches(pattern, url)
  })
}

/** The URL that a call addresses, or a refusal. */
export function requireCallUrl(baseUrl: string, rest: string, allowed: AllowedUrls): URL {
  const url = joinUrl(baseUrl, rest)
  if (!url) throw fail('model_url_not_allowed', { about: 'the path does not stay below the `base_url`' })
  if (!isAllowedUrl(url, allowed)) throw fail('model_url_not_allowed', { about: url.origin + url.pathname })
  return url
}
