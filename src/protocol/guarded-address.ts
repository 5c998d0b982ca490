// Which addresses may be fetched at all, judged by what is written: their scheme, host and port (pure).

type UrlPolicy = { publicUrl: string | undefined; allowLoopback: boolean }

const MAX_URL_LENGTH = 2048
const MAX_HOST_LENGTH = 253
const HOST_NAME = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)+$/
/** The URL parser has made four parts of every other spelling of an IPv4 address; that it did is not relied on. */
const IP_LITERAL = /^\[|(^|\.)(\d+|0x[0-9a-f]*)$/
export const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/
/** Names that are nobody's in public, and those that local networks are known to answer to. */
const NON_PUBLIC_NAME =
  /(^|\.)(localhost|local|internal|arpa|test|invalid|onion|alt|localdomain|lan|home|corp|intranet|private|svc)$/
/** `new URL` would drop these from within an address, or read them as something else. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const DISGUISING_CHARACTER = /[\u0000-\u0020\u007f-\u00a0\\]/

export type UrlVerdict = { url: URL; refusal?: undefined } | { url?: URL; refusal: string }

const hostWithoutDot = (url: URL): string => url.hostname.replace(/\.$/, '')
const portOf = ({ port, protocol }: URL): string => port || (protocol === 'https:' ? '443' : '80')

/** The address as it will be fetched (no fragment, no trailing dot), or why it will not be. */
export function judgeUrl(policy: UrlPolicy, origin: string, text: string): UrlVerdict {
  if (text.length > MAX_URL_LENGTH) return { refusal: `the address is longer than ${MAX_URL_LENGTH} characters` }
  if (DISGUISING_CHARACTER.test(text))
    return { refusal: 'the address has spaces, control characters or backslashes in it' }
  if (!URL.canParse(text)) return { refusal: 'that is no address' }
  const url = new URL(text)
  url.hash = ''
  if (url.protocol === 'https:' || url.protocol === 'http:') url.hostname = hostWithoutDot(url)
  const refusal = findRefusal(policy, origin, url)
  return refusal === undefined ? { url } : { url, refusal }
}

function findRefusal({ publicUrl, allowLoopback }: UrlPolicy, origin: string, url: URL): string | undefined {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'it is not `https`'
  if (url.username || url.password) return 'a user name or password stands in it'
  if (url.port && Number(url.port) < 1024) return 'ports below 1024 other than 443 are not fetched'
  const own = [origin, publicUrl].flatMap(one => (one && URL.canParse(one) ? [new URL(one)] : []))
  if (allowLoopback && LOOPBACK_HOST.test(url.hostname)) {
    // On one machine every name of it is the same host, and only the port tells who it is.
    const ours = own.some(one => LOOPBACK_HOST.test(hostWithoutDot(one)) && portOf(one) === portOf(url))
    return ours ? 'it is this installation' : undefined
  }
  if (url.protocol !== 'https:') return 'it is not `https`'
  if (IP_LITERAL.test(url.hostname)) return 'it names an IP address instead of a host'
  if (!url.hostname.includes('.')) return 'its host is a single word, which is no public name'
  if (NON_PUBLIC_NAME.test(url.hostname)) return 'its host is not a public name'
  if (url.hostname.length > MAX_HOST_LENGTH || !HOST_NAME.test(url.hostname)) return 'its host is no valid name'
  if (own.some(one => hostWithoutDot(one) === url.hostname)) return 'it is this installation'
  return undefined
}
