// Which addresses may be fetched at all, judged by what is written: their scheme, host and port (pure).
import type { Config } from '../env.ts'

type Policy = Pick<Config, 'publicUrl' | 'allowLoopback'>

const LONGEST = 2048
const LONGEST_NAME = 253
const NAME = /^[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]{0,61}[a-z0-9_])?)+$/
/** The URL parser has made four parts of every other spelling of an IPv4 address; that it did is not relied on. */
const LITERAL = /^\[|(^|\.)(\d+|0x[0-9a-f]*)$/
export const LOOPBACK = /^(localhost|127(\.\d{1,3}){3}|\[::1\])$/
/** Names that are nobody's in public, and those that local networks are known to answer to. */
const NOT_PUBLIC =
  /(^|\.)(localhost|local|internal|arpa|test|invalid|onion|alt|localdomain|lan|home|corp|intranet|private|svc)$/
/** `new URL` would drop these from within an address, or read them as something else. */
// biome-ignore lint/suspicious/noControlCharactersInRegex: they are what is looked for
const DISGUISE = /[\u0000-\u0020\u007f-\u00a0\\]/

export type Verdict = { url: URL; refusal?: undefined } | { url?: URL; refusal: string }

const host = (url: URL): string => url.hostname.replace(/\.$/, '')
const portOf = ({ port, protocol }: URL): string => port || (protocol === 'https:' ? '443' : '80')

/** The address as it will be fetched (no fragment, no trailing dot), or why it will not be. */
export function judge(policy: Policy, origin: string, text: string): Verdict {
  if (text.length > LONGEST) return { refusal: `the address is longer than ${LONGEST} characters` }
  if (DISGUISE.test(text)) return { refusal: 'the address has spaces, control characters or backslashes in it' }
  if (!URL.canParse(text)) return { refusal: 'that is no address' }
  const url = new URL(text)
  url.hash = ''
  if (url.protocol === 'https:' || url.protocol === 'http:') url.hostname = host(url)
  const refusal = refusalOf(policy, origin, url)
  return refusal === undefined ? { url } : { url, refusal }
}

function refusalOf({ publicUrl, allowLoopback }: Policy, origin: string, url: URL): string | undefined {
  if (url.protocol !== 'https:' && url.protocol !== 'http:') return 'it is not `https`'
  if (url.username || url.password) return 'a user name or password stands in it'
  if (url.port && Number(url.port) < 1024) return 'ports below 1024 other than 443 are not fetched'
  const own = [origin, publicUrl].flatMap(one => (one && URL.canParse(one) ? [new URL(one)] : []))
  if (allowLoopback && LOOPBACK.test(url.hostname)) {
    // On one machine every name of it is the same host, and only the port tells who it is.
    const ours = own.some(one => LOOPBACK.test(host(one)) && portOf(one) === portOf(url))
    return ours ? 'it is this installation' : undefined
  }
  if (url.protocol !== 'https:') return 'it is not `https`'
  if (LITERAL.test(url.hostname)) return 'it names an IP address instead of a host'
  if (!url.hostname.includes('.')) return 'its host is a single word, which is no public name'
  if (NOT_PUBLIC.test(url.hostname)) return 'its host is not a public name'
  if (url.hostname.length > LONGEST_NAME || !NAME.test(url.hostname)) return 'its host is no valid name'
  if (own.some(one => host(one) === url.hostname)) return 'it is this installation'
  return undefined
}
