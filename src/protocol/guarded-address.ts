// Refuses URLs that must not be fetched, by their scheme, host and port as written (pure).

type UrlPolicy = {
  publicUrl: string | undefined
  allowLoopback: boolean
  /** Also private addresses, names of local networks, and plain http to them. */
  allowPrivate?: boolean
}

const MAX_URL_LENGTH = 2048
const MAX_HOST_LENGTH = 253
const HOST_NAME = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)+$/
const SINGLE_WORD = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?$/
/** Covers other spellings of IPv4 addresses too, although the URL parser should have normalized them. */
const IP_LITERAL = /^\[|(^|\.)(\d+|0x[0-9a-f]*)$/
export const LOOPBACK_HOST = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/
/** Reserved names, and names that local networks commonly use. */
const NON_PUBLIC_NAME =
  /(^|\.)(localhost|local|internal|arpa|test|invalid|onion|alt|localdomain|lan|home|corp|intranet|private|svc)$/
/** `new URL` drops or reinterprets these characters, which would disguise the address. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: the pattern looks for control characters
const DISGUISING_CHARACTER = /[\u0000-\u0020\u007f-\u00a0\\]/

export type UrlVerdict = { url: URL; refusal?: undefined } | { url?: URL; refusal: string }

const hostWithoutDot = (url: URL): string => url.hostname.replace(/\.$/, '')
const portOf = ({ port, protocol }: URL): string => port || (protocol === 'https:' ? '443' : '80')

export function judgeUrl(policy: UrlPolicy, origin: string, text: string): UrlVerdict {
  if (text.length > MAX_URL_LENGTH) return { refusal: `the address is longer than ${MAX_URL_LENGTH} characters` }
  if (DISGUISING_CHARACTER.test(text))
    return { refusal: 'the address contains spaces, control characters or backslashes' }
  if (!URL.canParse(text)) return { refusal: 'it is not a valid URL' }
  const url = new URL(text)
  url.hash = ''
  if (url.protocol === 'https:' || url.protocol === 'http:') url.hostname = hostWithoutDot(url)
  const refusal = findRefusal(policy, origin, url)
  return refusal === undefined ? { url } : { url, refusal }
}

function findRefusal(
  { publicUrl, allowLoopback, allowPrivate }: UrlPolicy,
  origin: string,
  url: URL,
): string | undefined {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'it is not `https`'
  if (url.username || url.password) return 'it contains a user name or password'
  if (url.port && Number(url.port) < 1024) return 'ports below 1024 other than 443 are not allowed'
  const ownUrls = [origin, publicUrl].flatMap(text => (text && URL.canParse(text) ? [new URL(text)] : []))
  if (allowLoopback && LOOPBACK_HOST.test(url.hostname)) {
    // All loopback names are the same host, so the port decides whether it is this installation.
    const isOwn = ownUrls.some(ownUrl => LOOPBACK_HOST.test(hostWithoutDot(ownUrl)) && portOf(ownUrl) === portOf(url))
    return isOwn ? 'it is the address of this installation' : undefined
  }
  const refusal = allowPrivate ? findPrivateRefusal(url) : findPublicRefusal(url)
  if (refusal !== undefined) return refusal
  if (ownUrls.some(ownUrl => hostWithoutDot(ownUrl) === url.hostname)) return 'it is the address of this installation'
  return undefined
}

function findPublicRefusal({ protocol, hostname }: URL): string | undefined {
  if (protocol !== 'https:') return 'it is not `https`'
  if (IP_LITERAL.test(hostname)) return 'it contains an IP address instead of a host name'
  if (!hostname.includes('.')) return 'its host is a single word and not a public name'
  if (NON_PUBLIC_NAME.test(hostname)) return 'its host is not a public name'
  if (hostname.length > MAX_HOST_LENGTH || !HOST_NAME.test(hostname)) return 'its host is not a valid name'
  return undefined
}

function findPrivateRefusal({ hostname }: URL): string | undefined {
  if (LOOPBACK_HOST.test(hostname) || /(^|\.)localhost$/.test(hostname)) return 'it is an address of this machine'
  if (IP_LITERAL.test(hostname)) return undefined
  const isName = HOST_NAME.test(hostname) || SINGLE_WORD.test(hostname)
  return isName && hostname.length <= MAX_HOST_LENGTH ? undefined : 'its host is not a valid name'
}
