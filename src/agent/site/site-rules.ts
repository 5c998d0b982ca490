// The files `_headers` and `_redirects` of a site, in the format of Netlify and Cloudflare Pages. Pure.
import { validateHeaderName, validateHeaderValue } from 'node:http'
import { isConnectionHeader } from '../system/connection-headers.ts'
import { decodePath, encodePath } from './site-paths.ts'

/** Segments of a path. `:name` is one segment, and one `*` is any text, also across segments. */
export type PathPattern = string[]
/** `to` is an encoded path of the site, or an address of another one. `forced`: also where the site has a file. */
export type Redirect = { from: PathPattern; to: string; status: number; forced: boolean }
/** A null removes the header, also one that the router sets. */
export type HeaderRule = { path: PathPattern; headers: [name: string, value: string | null][] }
export type SiteRules = { redirects: Redirect[]; headers: HeaderRule[] }
type Parsed<Rule> = { rules: Rule[]; warnings: string[] }

export const MAX_RULES_BYTES = 256 * 1024
const MAX_REDIRECTS = 2_000
const MAX_HEADER_RULES = 200
const MAX_LINES = 5_000
const MAX_LINE_LENGTH = 2_000
const MAX_WARNINGS = 20
const STATUSES = new Set([200, 301, 302, 303, 307, 308, 404])
/** The default of Netlify, whose format it is. */
const DEFAULT_STATUS = 301
const PLACEHOLDER = /^:[a-z]\w*$/i
const SAME_SITE = 'http://site.invalid'
/** They describe the bytes that the router sends, so a rule cannot know them. */
const ROUTER_HEADERS = new Set([
  'accept-ranges',
  'content-encoding',
  'content-range',
  'date',
  'etag',
  'last-modified',
  'location',
])
/** The headers of protection by a password, which would be sent to everybody. */
const PASSWORD_HEADERS = new Set(['basic-auth', 'authorization'])

/** A fault of one line. */
class RuleFault extends Error {}

export const isRedirection = (status: number): boolean => status >= 300 && status < 400

export function parseRedirects(text: string): Parsed<Redirect> {
  const rules: Redirect[] = []
  return parseLines('_redirects', text, rules, line => {
    if (rules.length === MAX_REDIRECTS) throw new RuleFault(`a site has at most ${MAX_REDIRECTS} redirects`)
    rules.push(parseRedirect(line))
  })
}

function parseRedirect(line: string): Redirect {
  const [source = '', target, code = String(DEFAULT_STATUS), ...conditions] = line.trim().split(/\s+/)
  const from = parsePattern(source)
  if (target === undefined) throw new RuleFault('it has no target')
  if (!/^(\/|https?:)/i.test(target))
    throw new RuleFault(
      `the target \`${target}\` must begin with \`/\` or \`https://\`, and parameters are not supported`,
    )
  if (conditions.length > 0) throw new RuleFault(`the condition \`${conditions[0]}\` is not supported`)
  const status = Number(code.replace('!', ''))
  if (!/^\d{3}!?$/.test(code) || !STATUSES.has(status))
    throw new RuleFault(`the status \`${code}\` is not one of ${[...STATUSES].join(', ')}`)
  const forced = code.endsWith('!')
  const url = URL.canParse(target, SAME_SITE) ? new URL(target, SAME_SITE) : undefined
  if (!url || url.username || url.password) throw new RuleFault(`\`${target}\` is not an address`)
  const isSameSite = target.startsWith('/')
  // `//host` and `/\host` are addresses of another host.
  if (isSameSite && url.origin !== SAME_SITE) throw new RuleFault(`\`${target}\` must begin with one \`/\``)
  if (!isSameSite && !isRedirection(status))
    throw new RuleFault(`a rule with the status ${status} answers with a file of this site, so its target is a path`)
  const to = isSameSite ? url.href.slice(SAME_SITE.length) : url.href
  const next = isSameSite && isRedirection(status) ? decodePath(url.pathname) : undefined
  const isSame = next !== undefined && encodePath(next) === encodePath(from)
  if (next && (isSame || (forced && !to.includes(':') && matchPath(from, next))))
    throw new RuleFault('it redirects to itself')
  return { from, to, status, forced }
}

export function parseHeaders(text: string): Parsed<HeaderRule> {
  const rules: HeaderRule[] = []
  let open: HeaderRule | undefined
  return parseLines('_headers', text, rules, line => {
    if (!/^\s/.test(line)) {
      open = undefined
      if (rules.length === MAX_HEADER_RULES) throw new RuleFault(`a site has at most ${MAX_HEADER_RULES} paths there`)
      open = { path: parsePattern(line.trim()), headers: [] }
      rules.push(open)
      return
    }
    if (!open) throw new RuleFault('it belongs to no path')
    open.headers.push(parseHeader(line.trim()))
  })
}

function parseHeader(line: string): [string, string | null] {
  const isRemoval = line.startsWith('!')
  const colon = line.indexOf(':')
  if (!isRemoval && colon < 0) throw new RuleFault('it is not `Name: value`')
  const name = (isRemoval ? line.slice(1) : line.slice(0, colon)).trim()
  const lower = name.toLowerCase()
  if (PASSWORD_HEADERS.has(lower)) throw new RuleFault('a site has no passwords: everybody can read its files')
  if (isConnectionHeader(lower) || ROUTER_HEADERS.has(lower)) throw new RuleFault(`the router itself sets \`${name}\``)
  const value = isRemoval ? null : line.slice(colon + 1).trim()
  try {
    validateHeaderName(name)
    if (value !== null) validateHeaderValue(name, value)
  } catch {
    throw new RuleFault('its name or value has characters that a header cannot have')
  }
  return [name, value]
}

function parseLines<Rule>(file: string, text: string, rules: Rule[], parse: (line: string) => void): Parsed<Rule> {
  const warnings: string[] = []
  const lines = text.split('\n')
  if (lines.length > MAX_LINES) warnings.push(`The lines of \`${file}\` after the first ${MAX_LINES} are ignored.`)
  for (const [i, whole] of lines.slice(0, MAX_LINES).entries()) {
    const comment = /(?:^|\s)#/.exec(whole)
    const line = (comment ? whole.slice(0, comment.index) : whole).trimEnd()
    if (line === '') continue
    try {
      if (line.length > MAX_LINE_LENGTH) throw new RuleFault(`it has more than ${MAX_LINE_LENGTH} characters`)
      parse(line)
    } catch (error) {
      if (!(error instanceof RuleFault)) throw error
      warnings.push(`Line ${i + 1} of \`${file}\` is ignored: ${error.message}.`)
    }
  }
  const surplus = warnings.splice(MAX_WARNINGS).length
  if (surplus > 0) warnings.push(`${surplus} more lines of \`${file}\` are ignored.`)
  return { rules, warnings }
}

function parsePattern(text: string): PathPattern {
  if (!text.startsWith('/')) throw new RuleFault(`the path \`${text}\` must begin with \`/\``)
  if (text.includes('?')) throw new RuleFault(`the path \`${text}\` has parameters, which are not supported`)
  const pattern = decodePath(text)
  if (!pattern) throw new RuleFault(`\`${text}\` is not a path`)
  if (pattern.join('/').split('*').length > 2) throw new RuleFault(`\`${text}\` has more than one \`*\``)
  const unfit = pattern.find(segment => segment.startsWith(':') && !PLACEHOLDER.test(segment))
  if (unfit !== undefined) throw new RuleFault(`\`${unfit}\` is not the name of a segment`)
  return pattern
}

/** The values of the placeholders and of the `splat`. Undefined: the path does not match, mostly at its first part. */
export function matchPath(pattern: PathPattern, path: string[]): Map<string, string> | undefined {
  let star = 0
  while (star < pattern.length && !pattern[star]!.includes('*')) {
    if (!fits(pattern[star]!, path[star])) return undefined
    star++
  }
  const hasStar = star < pattern.length
  if (!hasStar && path.length !== star) return undefined
  /** The segments of the path that are more than those of the pattern. */
  const shift = path.length - pattern.length
  // `/blog/*` matches `/blog` too.
  const isOpenEnd = star === pattern.length - 1 && pattern[star] === '*'
  if (shift < (isOpenEnd ? -1 : 0)) return undefined
  for (let i = star + 1; i < pattern.length; i++) if (!fits(pattern[i]!, path[i + shift])) return undefined
  const values = new Map<string, string>()
  for (const [i, part] of pattern.entries())
    if (isPlaceholder(part)) values.set(part.slice(1), path[i < star ? i : i + shift]!)
  if (!hasStar) return values
  const [before = '', after = ''] = pattern[star]!.split('*')
  const text = path.slice(star, star + shift + 1).join('/')
  if (text.length < before.length + after.length || !text.startsWith(before) || !text.endsWith(after)) return undefined
  return values.set('splat', text.slice(before.length, text.length - after.length))
}

const isPlaceholder = (part: string): boolean => part.startsWith(':')
const fits = (part: string, segment: string | undefined): boolean =>
  part === segment || (isPlaceholder(part) && segment !== undefined && segment !== '')

/** The target with the values of the path, encoded. A path never becomes an address of another host. */
export function fillTarget(to: string, values: Map<string, string>): string {
  const filled = to.replace(/:([a-z]\w*)/gi, (whole, name: string) => {
    const value = values.get(name)
    return value === undefined ? whole : value.split('/').map(encodeURIComponent).join('/')
  })
  return filled.startsWith('/') ? filled.replace(/^\/+/, '/') : filled
}

/** The headers of all rules that match, in the spelling of the first. Values of one name are joined. */
export function headersFor(rules: HeaderRule[], path: string[]): Map<string, { name: string; values: string[] }> {
  const found = new Map<string, { name: string; values: string[] }>()
  for (const rule of rules) {
    if (!matchPath(rule.path, path)) continue
    for (const [name, value] of rule.headers) {
      const lower = name.toLowerCase()
      if (value === null) found.set(lower, { name, values: [] })
      else found.set(lower, { name, values: [...(found.get(lower)?.values ?? []), value] })
    }
  }
  return found
}
